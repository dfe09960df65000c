#include "view/page_parts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <set>

namespace rehearse::inline view {
namespace {

constexpr std::size_t kColumn = 11;
/// Of more stages the first and the last ones are shown.
constexpr std::size_t kStagesShown = 12;

std::string share(Seconds time, Seconds step) { return right(percent(time / step), kColumn); }

/// The peak of a stage's rank, the first that plays its program.
std::string peak_of(const Report& report, const StageReport& stage) {
  if (!report.memory) return "";
  const auto found = std::ranges::find(report.memory->programs, stage.rank, &ProgramMemory::rank);
  if (found == report.memory->programs.end()) return "";
  return right(format(found->reserved_peak.value_or(found->allocated_peak)), kColumn) +
         (found->fits ? "" : " !");
}

using MemoryOf = std::function<std::string(const StageReport&)>;

/// `memory`: the last column; empty: there is none.
void add_stages(const std::vector<StageReport>& stages, const MemoryOf& memory, Page& page) {
  if (stages.empty()) return;
  std::set<MeshAxis> axes;
  for (const StageReport& stage : stages)
    for (const auto& [axis, time] : stage.exposed)
      if (time > Seconds(0)) axes.insert(axis);
  std::string head = left("", 5);
  for (const char* name : {"compute", "warm-up", "steady", "cool-down"})
    head += right(name, kColumn);
  for (const MeshAxis axis : axes) head += right(to_string(axis), kColumn);
  page.blank();
  page.field("stages", page.ink(Ink::faint, head + (memory ? right("memory", kColumn) : "")));
  const std::size_t count = stages.size();
  for (std::size_t i = 0; i < count; ++i) {
    if (count > kStagesShown && i >= kStagesShown / 2 && i + kStagesShown / 2 < count) {
      if (i == kStagesShown / 2)
        page.field("", page.ink(Ink::faint,
                                fmt::format("... {} more (--format json)", count - kStagesShown)));
      continue;
    }
    const StageReport& stage = stages[i];
    Seconds step = stage.compute + stage.bubble();
    for (const auto& [axis, time] : stage.exposed) step += time;
    std::string line = left(std::to_string(stage.stage), 5);
    for (const Seconds time : {stage.compute, stage.warm_up, stage.steady, stage.cool_down})
      line += share(time, step);
    for (const MeshAxis axis : axes) {
      const auto found = stage.exposed.find(axis);
      line += share(found == stage.exposed.end() ? Seconds(0) : found->second, step);
    }
    page.field("", line + (memory ? memory(stage) : ""));
  }
}

}  // namespace

void add_stages(const Report& report, Page& page) {
  add_stages(
      report.stages, [&](const StageReport& stage) { return peak_of(report, stage); }, page);
}

void add_stages(const std::vector<StageReport>& stages, Page& page) {
  add_stages(stages, MemoryOf(), page);
}

}  // namespace rehearse::inline view
