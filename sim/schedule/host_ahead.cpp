#include "schedule/host_ahead.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "base/error.hpp"

namespace rehearse::inline schedule {
namespace {

/// GPUs as many times as fast as computed wait for no host that is left out: more than what a
/// prediction's interval, its jitter and its fleet make of them (kAnalyticError).
constexpr double kFasterGpu = 1.5;
/// Hosts that take so many times as long as computed are the slowest that are asked about: more
/// than what kHostLaunchError and kAnalyticError make together.
constexpr double kSlowerHost = 2.7;
/// ln of how much faster and slower a host is between which Schedule::host_share is taken.
constexpr double kOtherHost = 0.4;
/// Share of a step that a GPU may wait: what is left out is felt by no one.
constexpr double kUnfelt = 1e-3;
/// Iterations until the host of a steady run is ahead or behind.
constexpr std::size_t kIterations = 3;

bool is_host(const Program& program, const Op& op) {
  return op.lane && program.lanes[op.lane->index()].kind == LaneKind::host;
}

/// Ends of a program's operations where its communication takes no time.
class Ends {
 public:
  Ends(const Program& program, double speed, bool with_host)
      : program_(program), speed_(speed), with_host_(with_host), lanes_(program.lanes.size(), 0) {
    for (std::vector<double>& of : ends_) of.resize(program.ops.size(), 0);
  }

  /// The last iteration.
  double step() {
    double before = 0;
    for (std::size_t i = 0; i < kIterations; ++i) {
      before = end();
      play(i);
    }
    return end() - before;
  }

 private:
  double end() const {
    double last = 0;
    for (std::size_t lane = 0; lane < lanes_.size(); ++lane)
      if (program_.lanes[lane].kind == LaneKind::compute) last = std::max(last, lanes_[lane]);
    return last;
  }

  void play(std::size_t iteration) {
    for (std::size_t i = 0; i < program_.ops.size(); ++i) {
      const Op& op = program_.ops[i];
      const bool host = is_host(program_, op);
      if (host && !with_host_) continue;
      double begin = op.lane ? lanes_[op.lane->index()] : 0;
      for (const After& after : op.after) {
        if (after.distance > iteration) continue;
        begin = std::max(begin, ends_[iteration - after.distance][after.op.index()]);
      }
      double& end = ends_[iteration][i] = begin;
      if (const auto* compute = std::get_if<Compute>(&op.work))
        if (op.lane) end += compute->duration.value() / (host ? 1 : speed_);
      if (op.lane) lanes_[op.lane->index()] = end;
    }
  }

  const Program& program_;
  double speed_;
  bool with_host_;
  std::vector<double> lanes_;
  std::array<std::vector<double>, kIterations> ends_;
};

bool launches(const Program& program) {
  return std::ranges::any_of(program.ops, [](const Op& op) { return op.verb == Verb::launch; });
}

bool may_be_left_out(const Program& program) {
  for (const Op& op : program.ops) {
    if (!is_host(program, op)) continue;
    const bool waits = std::holds_alternative<Join>(op.work) && op.verb == Verb::wait_for;
    if (op.verb != Verb::launch && !waits) return false;
    if (!op.signals.empty() || !op.memory.empty() || op.role != UpdateRole::none) return false;
  }
  return true;
}

/// Whether GPUs so many times as fast do not wait for the host.
bool is_ahead(const Program& program, double speed) {
  const double without = Ends(program, speed, false).step();
  return Ends(program, speed, true).step() - without <= kUnfelt * without;
}

/// d ln(step) / d ln(host's time): a host as many times as slow is a GPU as many times as fast, on
/// another clock.
double host_share(const Program& program, double speed) {
  const double more = std::exp(kOtherHost);
  const double slower = more * Ends(program, speed * more, true).step();
  const double faster = Ends(program, speed / more, true).step() / more;
  return faster > 0 ? std::log(slower / faster) / (2 * kOtherHost) : 0;
}

void leave_out_host(Program& program) {
  constexpr auto kNone = std::numeric_limits<std::size_t>::max();
  std::vector<std::size_t> lane_at, op_at(program.ops.size(), kNone);
  std::vector<Lane> lanes;
  for (const Lane& lane : program.lanes) {
    lane_at.push_back(lanes.size());
    if (lane.kind != LaneKind::host) lanes.push_back(lane);
  }
  std::size_t kept = 0;
  for (std::size_t i = 0; i < program.ops.size(); ++i) {
    if (is_host(program, program.ops[i])) continue;
    op_at[i] = kept;
    if (kept != i) program.ops[kept] = std::move(program.ops[i]);
    ++kept;
  }
  program.ops.resize(kept);
  for (Op& op : program.ops) {
    if (op.lane) op.lane = LaneId(lane_at[op.lane->index()]);
    std::erase_if(op.after, [&](const After& one) { return op_at[one.op.index()] == kNone; });
    for (After& after : op.after) after.op = OpId(op_at[after.op.index()]);
  }
  program.lanes = std::move(lanes);
}

}  // namespace

void leave_out_hosts_ahead(Schedule& schedule) {
  // The fastest rank's slowdown, by program.
  std::vector<double> least(schedule.programs.size(), std::numeric_limits<double>::infinity());
  for (const RankSpec& rank : schedule.ranks) {
    double& own = least[rank.program.index()];
    own = std::min(own, rank.slowdown);
  }
  for (std::size_t i = 0; i < schedule.programs.size(); ++i) {
    Program& program = schedule.programs[i];
    if (!launches(program)) continue;
    const bool ahead = may_be_left_out(program) && is_ahead(program, kFasterGpu / least[i]);
    if (!ahead || !is_ahead(program, kSlowerHost / least[i]))
      schedule.host_share = std::max(schedule.host_share, host_share(program, 1 / least[i]));
    if (ahead) leave_out_host(program);
  }
}

}  // namespace rehearse::inline schedule
