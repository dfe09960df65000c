// Orders as torch.distributed.pipelining writes them (_PipelineScheduleRuntime._dump_csv), and
// whether ranks can go through them.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <stdexcept>

#include "mesh/pipeline_order.hpp"

namespace rehearse::inline mesh {
namespace {

constexpr int kMost = 65'535;  // stages, and micro-batches

struct Cell {
  int stage = 0;
  PipelineAction::What what = PipelineAction::forward;
  int micro = 0;
};

[[noreturn]] void refuse(std::size_t line, const std::string& cell) {
  throw std::invalid_argument(
      fmt::format("line {}: \"{}\" is no action; such as 2F0, 2B0, 2I0 or 2W0", line, cell));
}

std::string trimmed(const std::string& text) {
  const auto first = text.find_first_not_of(" \t\r\"");
  if (first == std::string::npos) return "";
  return text.substr(first, text.find_last_not_of(" \t\r\"") + 1 - first);
}

/// Digits from `at` on, which moves behind them.
std::optional<int> number(const std::string& text, std::size_t& at) {
  int value = 0;
  const auto result = std::from_chars(text.data() + at, text.data() + text.size(), value);
  if (result.ec != std::errc() || value < 0 || value >= kMost) return std::nullopt;
  at = static_cast<std::size_t>(result.ptr - text.data());
  return value;
}

bool communicates(const std::string& what) {
  static const std::set<std::string> names = {"SEND_F",  "RECV_F",  "SEND_B",     "RECV_B",
                                              "UNSHARD", "RESHARD", "REDUCE_GRAD"};
  return names.contains(what);
}

std::optional<Cell> read_cell(const std::string& text, std::size_t line) {
  static const std::map<std::string, PipelineAction::What> known = {{"F", PipelineAction::forward},
                                                                    {"B", PipelineAction::backward},
                                                                    {"I", PipelineAction::input},
                                                                    {"W", PipelineAction::weight}};
  std::size_t at = 0;
  const auto stage = number(text, at);
  if (!stage) refuse(line, text);
  const std::size_t begin = at;
  while (at < text.size() && (text[at] < '0' || text[at] > '9')) ++at;
  const std::string what = text.substr(begin, at - begin);
  if (communicates(what)) return std::nullopt;
  const auto found = known.find(what);
  const auto micro = at < text.size() ? number(text, at) : std::nullopt;
  if (found == known.end() || !micro || at != text.size()) refuse(line, text);
  return Cell{*stage, found->second, *micro};
}

/// One, or those that overlap in brackets.
void read_cells(const std::string& text, std::size_t line, std::vector<Cell>& cells) {
  if (text.empty()) return;
  if (text.front() != '(') {
    if (const auto cell = read_cell(text, line)) cells.push_back(*cell);
    return;
  }
  const auto end = text.find(')');
  if (end == std::string::npos) refuse(line, text);
  std::istringstream inside(text.substr(1, end - 1));
  for (std::string part; std::getline(inside, part, ';');) read_cells(trimmed(part), line, cells);
}

std::string shown(const PipelineOrder& pipeline, std::size_t rank, const PipelineAction& action) {
  return fmt::format("{}{}{}", pipeline.stages[rank][action.chunk], "FBIW"[action.what],
                     action.micro);
}

/// What is done, by stage, kind (a whole backward is both of its parts) and micro-batch.
using Done = std::set<std::tuple<int, PipelineAction::What, int>>;

bool may_run(const PipelineAction& action, int stage, int last, const Done& done) {
  const auto has = [&](int where, PipelineAction::What what) {
    return done.contains({where, what, action.micro});
  };
  switch (action.what) {
    case PipelineAction::forward:
      return stage == 0 || has(stage - 1, PipelineAction::forward);
    case PipelineAction::weight:
      return has(stage, PipelineAction::input);
    case PipelineAction::backward:
    case PipelineAction::input:
      return has(stage, PipelineAction::forward) &&
             (stage == last || has(stage + 1, PipelineAction::input));
  }
  return false;
}

/// Empty, or what is missing or twice.
std::string incomplete(const PipelineOrder& pipeline) {
  for (std::size_t rank = 0; rank < pipeline.order.size(); ++rank) {
    std::map<std::tuple<std::uint16_t, PipelineAction::What, std::uint16_t>, int> count;
    for (const PipelineAction& action : pipeline.order[rank])
      if (++count[{action.chunk, action.what, action.micro}] > 1)
        return fmt::format("rank {}: {} comes twice", rank, shown(pipeline, rank, action));
    for (std::uint16_t chunk = 0; chunk < pipeline.stages[rank].size(); ++chunk) {
      for (std::uint16_t micro = 0; micro < pipeline.micro_batches; ++micro) {
        const auto has = [&](PipelineAction::What what) {
          return count.contains({chunk, what, micro});
        };
        const bool halves = has(PipelineAction::input) && has(PipelineAction::weight);
        const bool any_half = has(PipelineAction::input) || has(PipelineAction::weight);
        if (!has(PipelineAction::forward))
          return fmt::format("rank {}: {} is missing", rank,
                             shown(pipeline, rank, {PipelineAction::forward, chunk, micro}));
        if (has(PipelineAction::backward) ? any_half : !halves)
          return fmt::format("rank {}: the backward of {} is not there once", rank,
                             shown(pipeline, rank, {PipelineAction::forward, chunk, micro}));
      }
    }
  }
  return "";
}

}  // namespace

PipelineOrder read_pipeline_csv(const std::string& text) {
  std::istringstream lines(text);
  std::vector<std::vector<Cell>> ranks;
  std::size_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (trimmed(line).empty()) continue;
    ranks.emplace_back();
    std::istringstream cells(line);
    for (std::string cell; std::getline(cells, cell, ',');)
      read_cells(trimmed(cell), number, ranks.back());
  }
  if (ranks.empty()) throw std::invalid_argument("no line with actions");
  PipelineOrder pipeline;
  std::set<int> all;
  for (const auto& cells : ranks) {
    std::set<int> own;
    for (const Cell& cell : cells) {
      own.insert(cell.stage);
      pipeline.micro_batches = std::max(pipeline.micro_batches, cell.micro + 1);
    }
    for (const int stage : own)
      if (!all.insert(stage).second)
        throw std::invalid_argument(fmt::format("stage {} is on two ranks", stage));
    pipeline.stages.emplace_back(own.begin(), own.end());
    std::vector<PipelineAction>& order = pipeline.order.emplace_back();
    for (const Cell& cell : cells)
      order.push_back({cell.what,
                       static_cast<std::uint16_t>(std::distance(own.begin(), own.find(cell.stage))),
                       static_cast<std::uint16_t>(cell.micro)});
  }
  if (all.empty() || *all.rbegin() + 1 != static_cast<int>(all.size()))
    throw std::invalid_argument("stages are not numbered 0, 1, 2, ... without a gap");
  return pipeline;
}

std::string stuck(const PipelineOrder& pipeline) {
  if (std::string wrong = incomplete(pipeline); !wrong.empty()) return wrong;
  const int last = pipeline.stage_count() - 1;
  Done done;
  std::vector<std::size_t> next(pipeline.order.size(), 0);
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t rank = 0; rank < next.size(); ++rank) {
      for (; next[rank] < pipeline.order[rank].size(); ++next[rank], moved = true) {
        const PipelineAction& action = pipeline.order[rank][next[rank]];
        const int stage = pipeline.stages[rank][action.chunk];
        if (!may_run(action, stage, last, done)) break;
        done.insert({stage, action.what, action.micro});
        if (action.what == PipelineAction::backward)
          done.insert({stage, PipelineAction::input, action.micro});
      }
    }
  }
  std::string waits;
  for (std::size_t rank = 0; rank < next.size(); ++rank)
    if (next[rank] < pipeline.order[rank].size())
      waits += fmt::format("{}rank {} at {}", waits.empty() ? "" : ", ", rank,
                           shown(pipeline, rank, pipeline.order[rank][next[rank]]));
  return waits.empty() ? "" : "ranks wait for one another: " + waits;
}

}  // namespace rehearse::inline mesh
