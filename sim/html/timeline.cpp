#include "html/timeline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <tuple>

#include "html/memory_picture.hpp"
#include "report/anatomy.hpp"

namespace rehearse::inline html {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kWorkers = 4;
constexpr std::size_t kServers = 2;
constexpr std::size_t kStages = 16;
/// Of the ranks of a pipeline, each of which may be looked at alone, as many more.
constexpr std::size_t kMostSpans = 5000, kMostSpansOfStage = 1000;
/// A screen has about as many columns as make a shorter operation invisible.
constexpr double kFinest = 1.0 / 2000;

/// By Phase.
constexpr std::array kPhases = {"forward", "backward", "optimizer", "communication",
                                "host",    "loading",  "server"};
static_assert(kPhases.size() == static_cast<std::size_t>(Phase::server) + 1);

/// A row of the timeline: a lane, a queue, or operations that are bound to neither.
struct RowKey {
  enum class Kind { lane, queue, free };
  std::size_t rank = 0;
  Kind kind = Kind::lane;
  std::size_t index = 0;
  auto operator<=>(const RowKey&) const = default;
};

struct Piece {
  Seconds start, end;
  std::string label;
  std::size_t phase = 0, operations = 1;
};

using Rows = std::map<RowKey, std::vector<Piece>>;

const Op& op_of(const Schedule& schedule, const Span& span) {
  return schedule.program_of(span.rank).ops[span.op.index()];
}

/// A rank of each stage of a pipeline, of more stages those of the first and the last ones; of less
/// than two none.
std::vector<RankId> ranks_of_stages(const RunShown& run) {
  std::map<std::uint32_t, RankId> stages;
  for (std::size_t rank = 0; rank < run.trace.recorded_ranks; ++rank)
    if (const auto stage = run.schedule.program_of(RankId(rank)).stage)
      stages.try_emplace(*stage, RankId(rank));
  std::vector<RankId> ranks;
  std::size_t place = 0;
  for (const auto& [stage, rank] : stages) {
    const std::size_t behind = stages.size() - place++;
    if (place <= kStages / 2 || behind <= kStages / 2) ranks.push_back(rank);
  }
  if (ranks.size() < 2) ranks.clear();
  return ranks;
}

/// Of pipelines a rank of each stage. Else the first worker, the slowest, the workers after the
/// first, and the first servers.
std::vector<RankId> shown_ranks(const RunShown& run) {
  std::vector<RankId> ranks = ranks_of_stages(run);
  if (!ranks.empty()) return ranks;
  const auto add = [&](RankId rank, std::size_t most) {
    const bool recorded = rank.index() < run.trace.recorded_ranks;
    if (recorded && ranks.size() < most && std::ranges::find(ranks, rank) == ranks.end())
      ranks.push_back(rank);
  };
  const std::vector<RankId> workers = computing_ranks(run.schedule);
  if (!workers.empty()) {
    add(workers.front(), kWorkers);
    add(dissect(run.schedule, run.trace, run.first, run.last).slowest, kWorkers);
  }
  for (const RankId rank : workers) add(rank, kWorkers);
  const std::size_t most = ranks.size() + kServers;
  for (std::size_t rank = 0; rank < run.schedule.ranks.size(); ++rank) {
    if (std::ranges::find(workers, RankId(rank)) == workers.end()) add(RankId(rank), most);
  }
  std::ranges::sort(ranks);
  return ranks;
}

/// The measured step of a rank that is as long as steps are.
StepShown typical_step(const RunShown& run, RankId rank) {
  const std::vector<Seconds>& ends = run.trace.iteration_end[rank.index()];
  const auto begin_of = [&](std::uint32_t i) { return i == 0 ? Seconds(0) : ends[i - 1]; };
  std::uint32_t best = run.first;
  const auto distance = [&](std::uint32_t i) {
    return std::abs((ends[i] - begin_of(i) - run.step_time).value());
  };
  for (std::uint32_t i = run.first; i < run.last; ++i) {
    if (distance(i) < distance(best) * (1 - 1e-9)) best = i;
  }
  return {.iteration = best, .from = begin_of(best), .to = ends[best]};
}

/// Operations that are bound to no lane may overlap: as many rows as that takes.
std::size_t free_row(const Span& span, std::vector<Seconds>& until) {
  const auto idle = std::ranges::find_if(until, [&](Seconds end) { return end <= span.start; });
  if (idle == until.end()) {
    until.push_back(span.end);
    return until.size() - 1;
  }
  *idle = span.end;
  return static_cast<std::size_t>(idle - until.begin());
}

Rows rows_of(const RunShown& run, const StepShown& step, const std::vector<RankId>& ranks) {
  Rows rows;
  std::map<RankId, std::vector<Seconds>> free_until;
  const auto shown = [&](RankId rank) { return std::ranges::find(ranks, rank) != ranks.end(); };
  for (const Span& span : run.trace.spans) {
    const Op& op = op_of(run.schedule, span);
    if (span.end <= step.from || span.start >= step.to || std::holds_alternative<Join>(op.work))
      continue;
    std::string label = op.label();
    RowKey key{span.rank.index(), RowKey::Kind::free, 0};
    if (op.queue) {
      key = {run.schedule.queues[op.queue->index()].owner.index(), RowKey::Kind::queue,
             op.queue->index()};
      label += fmt::format(" (rank {})", span.rank.index());
    }
    if (!shown(RankId(key.rank))) continue;
    if (op.lane) {
      key = {span.rank.index(), RowKey::Kind::lane, op.lane->index()};
    } else if (!op.queue) {
      key.index = free_row(span, free_until[span.rank]);
    }
    rows[key].push_back({std::max(span.start, step.from) - step.from,
                         std::min(span.end, step.to) - step.from, std::move(label),
                         static_cast<std::size_t>(op.phase), 1});
  }
  for (auto& [key, pieces] : rows) std::ranges::stable_sort(pieces, {}, &Piece::start);
  return rows;
}

/// Joins neighbours of one phase whose lengths and distance are below `finest`.
std::vector<Piece> merged(const std::vector<Piece>& pieces, Seconds finest) {
  std::vector<Piece> result;
  for (const Piece& piece : pieces) {
    if (!result.empty()) {
      Piece& before = result.back();
      const bool fine = before.end - before.start < finest && piece.end - piece.start < finest;
      if (fine && before.phase == piece.phase && piece.start - before.end < finest) {
        before.end = std::max(before.end, piece.end);
        before.operations += piece.operations;
        before.label = fmt::format("{} short operations", before.operations);
        continue;
      }
    }
    result.push_back(piece);
  }
  return result;
}

/// Every row merged, the more coarsely the more there is.
Rows thinned(const Rows& rows, Seconds length, std::size_t most) {
  for (double finest = kFinest;; finest *= 2) {
    Rows thin;
    std::size_t count = 0;
    for (const auto& [key, pieces] : rows) {
      count += (thin[key] = merged(pieces, finest * length)).size();
    }
    if (count <= most || finest > 1) return thin;
  }
}

std::string row_name(const Schedule& schedule, const RowKey& key) {
  switch (key.kind) {
    case RowKey::Kind::lane:
      return schedule.program_of(RankId(key.rank)).lanes[key.index].name;
    case RowKey::Kind::queue:
      return schedule.queues[key.index].name;
    case RowKey::Kind::free:
      break;
  }
  return key.index == 0 ? "transfers" : fmt::format("transfers {}", key.index + 1);
}

Json timeline(const RunShown& run, const StepShown& step) {
  const std::vector<RankId> ranks = shown_ranks(run);
  const Rows rows = rows_of(run, step, ranks);
  const std::size_t stages = ranks_of_stages(run).size();
  const std::size_t most = kMostSpans + kMostSpansOfStage * stages;
  Json lanes = Json::array(), spans = Json::array(), labels = Json::array();
  std::map<std::string, std::size_t> numbers;  // of labels
  std::size_t operations = 0;
  for (const auto& [key, pieces] : thinned(rows, step.to - step.from, most)) {
    for (const Piece& piece : pieces) {
      const auto [label, is_new] = numbers.emplace(piece.label, numbers.size());
      if (is_new) labels.push_back(piece.label);
      operations += piece.operations;
      spans.push_back({lanes.size(), piece.start.value(), piece.end.value(), label->second,
                       piece.phase, piece.operations});
    }
    Json lane{{"rank", key.rank}, {"name", row_name(run.schedule, key)}};
    const auto stage = run.schedule.program_of(RankId(key.rank)).stage;  // a server has none
    if (stages > 0 && stage) lane["stage"] = *stage;
    lanes.push_back(std::move(lane));
  }
  return {{"iteration", step.iteration},
          {"length_s", (step.to - step.from).value()},
          {"ranks", run.schedule.ranks.size()},
          {"operations", operations},
          {"phases", kPhases},
          {"lanes", lanes},
          {"labels", labels},
          {"spans", spans}};
}

}  // namespace

Json run_extras(const RunShown& run) {
  const std::vector<RankId> workers = computing_ranks(run.schedule);
  const bool steps = !workers.empty() && run.first < run.last &&
                     workers.front().index() < run.trace.recorded_ranks;
  if (!steps) return nullptr;
  const StepShown step = typical_step(run, workers.front());
  return {{"timeline", timeline(run, step)}, {"memory", memory_pictures(run, step)}};
}

}  // namespace rehearse::inline html
