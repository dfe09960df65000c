// Local SGD: steps that nobody waits for, then one all_reduce of the parameters, flattened into one
// tensor (torch/distributed/algorithms/model_averaging/utils.py, average_parameters).
#include "strategy/program_builder.hpp"

namespace rehearse {

namespace {

class LocalSgdProgram {
 public:
  LocalSgdProgram(const LocalSgd& options, const Job& job, const NodeGroup& group,
                  const StepCosts& costs)
      : options_(options),
        job_(job),
        builder_(group.name, costs, job),
        nccl_(builder_.lane("nccl", LaneKind::communication)) {}

  Program make() {
    builder_.hold_parameters();
    builder_.hold_surroundings();
    for (int step = 0; step < options_.period; ++step) {
      builder_.training_step(step, options_.period);
      add_step();
    }
    average();
    return std::move(builder_.program);
  }

 private:
  void add_step() {
    for (std::size_t unit = 0; unit < job_.model.units.size(); ++unit) {
      const OpId op = builder_.forward(unit);
      if (!first_) first_ = op;
    }
    for (std::size_t unit = job_.model.units.size(); unit-- > 0;)
      builder_.backward(unit, builder_.local_gradients());
    last_ = builder_.local_update();
    builder_.give_gradients(last_);
  }

  /// The next period begins with what this one averaged.
  void average() {
    const Bytes size = parameter_bytes(job_.model, job_.precision);
    const OpId op = builder_.collective(
        nccl_, "parameters",
        {.kind = CollectiveKind::all_reduce, .size = size, .algorithm = options_.algorithm},
        {{last_}});
    const TensorId flat =
        builder_.tensor(MemoryKind::communication, size, builder_.owner("flat copy"));
    builder_.take(op, flat);
    builder_.give(op, flat);
    builder_[*first_].after.push_back({op, 1});
  }

  const LocalSgd& options_;
  const Job& job_;
  ProgramBuilder builder_;
  LaneId nccl_;
  std::optional<OpId> first_;  ///< forward of a period
  OpId last_{};                ///< optimizer
};

}  // namespace

Schedule build(const LocalSgd& options, const Job& job) {
  require_gpus(job);
  Schedule schedule =
      schedule_by_node_group(job, [&](const NodeGroup& group, const StepCosts& costs) {
        return LocalSgdProgram(options, job, group, costs).make();
      });
  add_world(schedule);
  return schedule;
}

}  // namespace rehearse
