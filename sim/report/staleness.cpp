#include <algorithm>
#include <limits>
#include <tuple>

#include "report/report.hpp"
#include "report/update_log.hpp"

namespace rehearse::inline report {
namespace {

constexpr Seconds kNever{std::numeric_limits<double>::infinity()};

/// When something was read for an iteration and when the gradient that came of it was applied.
struct Moments {
  Seconds read = kNever;
  Seconds applied = -kNever;
  bool was_read() const { return read < kNever; }
  bool was_applied() const { return applied > -kNever; }
  /// Read when the first of the two is, applied when the last is.
  void include(const Moments& other) {
    read = std::min(read, other.read);
    applied = std::max(applied, other.applied);
  }
};

/// Which part of the parameters each operation of a program reads or updates.
struct Parts {
  std::size_t count = 1;
  std::vector<std::size_t> of_op;
};

/// Every update is of a part of its own, and a read that follows it in the next iteration is of the
/// same part. If a read follows none, all is one part.
Parts parts_of(const Program& program) {
  Parts parts{.count = 0, .of_op = std::vector<std::size_t>(program.ops.size())};
  for (std::size_t op = 0; op < program.ops.size(); ++op) {
    if (program.ops[op].role == UpdateRole::apply_update) parts.of_op[op] = parts.count++;
  }
  for (std::size_t op = 0; op < program.ops.size(); ++op) {
    if (program.ops[op].role != UpdateRole::read_parameters) continue;
    const auto& after = program.ops[op].after;
    const auto update = std::ranges::find_if(after, [&](const After& edge) {
      return program.ops[edge.op.index()].role == UpdateRole::apply_update;
    });
    if (update == after.end())
      return {.count = 1, .of_op = std::vector<std::size_t>(program.ops.size())};
    parts.of_op[op] = parts.of_op[update->op.index()];
  }
  return parts;
}

bool reads(const Program& program) {
  return std::ranges::any_of(program.ops,
                             [](const Op& op) { return op.role == UpdateRole::read_parameters; });
}
bool applies(const Program& program) {
  return std::ranges::any_of(program.ops,
                             [](const Op& op) { return op.role == UpdateRole::apply_update; });
}

/// Moments by part, then rank, then iteration.
class Clocks {
 public:
  Clocks(const Schedule& schedule, const Trace& trace);

  std::size_t parts() const { return moments_.size(); }
  std::size_t ranks() const { return moments_[0].size(); }
  std::size_t iterations(std::size_t rank) const { return iterations_[rank]; }
  Moments at(std::size_t part, std::size_t rank, std::size_t iteration) const {
    const auto& moments = moments_[part][rank];
    return iteration < moments.size() ? moments[iteration] : Moments{};
  }
  Moments whole(std::size_t rank, std::size_t iteration) const {
    Moments whole;
    for (std::size_t part = 0; part < moments_.size(); ++part)
      whole.include(at(part, rank, iteration));
    return whole;
  }

 private:
  std::vector<std::vector<std::vector<Moments>>> moments_;  // as far as there is something
  std::vector<std::size_t> iterations_;                     // by rank
};

Clocks::Clocks(const Schedule& schedule, const Trace& trace) {
  std::vector<Parts> parts;
  std::size_t count = 1;
  for (const Program& program : schedule.programs) {
    parts.push_back(parts_of(program));
    count = std::max(count, parts.back().count);
  }
  moments_.assign(count, std::vector<std::vector<Moments>>(schedule.ranks.size()));
  iterations_.assign(schedule.ranks.size(), 0);
  for (const Span& span : trace.spans) {
    const std::size_t program = schedule.ranks[span.rank.index()].program.index();
    const UpdateRole role = schedule.programs[program].ops[span.op.index()].role;
    if (role != UpdateRole::read_parameters && role != UpdateRole::apply_update) continue;
    Moments moment;
    (role == UpdateRole::read_parameters ? moment.read : moment.applied) =
        role == UpdateRole::read_parameters ? span.start : span.end;
    const std::size_t part = parts[program].of_op[span.op.index()];
    auto& moments = moments_[part][span.rank.index()];
    if (moments.size() <= span.iteration) moments.resize(span.iteration + 1);
    moments[span.iteration].include(moment);
    std::size_t& iterations = iterations_[span.rank.index()];
    iterations = std::max<std::size_t>(iterations, span.iteration + 1);
  }
}

void sort_by_application(std::vector<Update>& updates) {
  std::ranges::sort(updates, [](const Update& a, const Update& b) {
    return std::tie(a.applied, a.worker, a.iteration) < std::tie(b.applied, b.worker, b.iteration);
  });
}

/// Sorts, and counts for each update those applied after its read and before itself.
void count_staleness(std::vector<Update>& updates) {
  sort_by_application(updates);
  for (std::size_t own = 0; own < updates.size(); ++own) {
    const auto later = std::ranges::upper_bound(updates, updates[own].read, {}, &Update::applied);
    const auto before = static_cast<std::size_t>(later - updates.begin());
    // An update that is read and applied at the same instant must not count itself.
    updates[own].staleness = static_cast<std::uint32_t>(own - std::min(before, own));
  }
}

/// One update per worker and iteration; `moments_of(rank, iteration)` of all parts or of one.
template <class MomentsOf>
std::vector<Update> updates_of(const Clocks& clocks, MomentsOf&& moments_of) {
  std::vector<Update> updates;
  for (std::size_t rank = 0; rank < clocks.ranks(); ++rank) {
    for (std::size_t iteration = 0; iteration < clocks.iterations(rank); ++iteration) {
      const Moments moments = moments_of(rank, iteration);
      if (!moments.was_read() || !moments.was_applied()) continue;
      updates.push_back({RankId(rank), static_cast<std::uint32_t>(iteration), moments.read,
                         moments.applied, 0, 0});
    }
  }
  return updates;
}

/// The gradients of one of the first `rounds` iterations are one update: applied when the last is.
void end_with_their_rounds(std::vector<Update>& updates, std::uint32_t rounds) {
  std::map<std::uint32_t, Seconds> ends;
  for (const Update& update : updates) {
    if (update.iteration < rounds)
      ends[update.iteration] = std::max(ends[update.iteration], update.applied);
  }
  for (Update& update : updates) {
    if (update.iteration < rounds) update.applied = ends[update.iteration];
  }
}

/// After `rounds` in step, of which none is stale, each worker's gradients are applied on their
/// own. An update is as stale as the stalest of its parts: what the parts' servers applied between
/// this worker's read of the part and its own update of it.
std::vector<Update> updates_by_worker(const Clocks& clocks, std::uint32_t rounds) {
  std::vector<std::vector<std::uint32_t>> staleness(clocks.ranks());  // by rank and iteration
  for (std::size_t rank = 0; rank < clocks.ranks(); ++rank)
    staleness[rank].assign(clocks.iterations(rank), 0);
  const auto in_rounds = [&](const Update& update) { return update.iteration < rounds; };
  for (std::size_t part = 0; part < clocks.parts(); ++part) {
    std::vector<Update> of_part = updates_of(clocks, [&](std::size_t rank, std::size_t iteration) {
      return clocks.at(part, rank, iteration);
    });
    std::erase_if(of_part, in_rounds);
    count_staleness(of_part);
    for (const Update& update : of_part) {
      std::uint32_t& stalest = staleness[update.worker.index()][update.iteration];
      stalest = std::max(stalest, update.staleness);
    }
  }
  std::vector<Update> updates = updates_of(clocks, [&](std::size_t rank, std::size_t iteration) {
    return clocks.whole(rank, iteration);
  });
  end_with_their_rounds(updates, rounds);
  sort_by_application(updates);
  std::size_t own = 0;  // updates so far
  for (Update& update : updates) {
    if (in_rounds(update)) {
      update.version_read = update.iteration;
      own = update.iteration + 1;
      continue;
    }
    update.staleness = staleness[update.worker.index()][update.iteration];
    update.version_read = own - std::min<std::size_t>(own, update.staleness);
    ++own;
  }
  return updates;
}

/// Servers apply the group's gradient, one update per iteration. Every part of iteration k is read
/// after that part of k - 1 was applied, and nobody else updates between: though parts of two
/// iterations may overlap in time, no gradient is stale.
std::vector<Update> updates_by_group(const Clocks& clocks, RankId server) {
  std::vector<Update> updates;
  std::size_t iterations = 0;
  for (std::size_t rank = 0; rank < clocks.ranks(); ++rank)
    iterations = std::max(iterations, clocks.iterations(rank));
  for (std::size_t iteration = 0; iteration < iterations; ++iteration) {
    Moments group;
    for (std::size_t rank = 0; rank < clocks.ranks(); ++rank)
      group.include(clocks.whole(rank, iteration));
    if (!group.was_read() || !group.was_applied()) continue;
    updates.push_back({server, static_cast<std::uint32_t>(iteration), group.read, group.applied,
                       updates.size(), 0});
  }
  return updates;
}

}  // namespace

std::vector<Update> update_log(const Schedule& schedule, const Trace& trace) {
  const auto applier = std::ranges::find_if(schedule.ranks, [&](const RankSpec& rank) {
    return applies(schedule.programs[rank.program.index()]);
  });
  if (applier == schedule.ranks.end()) return {};
  const Clocks clocks(schedule, trace);
  if (reads(schedule.programs[applier->program.index()]))
    return updates_by_worker(clocks, schedule.warmup_rounds);
  return updates_by_group(clocks,
                          RankId(static_cast<std::size_t>(applier - schedule.ranks.begin())));
}

std::optional<StalenessReport> staleness_of(const std::vector<Update>& updates, std::uint32_t first,
                                            Seconds until) {
  StalenessHistogram histogram;
  for (const Update& update : updates)
    if (update.iteration >= first && update.applied <= until) ++histogram[update.staleness];
  if (histogram.empty()) return std::nullopt;
  return staleness_report(std::move(histogram));
}

std::optional<double> between_push_and_pull(const std::vector<Update>& updates,
                                            const std::function<bool(const Update&)>& counts) {
  std::map<RankId, std::size_t> pushed;  // updates that were applied with each worker's last one
  double sum = 0, count = 0;
  for (std::size_t own = 0; own < updates.size(); ++own) {
    const Update& update = updates[own];
    const auto before = pushed.find(update.worker);
    if (before != pushed.end() && counts(update)) {
      sum += static_cast<double>(update.version_read) -
             static_cast<double>(std::min<std::size_t>(before->second, update.version_read));
      ++count;
    }
    pushed[update.worker] = own + 1;
  }
  if (pushed.size() < 2 || count == 0) return std::nullopt;
  return sum / count;
}

StalenessReport staleness_report(StalenessHistogram histogram) {
  StalenessReport report{.histogram = std::move(histogram)};
  report.mean = mean(report.histogram);
  report.p50 = percentile(report.histogram, 0.5);
  report.p99 = percentile(report.histogram, 0.99);
  report.max = report.histogram.rbegin()->first;
  return report;
}

}  // namespace rehearse::inline report
