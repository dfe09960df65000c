#include "planner/layouts/layout_bound.hpp"

#include <algorithm>
#include <map>

#include "base/error.hpp"
#include "model/memory_tape.hpp"
#include "model/stages.hpp"
#include "planner/layouts/layout_exchanges.hpp"
#include "scenario/speed_spread.hpp"
#include "strategy/strategy.hpp"

namespace rehearse::inline planner {
namespace {

/// Ranks from which a schedule may be folded.
constexpr std::size_t kFolded = 64;

/// What a unit takes of its rank's time, with GPUs of one speed.
struct UnitTime {
  Seconds forward, backward;
};

/// How much longer than the nominal GPU those take that compute a stage.
struct Speeds {
  double fastest = 1;           ///< of all
  std::vector<double> slowest;  ///< by rank of a pipeline
};

/// From the end of the computation before a pass to the end of its own last one.
Seconds pass_time(const Unit& unit, const PassSegments& parts, Seconds whole, double slowdown,
                  LayoutExchanges* exchanges) {
  if (parts.exchanges.empty() || exchanges == nullptr) return slowdown * whole;
  Seconds now(0);
  std::map<ExchangeAxis, Seconds> free;  // by lane
  std::vector<std::pair<std::size_t, Seconds>> waiting;
  std::size_t next = 0;
  for (std::size_t part = 0; part < parts.durations.size(); ++part) {
    for (; next < parts.exchanges.size() && parts.exchanges[next].issued <= part; ++next) {
      const Exchange& exchange = unit.exchanges[parts.exchanges[next].exchange];
      Seconds& lane = free[exchange.axis];
      lane = std::max(lane, now) + exchanges->time(exchange);
      waiting.emplace_back(parts.exchanges[next].awaited, lane);
    }
    for (const auto& [awaited, end] : waiting)
      if (awaited == part) now = std::max(now, end);
    now += slowdown * parts.durations[part];
  }
  return now;
}

class LayoutTimes {
 public:
  LayoutTimes(const Scenario& scenario, const Mesh& mesh)
      : scenario_(scenario),
        mesh_(mesh),
        model_(computed_model(scenario)),
        costs_(group_costs(scenario).front()),
        order_(order_of(*scenario.strategy.layout)) {
    std::string why_not;
    ranges_ = split_into_stages(model_, static_cast<std::size_t>(order_.stage_count()),
                                scenario.strategy.layout->split, why_not);
    check(why_not.empty(), "a layout that was read can be split");
  }

  Seconds step() {
    const Speeds speeds = this->speeds();
    std::optional<LayoutExchanges> exchanges;
    if (plays_flows()) exchanges.emplace(scenario_, mesh_);
    LayoutExchanges* const with = exchanges ? &*exchanges : nullptr;
    const std::vector<UnitTime> fast = stages(speeds.fastest, with);
    Seconds longest(0);
    for (int rank = 0; rank < mesh_.pipeline; ++rank) {
      const double slowest = speeds.slowest[static_cast<std::size_t>(rank)];
      longest = std::max(longest, through(rank, fast, stages(slowest, with)));
    }
    return longest;
  }

  Bytes memory() const {
    const std::vector<Bytes> kept = kept_by_unit();
    Bytes most(0);
    for (int rank = 0; rank < mesh_.pipeline; ++rank) most = std::max(most, memory_of(rank, kept));
    return most;
  }

 private:
  bool is_checkpointed(std::size_t unit) const {
    return !scenario_.checkpointed.empty() && scenario_.checkpointed[unit];
  }
  /// At flow fidelity, where a collective takes at least what it takes for itself, and no action
  /// computes while the one beside it waits for its own.
  bool plays_flows() const {
    const bool travels =
        scenario_.comm && scenario_.comm->travels(mesh_.ranks(), scenario_.cluster.node_count());
    const bool beside = std::ranges::any_of(order_.order, [&](const auto& actions) {
      return std::ranges::count(beside_next(scenario_.strategy, actions), true) > 0;
    });
    return scenario_.run.fidelity != FidelityChoice::hop && !travels && !beside;
  }

  /// Of a folded schedule without jitter nobody says whether the slowest are among those kept.
  Speeds speeds() const {
    const std::size_t gpus = mesh_.ranks();
    const RunOptions& run = scenario_.run;
    std::vector<double> all(gpus, 1.0);
    if (run.speed_spread > 0) all = spread_slowdowns(run.speed_spread, gpus, run.seed);
    for (const Straggler& straggler : run.stragglers)
      all[straggler.rank] *= std::min(1.0, straggler.slowdown);
    for (double& one : all) one /= scenario_.cluster.groups.front().node.speed;
    Speeds speeds{.fastest = *std::ranges::min_element(all), .slowest = {}};
    speeds.slowest.assign(static_cast<std::size_t>(mesh_.pipeline), speeds.fastest);
    if (gpus > kFolded && run.jitter.distribution == Jitter::Distribution::none) return speeds;
    for (std::size_t rank = 0; rank < gpus; ++rank) {
      const int stage = coordinates(mesh_, rank)[static_cast<std::size_t>(MeshAxis::pipeline)];
      double& slowest = speeds.slowest[static_cast<std::size_t>(stage)];
      slowest = std::max(slowest, all[rank]);
    }
    return speeds;
  }

  /// One micro-batch, stage by stage of the model.
  std::vector<UnitTime> stages(double slowdown, LayoutExchanges* exchanges) const {
    std::vector<UnitTime> times;
    for (const auto& [first, end] : ranges_) {
      UnitTime& sum = times.emplace_back();
      for (std::size_t u = first; u < end; ++u) {
        const UnitCost& cost = costs_.units[u];
        const Unit& unit = model_.units[u];
        const Seconds forward =
            pass_time(unit, cost.forward_segments, cost.forward, slowdown, exchanges);
        sum.forward += forward;
        sum.backward += pass_time(unit, cost.backward_segments, cost.backward, slowdown, exchanges);
        const bool stops = stops_early(scenario_) && cost.unneeded > Seconds(0);
        if (is_checkpointed(u))
          sum.backward += stops ? slowdown * (cost.forward - cost.unneeded) : forward;
      }
    }
    return times;
  }

  /// A rank's own work, and what comes before and behind it on the way from the first rank and
  /// back.
  Seconds through(int rank, const std::vector<UnitTime>& fast,
                  const std::vector<UnitTime>& own) const {
    const auto at = static_cast<std::size_t>(rank);
    const std::vector<PipelineAction>& actions = order_.order[at];
    const auto stage_of = [&](const PipelineAction& action) {
      return static_cast<std::size_t>(order_.stages[at][action.chunk]);
    };
    Seconds sum(0);
    for (const PipelineAction& action : actions) {
      const UnitTime& time = own[stage_of(action)];
      // Of a backward in two parts each has some: counted once, with its second.
      if (action.what == PipelineAction::forward) sum += time.forward;
      if (action.what == PipelineAction::backward || action.what == PipelineAction::weight)
        sum += time.backward;
    }
    for (std::size_t stage = 0; stage < stage_of(actions.front()); ++stage)
      sum += fast[stage].forward;
    if (actions.back().what != PipelineAction::backward) return sum;
    for (std::size_t stage = 0; stage < stage_of(actions.back()); ++stage)
      sum += fast[stage].backward;
    return sum;
  }

  /// What a unit's forward takes and its backward gives back, for one micro-batch.
  std::vector<Bytes> kept_by_unit() const {
    const MemoryTape tape =
        memory_tape(model_, {.precision = computed_in(compute_precision(scenario_)),
                             .batch = scenario_.batch_per_gpu,
                             .device = device_of(scenario_)});
    std::vector<bool> held(tape.tensors.size(), false);
    for (const UnitTape& unit : tape.units)
      for (const TapeEvent& event : unit.forward) held[event.tensor] = event.takes;
    std::vector<Bytes> kept(model_.units.size());
    for (std::size_t i = 0; i < tape.tensors.size(); ++i) {
      const TapeTensor& one = tape.tensors[i];
      if (held[i] && one.role == TensorRole::activation && !is_checkpointed(one.unit))
        kept[one.unit] += one.size;
    }
    return kept;
  }

  /// Of what a rank's micro-batches in flight keep, at the moment when that is most.
  static Bytes most_kept(const std::vector<PipelineAction>& actions,
                         const std::vector<Bytes>& chunks) {
    Bytes now(0), most(0);
    for (const PipelineAction& action : actions) {
      if (action.what == PipelineAction::forward) now += chunks[action.chunk];
      if (action.what == PipelineAction::backward || action.what == PipelineAction::weight)
        now -= chunks[action.chunk];
      most = std::max(most, now);
    }
    return most;
  }

  /// Elements of what each rank keeps the states of are shared by `shards`.
  Bytes memory_of(int rank, const std::vector<Bytes>& kept) const {
    const auto at = static_cast<std::size_t>(rank);
    const bool sharded = shards_parameters(scenario_.strategy);
    const auto replicas = static_cast<double>(mesh_.data) * mesh_.context;
    // Experts are sharded among those that have the same ones, who may be more.
    const int of_experts = expert_mesh(mesh_).degree(MeshAxis::data);
    const double most = std::max(replicas, static_cast<double>(of_experts));
    const double shards = sharded || shards_optimizer(scenario_.strategy) ? most : 1;
    Bytes parameters(0), states(0);
    std::vector<Bytes> chunks;  // what a micro-batch keeps in each
    for (std::size_t chunk = 0; chunk < order_.stages[at].size(); ++chunk) {
      const auto& [first, end] = ranges_[static_cast<std::size_t>(order_.stages[at][chunk])];
      Bytes one(0);
      for (std::size_t u = first; u < end; ++u) {
        add_parameters(model_.units[u], parameters, states);
        one += kept[u];
      }
      one -= end < model_.units.size() ? boundary() : Bytes(0);
      chunks.push_back(std::max(Bytes(0), one));
    }
    const Bytes activations = most_kept(order_.order[at], chunks);
    states = states / shards;
    if (sharded) return std::max(parameters / shards + states, parameters / shards + activations);
    const Bytes gradients = keeps_gradients(scenario_.strategy) ? parameters : parameters / shards;
    return std::max(parameters + gradients + states, parameters + states + activations);
  }

  void add_parameters(const Unit& unit, Bytes& parameters, Bytes& states) const {
    for (std::size_t i = 0; i < unit.tensors.size(); ++i) {
      const Bytes stored = stored_bytes(unit, i, scenario_.precision);
      if (!unit.trait(i).trained) continue;
      parameters += stored;
      if (scenario_.optimizer.paged || scenario_.optimizer.offloads()) continue;
      const OptimizerMemory memory =
          optimizer_memory(on_storage(scenario_.optimizer, unit.trait(i).storage));
      if (!memory.factored) states += static_cast<double>(unit.tensors[i]) * memory.kept();
    }
  }

  /// What a stage hands over and need not keep, at the most.
  Bytes boundary() const {
    const std::int64_t width = scenario_.transformer ? scenario_.transformer->hidden : 0;
    const std::int64_t tokens = scenario_.model.tokens_per_sample * scenario_.batch_per_gpu;
    return Bytes(4 * static_cast<double>(width) * static_cast<double>(tokens));
  }

  const Scenario& scenario_;
  const Mesh& mesh_;
  const Model& model_;
  const StepCosts costs_;
  PipelineOrder order_;
  std::vector<UnitRange> ranges_;
};

}  // namespace

std::optional<LayoutBound> layout_bound(const Scenario& scenario) {
  if (!is_one_layout(scenario.strategy) || scenario.cluster.groups.size() != 1 ||
      scenario.whole_step)
    return std::nullopt;
  const auto mesh = mesh_on(*scenario.strategy.layout, scenario.cluster.gpu_count());
  check(mesh.has_value(), "a layout that was read suits its cluster");
  LayoutTimes times(scenario, *mesh);
  return LayoutBound{.step = times.step(), .memory = times.memory()};
}

}  // namespace rehearse::inline planner
