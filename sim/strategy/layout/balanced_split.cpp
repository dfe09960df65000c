#include "strategy/layout/balanced_split.hpp"

#include <algorithm>
#include <limits>
#include <set>

#include "model/memory_tape.hpp"
#include "model/stages.hpp"
#include "strategy/program_builder.hpp"

namespace rehearse::inline strategy {
namespace {

/// Of a split so far: its fullest stage, and how uneven its stages are.
struct Balance {
  double fullest = std::numeric_limits<double>::infinity();
  double squares = 0;
  std::size_t before = 0;  ///< blocks in front of its last stage

  bool operator<(const Balance& other) const {
    return fullest != other.fullest ? fullest < other.fullest : squares < other.squares;
  }
};

class SplitBalancer {
 public:
  SplitBalancer(const Strategy& strategy, const Job& job)
      : strategy_(strategy),
        layout_(*strategy.layout),
        job_(job),
        order_(order_of(layout_)),
        stages_(static_cast<std::size_t>(order_.stage_count())),
        cuts_(cuts_of(job.model)),
        blocks_(counted_units(job.model)) {
    find_groups();
    if (layout_.balance == Layout::Balance::memory) find_activations();
    for (std::size_t stage = 0; stage < stages_; ++stage) sums_.push_back(sums_of(stage));
  }

  std::vector<std::int64_t> split() const;

 private:
  void find_groups();
  void find_activations();
  double load_of(const Unit& unit, std::size_t number, std::size_t stage, std::size_t group) const;
  std::vector<double> sums_of(std::size_t stage) const;
  bool computes_again(std::size_t unit) const {
    return !job_.checkpointed.empty() && job_.checkpointed[unit];
  }
  double load(std::size_t stage, std::size_t first, std::size_t end) const {
    return sums_[stage][end] - sums_[stage][first];
  }
  /// Behind so many blocks; nothing may end a stage there: 0.
  std::size_t unit_behind(std::size_t blocks, std::size_t stage) const {
    if (stage + 1 == stages_) return job_.model.units.size();
    return blocks < blocks_.size() ? blocks_[blocks] : blocks_.back() + 1;
  }
  bool may_end(std::size_t first, std::size_t end) const {
    return first < end && (end >= cuts_.size() || cuts_[end]);
  }

  const Strategy& strategy_;
  const Layout& layout_;
  const Job& job_;
  PipelineOrder order_;
  std::size_t stages_;
  std::vector<bool> cuts_;
  std::vector<std::size_t> blocks_;
  std::vector<std::set<std::size_t>> groups_;  ///< of nodes, by rank of a pipeline
  std::vector<Bytes> activations_;             ///< by unit: kept from forward to backward
  std::vector<std::vector<double>> sums_;      ///< by stage: loads of the units before each
};

void SplitBalancer::find_groups() {
  const auto mesh = mesh_on(layout_, job_.cluster.gpu_count());
  const std::vector<Place> places = gpu_places(job_.cluster);
  groups_.resize(static_cast<std::size_t>(layout_.mesh.pipeline));
  for (const auto& pipeline : groups(*mesh, {MeshAxis::pipeline}))
    for (std::size_t rank = 0; rank < pipeline.size(); ++rank) {
      const NodeGroup& group = job_.cluster.group_of(places[pipeline[rank]].node);
      groups_[rank].insert(static_cast<std::size_t>(&group - job_.cluster.groups.data()));
    }
}

void SplitBalancer::find_activations() {
  const MemoryTape tape = memory_tape(
      job_.model,
      {.precision = job_.precision, .batch = job_.batch_per_gpu, .device = job_.device});
  std::vector<bool> held(tape.tensors.size(), false);
  for (const UnitTape& unit : tape.units)
    for (const TapeEvent& event : unit.forward) held[event.tensor] = event.takes;
  activations_.assign(job_.model.units.size(), Bytes(0));
  for (std::size_t i = 0; i < held.size(); ++i)
    if (held[i]) activations_[tape.tensors[i].unit] += tape.tensors[i].size;
  for (std::size_t unit = 0; unit < activations_.size(); ++unit) {
    const Unit& own = job_.model.units[unit];
    if (!computes_again(unit) || own.layers.empty()) continue;
    const auto entering =
        static_cast<double>(job_.batch_per_gpu * own.layers.front().in.elements());
    activations_[unit] =
        std::min(activations_[unit], entering * activation_element(job_.precision));
  }
}

double SplitBalancer::load_of(const Unit& unit, std::size_t number, std::size_t stage,
                              std::size_t group) const {
  const NodeGroup& nodes = job_.cluster.groups[group];
  const UnitCost& cost = job_.costs[group].units[number];
  if (layout_.balance == Layout::Balance::time)
    return (cost.forward * (computes_again(number) ? 2.0 : 1.0) + cost.backward).value() /
           nodes.node.speed;
  const auto mesh = mesh_on(layout_, job_.cluster.gpu_count());
  const double replicas = static_cast<double>(mesh->data) * mesh->context;
  const bool zero = shards_optimizer(strategy_);
  const auto elements = static_cast<double>(unit.trainable_parameters());
  const Bytes stored = parameter_bytes(unit, job_.precision);
  const Bytes kept = elements * optimizer_memory(job_.optimizer).kept();
  const Bytes held = shards_parameters(strategy_) ? (2.0 * stored + kept) / replicas
                                                  : 2.0 * stored + kept / (zero ? replicas : 1.0);
  const auto rank = static_cast<std::size_t>(order_.place_of(static_cast<int>(stage)).rank);
  const double flying =
      std::min<double>(layout_.micro_batches / layout_.gradient_accumulation,
                       static_cast<double>(layout_.mesh.pipeline) - static_cast<double>(rank));
  const double capacity = nodes.node.gpu.memory.value();
  const Bytes saved = cost.activation > Bytes(0) && !computes_again(number) ? cost.activation
                                                                            : activations_[number];
  return (held + flying * saved).value() / (capacity > 0 ? capacity : 1);
}

std::vector<double> SplitBalancer::sums_of(std::size_t stage) const {
  const auto rank = static_cast<std::size_t>(order_.place_of(static_cast<int>(stage)).rank);
  std::vector<double> sums = {0};
  for (std::size_t unit = 0; unit < job_.model.units.size(); ++unit) {
    double most = 0;
    for (const std::size_t group : groups_[rank])
      most = std::max(most, load_of(job_.model.units[unit], unit, stage, group));
    sums.push_back(sums.back() + most);
  }
  return sums;
}

std::vector<std::int64_t> SplitBalancer::split() const {
  const std::size_t all = blocks_.size();
  std::vector<std::vector<Balance>> best(stages_, std::vector<Balance>(all + 1));
  for (std::size_t stage = 0; stage < stages_; ++stage) {
    for (std::size_t behind = stage + 1 == stages_ ? all : 0; behind <= all; ++behind) {
      for (std::size_t before = 0; before <= behind; ++before) {
        if (stage == 0 && before > 0) break;
        Balance so_far{.fullest = 0};
        if (stage > 0) so_far = best[stage - 1][before];
        const std::size_t first = stage == 0 ? 0 : unit_behind(before, stage - 1);
        const std::size_t end = unit_behind(behind, stage);
        if (!may_end(first, end)) continue;
        const double own = load(stage, first, end);
        so_far = {std::max(so_far.fullest, own), so_far.squares + own * own, before};
        if (so_far < best[stage][behind]) best[stage][behind] = so_far;
      }
    }
  }
  if (best.back()[all].fullest == std::numeric_limits<double>::infinity()) return {};
  std::vector<std::int64_t> counts(stages_);
  std::size_t behind = all;
  for (std::size_t stage = stages_; stage-- > 0;) {
    const std::size_t before = best[stage][behind].before;
    counts[stage] = static_cast<std::int64_t>(behind - before);
    behind = before;
  }
  return counts;
}

}  // namespace

std::vector<std::int64_t> balanced_split(const Strategy& strategy, const Job& job) {
  return SplitBalancer(strategy, job).split();
}

}  // namespace rehearse::inline strategy
