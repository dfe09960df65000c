#include "engine/random_schedules.hpp"

#include <algorithm>
#include <cmath>

#include "base/random.hpp"
#include "engine/clusters.hpp"

namespace rehearse {

namespace {

constexpr std::size_t kWorld = 0, kPart = 1;  // group slots
constexpr int kCpuGpu = -1;

class CaseMaker {
 public:
  explicit CaseMaker(std::uint64_t seed) : stream_(random_stream(seed, "random schedule")) {
    case_.schedule.seed = seed;
  }

  RandomCase make() {
    make_cluster();
    make_ranks();
    make_script();
    for (std::size_t p = 0; p < partners_; ++p)
      case_.schedule.programs.push_back(worker_program(p));
    Program partner{.name = "partner", .lanes = {{"compute", LaneKind::compute}}};
    partner.ops.push_back(
        {.of = "idle", .lane = LaneId(0), .work = Compute{.duration = Seconds(1e-3)}});
    case_.schedule.programs.push_back(std::move(partner));
    set_needs();
    return std::move(case_);
  }

 private:
  std::size_t between(std::size_t low, std::size_t high) {
    return low + stream_() % (high - low + 1);
  }
  bool chance(double share) { return uniform01(stream_) < share; }
  Seconds duration() { return Seconds(1e-4 * std::pow(100, uniform01(stream_))); }
  // Large enough that a flow's rounding to 1/65536 byte stays below 1e-10.
  Bytes size() { return Bytes(std::floor(1e5 * std::pow(100, uniform01(stream_)))); }

  void make_cluster() {
    const int gpus = chance(0.4) ? 2 : 1;
    const int nodes = static_cast<int>(between(1, gpus == 2 ? 4 : 8));
    case_.cluster = star_cluster(nodes, gpus, static_cast<int>(between(1, 2)));
    workers_ = case_.cluster.gpu_count();
    partners_ = std::min(between(1, 3), workers_);
    NodeGroup cpus{"partners", static_cast<int>(partners_), case_.cluster.groups[0].node};
    cpus.node.gpus = 0;
    cpus.node.nic_bandwidth = BytesPerSecond(chance(0.5) ? 0.3 * kNic : 2 * kNic);
    cpus.node.nic_latency = Seconds(7e-6);
    case_.cluster.groups.push_back(cpus);
  }

  void make_ranks() {
    Schedule& schedule = case_.schedule;
    schedule.iterations = static_cast<std::uint32_t>(between(1, 4));
    schedule.jitter = {Jitter::Distribution::lognormal, 0.3};
    schedule.groups = {{.name = "world", .members = {}, .ranks = 0, .nodes = 0}};
    ranks_of_.assign(partners_, 0);
    const bool by_node = case_.cluster.groups[0].node.gpus > 1;
    const std::size_t parts = by_node ? case_.cluster.node_count() - partners_ : between(1, 3);
    schedule.groups.resize(1 + parts);
    for (std::size_t r = 0; r < workers_; ++r) {
      const Place place = gpu_places(case_.cluster)[r];
      // Each program has a rank; half of the time the others all run the last one, so that it alone
      // has many.
      const std::size_t program = r < partners_ ? r
                                  : chance(0.5) ? partners_ - 1
                                                : between(0, partners_ - 1);
      const std::size_t part = 1 + (by_node ? place.node.index() : between(0, parts - 1));
      ++ranks_of_[program];
      schedule.ranks.push_back({.program = ProgramId(program),
                                .place = place,
                                .slowdown = 1 + uniform01(stream_),
                                .groups = {GroupId(0), GroupId(part)}});
      schedule.groups[0].members.emplace_back(r);
      schedule.groups[part].members.emplace_back(r);
    }
    for (Group& group : schedule.groups) {
      group.ranks = group.members.size();
      group.nodes =
          by_node && &group != schedule.groups.data() ? 1 : group.ranks / (by_node ? 2 : 1);
    }
    for (std::size_t p = 0; p < partners_; ++p)
      schedule.ranks.push_back(
          {.program = ProgramId(partners_),
           .place = {NodeId(case_.cluster.node_count() - partners_ + p), kCpuGpu},
           .groups = {}});
  }

  void make_script() {
    Schedule& schedule = case_.schedule;
    const CollectiveKind kinds[] = {CollectiveKind::all_reduce, CollectiveKind::all_gather,
                                    CollectiveKind::reduce_scatter, CollectiveKind::broadcast};
    for (std::size_t i = between(0, 3); i-- > 0;)
      script_.push_back({.kind = kinds[between(0, 3)],
                         .group = chance(0.5) ? kWorld : kPart,
                         .size = size(),
                         .algorithm = CollectiveAlgorithm::ring});
    for (std::size_t i = between(0, 2); i-- > 0;) {
      schedule.events.push_back({"event", 1});
      event_phase_.push_back(between(0, script_.size()));
    }
    for (std::size_t i = between(0, 2); i-- > 0;)
      schedule.queues.push_back({"queue", RankId(workers_), chance(0.5)});
  }

  Program worker_program(std::size_t p) {
    Program program{.name = "worker"};
    const Lane lanes[] = {{"compute", LaneKind::compute},
                          {"nccl", LaneKind::communication},
                          {"host", LaneKind::host}};
    program.lanes.assign(lanes, lanes + between(1, 3));
    comm_lane_ = LaneId(std::min<std::size_t>(1, program.lanes.size() - 1));
    for (std::size_t phase = 0; phase <= script_.size(); ++phase) {
      const std::size_t first = program.ops.size();
      for (std::size_t i = between(1, 4); i-- > 0;) add_local_op(program, p, phase);
      if (phase < script_.size())
        add(program, {.of = "collective", .lane = comm_lane_, .work = script_[phase]}, phase);
      for (std::size_t e = 0; e < event_phase_.size(); ++e) {
        if (event_phase_[e] != phase) continue;
        if (p == 0) program.ops[first].signals.push_back(EventId(e));
        for (std::size_t o = first; o < program.ops.size(); ++o)
          if (chance(0.3)) program.ops[o].signals.push_back(EventId(e));
      }
    }
    for (Op& op : program.ops) {
      if (op.queue) continue;
      const auto distance = static_cast<std::uint32_t>(between(1, 2));
      if (chance(0.4)) op.after.push_back({OpId(between(0, program.ops.size() - 1)), distance});
      if (chance(0.1) && !event_phase_.empty())
        op.awaits.push_back({EventId(between(0, event_phase_.size() - 1)), distance});
    }
    return program;
  }

  // Adds an operation with edges of distance 0 to earlier operations and earlier phases' events.
  void add(Program& program, Op op, std::size_t phase) {
    for (std::size_t i = between(0, 2); i-- > 0 && !program.ops.empty();)
      op.after.push_back({OpId(between(0, program.ops.size() - 1)), 0});
    for (std::size_t e = 0; e < event_phase_.size(); ++e)
      if (event_phase_[e] < phase && chance(0.25)) op.awaits.push_back({EventId(e), 0});
    program.ops.push_back(std::move(op));
  }

  void add_local_op(Program& program, std::size_t p, std::size_t phase) {
    const LaneId any(between(0, program.lanes.size() - 1));
    const std::optional<LaneId> lane = chance(0.7) ? std::optional(any) : std::nullopt;
    Compute compute{.duration = duration()};
    switch (between(0, 4)) {
      case 0:
        return add(program, {.of = "join", .lane = lane, .work = Join{}}, phase);
      case 1:
        if (ranks_of_[p] > 1 || case_.cluster.groups[0].node.gpus > 1) break;
        return add(program, {.of = "transfer", .lane = comm_lane_, .work = transfer(p)}, phase);
      case 2: {
        if (case_.schedule.queues.empty()) break;
        add(program, {.of = "before the queue", .lane = lane, .work = compute}, phase);
        program.ops.push_back({.of = "served",
                               .queue = QueueId(between(0, case_.schedule.queues.size() - 1)),
                               .priority = static_cast<std::uint32_t>(between(0, 2)),
                               .work = Compute{.duration = duration(), .jittered = chance(0.5)},
                               .after = {{OpId(program.ops.size() - 1)}}});
        return;
      }
      default:
        compute.jittered = chance(0.8);
    }
    add(program, {.of = "compute", .lane = lane, .work = compute}, phase);
  }

  Transfer transfer(std::size_t p) {
    const RankId partner(workers_ + p);
    return chance(0.5) ? Transfer{.source = partner, .target = {}, .size = size()}
                       : Transfer{.source = {}, .target = partner, .size = size()};
  }

  void set_needs() {
    std::vector<std::size_t> signals(case_.schedule.events.size(), 0);
    for (const RankSpec& rank : case_.schedule.ranks)
      for (const Op& op : case_.schedule.programs[rank.program.index()].ops)
        for (const EventId event : op.signals) ++signals[event.index()];
    for (std::size_t e = 0; e < signals.size(); ++e)
      case_.schedule.events[e].needs = between(1, signals[e]);
  }

  RandomStream stream_;
  RandomCase case_;
  std::size_t workers_ = 0, partners_ = 0;  // as many partners as worker programs
  std::vector<std::size_t> ranks_of_;       // by program
  std::vector<Collective> script_;
  std::vector<std::size_t> event_phase_;
  LaneId comm_lane_;
};

}  // namespace

RandomCase random_case(std::uint64_t seed) { return CaseMaker(seed).make(); }

}  // namespace rehearse
