#include "explain/changes.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "explain/pace.hpp"

namespace rehearse::inline explanation {
namespace {

/// Beyond this a rank counts as slower than the median one.
constexpr double kSlower = 1 + 1e-9;

/// "pull", "push", "pack"; copies either way are one.
std::string verb_name(const Op& op) {
  if (op.verb == Verb::none) return op.of;
  const bool copies = op.verb == Verb::copy_to_gpu || op.verb == Verb::copy_to_host;
  return to_string(copies ? Verb::copy : op.verb);
}

}  // namespace

void make_median(RankId rank, Machine& machine) {
  RankSpec& spec = machine.schedule.ranks[rank.index()];
  spec.slowdown /= std::max(1.0, relative_compute(machine.schedule)[rank.index()]);
  spec.delay = Seconds(0);
}

std::vector<RankId> slow_ranks(const Schedule& schedule, std::size_t count) {
  const std::vector<double> relative = relative_compute(schedule);
  std::vector<RankId> ranks;
  for (std::size_t r = 0; r < relative.size(); ++r)
    if (relative[r] > kSlower || schedule.ranks[r].delay > Seconds(0)) ranks.emplace_back(r);
  const auto time = [&](RankId rank) {
    return nominal_compute(schedule, rank) + schedule.ranks[rank.index()].delay;
  };
  std::ranges::stable_sort(ranks, std::ranges::greater{}, time);
  ranks.resize(std::min(ranks.size(), count));
  return ranks;
}

std::string operation_class(const Op& op) {
  if (const auto* collective = std::get_if<Collective>(&op.work))
    return to_string(collective->kind);
  if (travels(op)) return verb_name(op);
  if (!std::holds_alternative<Compute>(op.work)) return "";
  switch (op.phase) {
    case Phase::forward:
      return "forward";
    case Phase::backward:
      return "backward";
    case Phase::optimizer:
      return "optimizer";
    case Phase::host:
    case Phase::loading:
      return op.verb == Verb::launch ? "launches" : verb_name(op);
    case Phase::server:
      return "updates";
    case Phase::communication:
      break;
  }
  throw InternalError("internal error: unknown phase");
}

std::vector<std::string> operation_classes(const Schedule& schedule) {
  std::vector<std::string> classes;
  for (const Program& program : schedule.programs) {
    for (const Op& op : program.ops) {
      const std::string name = operation_class(op);
      if (!name.empty() && std::ranges::find(classes, name) == classes.end())
        classes.push_back(name);
    }
  }
  return classes;
}

void remove_operations(const std::string& name, Machine& machine) {
  for (Program& program : machine.schedule.programs)
    for (Op& op : program.ops)
      if (operation_class(op) == name) op.work = Join{};
}

}  // namespace rehearse::inline explanation
