// A GPU that trains on its own: a step of local SGD.
#include "strategy/holdings.hpp"
#include "strategy/sync/programs.hpp"

namespace rehearse::inline strategy {
namespace {

class OneGpu : public Sync {
 public:
  explicit OneGpu(ProgramBuilder& builder) : builder_(builder), optimizer_(builder) {}

  void setup() override {
    hold_parameters(builder_);
    hold_surroundings(builder_);
  }
  Gradients gradients(const Pass& pass) const override {
    return pass.first ? optimizer_.gradients() : Gradients::added;
  }
  void after_backward(std::size_t /*unit*/, OpId /*backward*/, const Pass& /*pass*/) override {}
  void step() override { builder_.tapes().give_gradients(optimizer_.step()); }

 private:
  ProgramBuilder& builder_;
  LocalOptimizer optimizer_;
};

}  // namespace

Program alone(const RankJob& rank) {
  const StagePlan plan = StagePlan::alone(rank.job.model, 1);
  ProgramBuilder builder(rank.name, rank.costs, rank.job);
  OneGpu sync(builder);
  return walk(plan, builder, sync);
}

}  // namespace rehearse::inline strategy
