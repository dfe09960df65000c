#include "engine/stretch.hpp"

#include <algorithm>
#include <map>

#include "base/hash.hpp"

namespace rehearse::inline engine {
namespace {

void add_work(Hash& hash, const Work& work) {
  hash.add(std::uint64_t{work.index()});
  if (const auto* compute = std::get_if<Compute>(&work)) {
    hash.add(compute->duration.value());
    hash.add(std::uint64_t{compute->jittered});
    hash.add(std::uint64_t{compute->step});
    hash.add(compute->spread);
  } else if (const auto* collective = std::get_if<Collective>(&work)) {
    hash.add(static_cast<std::uint64_t>(collective->kind));
    hash.add(std::uint64_t{collective->group});
    hash.add(collective->size.value());
    hash.add(static_cast<std::uint64_t>(collective->algorithm));
  } else if (const auto* transfer = std::get_if<Transfer>(&work)) {
    hash.add(transfer->source ? transfer->source->index() + 1 : 0);
    hash.add(transfer->target ? transfer->target->index() + 1 : 0);
    hash.add(transfer->size.value());
  }
}

/// What an operation does and how far behind stands what it comes after. No two are alike of those
/// that wait for more than operations of their own iteration.
std::uint64_t kind_of(const Op& op, std::size_t at) {
  Hash hash;
  hash.add(static_cast<std::uint64_t>(op.verb));
  hash.add(static_cast<std::uint64_t>(op.phase));
  hash.add(op.lane ? op.lane->index() + 1 : 0);
  add_work(hash, op.work);
  bool alone = !op.lane || op.queue || !op.awaits.empty() || !op.signals.empty() ||
               op.role != UpdateRole::none;
  for (const After& after : op.after) {
    hash.add(std::uint64_t{at - after.op.index()});
    alone = alone || after.distance > 0;
  }
  if (alone) hash.add(std::uint64_t{at} + 1);
  return hash.value();
}

/// Whether an operation waits for one of an earlier iteration's stretch.
bool waits_for_earlier(const Program& program, const Stretch& stretch) {
  return std::ranges::any_of(program.ops, [&](const Op& op) {
    return std::ranges::any_of(op.after, [&](const After& after) {
      return after.distance > 0 && stretch.has(static_cast<std::uint32_t>(after.op.index()));
    });
  });
}

/// By slot of a group: collectives in a repeat.
std::map<std::size_t, int> collectives_of(const Program& program, const Stretch& stretch) {
  std::map<std::size_t, int> counts;
  for (std::uint32_t i = stretch.begin; i < stretch.begin + stretch.period; ++i)
    if (const auto* one = std::get_if<Collective>(&program.ops[i].work)) ++counts[one->group];
  return counts;
}

bool alike_in_groups(const Schedule& schedule, const std::vector<Stretch>& stretches) {
  std::vector<std::map<std::size_t, int>> counts;
  for (std::size_t p = 0; p < stretches.size(); ++p)
    counts.push_back(collectives_of(schedule.programs[p], stretches[p]));
  std::vector<int> of_group(schedule.groups.size(), -1);
  for (const RankSpec& rank : schedule.ranks) {
    const auto& own = counts[rank.program.index()];
    for (std::size_t slot = 0; slot < rank.groups.size(); ++slot) {
      const auto found = own.find(slot);
      const int count = found == own.end() ? 0 : found->second;
      int& known = of_group[rank.groups[slot].index()];
      if (known >= 0 && known != count) return false;
      known = count;
    }
  }
  return true;
}

}  // namespace

std::optional<Stretch> longest_stretch(const Program& program, std::uint32_t least_times) {
  std::vector<std::uint64_t> kinds;
  kinds.reserve(program.ops.size());
  for (std::size_t i = 0; i < program.ops.size(); ++i) kinds.push_back(kind_of(program.ops[i], i));
  const std::optional<Stretch> best = base::longest_stretch(kinds, least_times);
  return best && waits_for_earlier(program, *best) ? std::nullopt : best;
}

std::vector<Stretch> stretches_of(const Schedule& schedule, std::uint32_t least_times) {
  std::vector<Stretch> all;
  for (const Program& program : schedule.programs) {
    const auto one = longest_stretch(program, least_times);
    if (!one) return {};
    all.push_back(*one);
  }
  if (schedule.sampled_ranks > 0 || schedule.ranks.empty() ||
      std::ranges::any_of(schedule.ranks, &RankSpec::in_background))
    return {};
  return alike_in_groups(schedule, all) ? all : std::vector<Stretch>{};
}

}  // namespace rehearse::inline engine
