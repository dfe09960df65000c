// A GPU that trains on its own: a step of local SGD.
#include "strategy/sync/programs.hpp"

namespace rehearse::inline strategy {
namespace {

class Alone : public Sync {
 public:
  explicit Alone(ProgramBuilder& builder) : builder_(builder) {}

  void setup() override {
    builder_.hold_parameters();
    builder_.hold_surroundings();
  }
  Gradients gradients(const Pass& pass) const override {
    return pass.first ? builder_.local_gradients() : Gradients::added;
  }
  void after_backward(std::size_t /*unit*/, OpId /*backward*/, const Pass& /*pass*/) override {}
  void step() override { builder_.give_gradients(builder_.local_update()); }

 private:
  ProgramBuilder& builder_;
};

}  // namespace

Program alone(const RankJob& rank) {
  const StagePlan plan = StagePlan::alone(rank.job.model, 1);
  ProgramBuilder builder(rank.name, rank.costs, rank.job);
  Alone sync(builder);
  return walk(plan, builder, sync);
}

}  // namespace rehearse::inline strategy
