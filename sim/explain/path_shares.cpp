#include "explain/path_shares.hpp"

#include <algorithm>
#include <map>

#include "base/error.hpp"
#include "explain/pace.hpp"
#include "schedule/factors.hpp"
#include "schedule/jitter.hpp"

namespace rehearse::inline explanation {
namespace {

constexpr std::array<const char*, kPathKinds> kKinds{"compute",    "straggler", "jitter", "slowed",
                                                     "collective", "transfer",  "host",   "loading",
                                                     "server",     "queue"};

struct Part {
  PathKind kind;
  Seconds time;
};

/// What an operation's whole work consists of, in shares of any scale.
class Cutter {
 public:
  explicit Cutter(const Schedule& schedule)
      : schedule_(schedule), factors_(schedule), relative_(relative_compute(schedule)) {}

  std::vector<Part> parts(const PathSegment& segment, bool waited_in_queue) const {
    const Op& op = schedule_.program_of(segment.rank).ops[segment.op.index()];
    const Seconds time = segment.end - segment.start;
    if (segment.slept) return {{PathKind::straggler, time}};
    if (std::holds_alternative<Collective>(op.work)) return {{PathKind::collective, time}};
    if (travels(op)) return {{PathKind::transfer, time}};
    if (op.phase == Phase::host) return {{PathKind::host, time}};
    if (op.phase == Phase::loading) return {{PathKind::loading, time}};
    if (op.phase == Phase::server)
      return {{waited_in_queue ? PathKind::queue : PathKind::server, time}};
    return compute_parts(segment, std::get<Compute>(op.work));
  }

 private:
  /// Of a computation's work d: d x slowdown at its own speed, d x factor with its jitter, the rest
  /// beside others. Of a segment that is cut short (the first of a window) the rest counts as own.
  std::vector<Part> compute_parts(const PathSegment& segment, const Compute& compute) const {
    const double slowdown = schedule_.ranks[segment.rank.index()].slowdown;
    const double factor =
        compute.jittered
            ? factors_.of(segment.rank, segment.op, segment.iteration) *
                  operation_factor(schedule_, segment.rank, segment.op, segment.iteration)
            : 1;
    const double own = compute.jittered ? slowdown : 1;
    const Seconds alone = compute.duration * factor, time = segment.end - segment.start;
    const Seconds slowed = std::max(Seconds(0), time - alone);
    const Seconds used = time - slowed;
    const Seconds jitter = used * std::max(0.0, 1 - own / factor);
    const double relative = compute.jittered ? relative_[segment.rank.index()] : 1;
    const Seconds straggler = (used - jitter) * std::max(0.0, 1 - 1 / relative);
    return {{PathKind::compute, used - jitter - straggler},
            {PathKind::straggler, straggler},
            {PathKind::jitter, jitter},
            {PathKind::slowed, slowed}};
  }

  const Schedule& schedule_;
  ComputeFactors factors_;
  std::vector<double> relative_;
};

/// Sums of many differences leave round-off, which is no time.
constexpr double kRoundOff = 1e-9;

void append_pieces(const PathSegment& segment, const std::vector<Part>& parts,
                   std::vector<PathPiece>& pieces) {
  const Seconds whole = segment.end - segment.start;
  Seconds at = segment.start;
  std::size_t last = 0;
  for (std::size_t i = 0; i < parts.size(); ++i)
    if (parts[i].time > kRoundOff * whole) last = i;
  WaitedFor waited_for = segment.waited_for;
  for (std::size_t i = 0; i <= last; ++i) {
    if (parts[i].time <= kRoundOff * whole) continue;
    const Seconds duration = i == last ? segment.end - at : parts[i].time;
    pieces.push_back(
        {segment.rank, segment.op, segment.iteration, parts[i].kind, at, duration, waited_for});
    at += duration;
    waited_for = WaitedFor::lane;
  }
}

template <class Key>
std::vector<std::pair<Key, Seconds>> descending(const std::map<Key, Seconds>& times) {
  std::vector<std::pair<Key, Seconds>> list(times.begin(), times.end());
  std::ranges::stable_sort(list, std::ranges::greater{},
                           [](const auto& one) { return one.second; });
  return list;
}

}  // namespace

std::string to_string(PathKind kind) { return kKinds.at(static_cast<std::size_t>(kind)); }

std::string to_string(WaitedFor reason) {
  switch (reason) {
    case WaitedFor::start:
      return "start";
    case WaitedFor::lane:
      return "lane";
    case WaitedFor::dependency:
      return "dependency";
    case WaitedFor::host:
      return "host";
    case WaitedFor::peer:
      return "peer";
    case WaitedFor::queue:
      return "queue";
    case WaitedFor::event:
      return "event";
  }
  throw InternalError("internal error: unknown reason to wait");
}

std::vector<PathPiece> pieces_of(const Schedule& schedule, const std::vector<PathSegment>& path) {
  const Cutter cutter(schedule);
  std::vector<PathPiece> pieces;
  for (std::size_t i = 0; i < path.size(); ++i) {
    const bool queued = i + 1 < path.size() && path[i + 1].waited_for == WaitedFor::queue;
    append_pieces(path[i], cutter.parts(path[i], queued), pieces);
  }
  return pieces;
}

std::string unit_of(const Op& op) {
  switch (op.verb) {
    case Verb::none:
    case Verb::optimizer:
    case Verb::unscale:
    case Verb::clip:
    case Verb::copy:
      return op.title();
    case Verb::launch:
      break;
    default:
      if (op.pass != Verb::none) return to_string(op.pass) + " " + op.of;
  }
  return op.of.empty() ? op.title() : op.of;
}

PathShares shares_of(const Schedule& schedule, const std::vector<PathPiece>& pieces, double steps,
                     LinkCosts& links) {
  PathShares shares;
  std::map<std::string, Seconds> units;
  std::map<RankId, Seconds> ranks;
  std::map<std::pair<std::string, std::string>, LinkTime> by_link;
  for (const PathPiece& piece : pieces) {
    const Seconds time = piece.duration / steps;
    const Op& op = schedule.program_of(piece.rank).ops[piece.op.index()];
    shares.by_kind[static_cast<std::size_t>(piece.kind)] += time;
    units[unit_of(op)] += time;
    ranks[piece.rank] += time;
    const auto alone = links.alone(piece.rank, piece.op);
    if (!alone) continue;
    LinkTime& link = by_link
                         .try_emplace({alone->link, alone->where},
                                      LinkTime{alone->link, alone->where, {}, {}, {}})
                         .first->second;
    const Seconds latency = std::min(time, alone->latency / steps);
    Seconds contention = std::max(Seconds(0), time - latency - alone->transfer / steps);
    if (contention < kRoundOff * time) contention = Seconds(0);
    link.latency += latency;
    link.bandwidth += time - latency - contention;
    link.contention += contention;
  }
  for (const auto& [name, time] : descending(units)) shares.by_unit.push_back({name, time});
  shares.by_rank = descending(ranks);
  for (const auto& [name, link] : by_link) shares.by_link.push_back(link);
  std::ranges::stable_sort(shares.by_link, std::ranges::greater{}, &LinkTime::time);
  return shares;
}

}  // namespace rehearse::inline explanation
