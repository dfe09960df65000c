#include "report/compute_grounds.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

namespace rehearse::inline report {
namespace {

const FamilyGround& ground_of(const StepCosts& costs, CostFamily family) {
  return *std::ranges::find(costs.grounds, family, &FamilyGround::family);
}

/// What the parts of each unit come to when they add up to its times, which may have been scaled.
std::vector<CostPart> scaled_parts(const StepCosts& costs) {
  std::vector<UnitCost> sums(costs.units.size());
  for (const CostPart& part : costs.parts) {
    if (part.unit >= sums.size()) continue;
    sums[part.unit].forward += part.forward;
    sums[part.unit].backward += part.backward;
  }
  const auto ratio = [](Seconds whole, Seconds sum) { return sum > Seconds(0) ? whole / sum : 1; };
  std::vector<CostPart> parts = costs.parts;
  for (CostPart& part : parts) {
    const Seconds before = part.forward + part.backward;
    if (part.unit < sums.size()) {
      const UnitCost& unit = costs.units[part.unit];
      part.forward = part.forward * ratio(unit.forward, sums[part.unit].forward);
      part.backward = part.backward * ratio(unit.backward, sums[part.unit].backward);
    } else {
      part.backward = costs.optimizer;
    }
    if (before > Seconds(0)) part.within = part.within * ((part.forward + part.backward) / before);
  }
  return parts;
}

/// Adds `part` to what is reported of its family.
void add_part(const StepCosts& costs, const CostPart& part, std::vector<FamilyReport>& families) {
  auto at = std::ranges::find(families, part.family, &FamilyReport::family);
  if (at == families.end()) {
    const FamilyGround& ground = ground_of(costs, part.family);
    families.push_back(
        {.family = part.family, .ground = ground.ground, .from = ground.from, .off = ground.off});
    at = std::prev(families.end());
  }
  at->forward += part.forward;
  at->backward += part.backward;
  at->within += part.within;
  at->farthest = std::max(at->farthest, part.farthest);
}

/// Rounding leaves none above 1.
double share_of(Seconds part, Seconds whole) {
  return whole > Seconds(0) ? std::min(1.0, part / whole) : 0;
}

bool are_alike(const std::vector<FamilyReport>& one, const std::vector<FamilyReport>& other) {
  return std::ranges::equal(one, other, [](const auto& a, const auto& b) {
    return a.family == b.family && a.forward == b.forward && a.backward == b.backward;
  });
}

UnitReport unit_report(const std::string& name, const std::vector<FamilyReport>& families) {
  const Seconds whole = total(families);
  UnitReport unit{.first = name, .last = name};
  Seconds within;
  for (const FamilyReport& family : families) {
    unit.forward += family.forward;
    unit.backward += family.backward;
    within += family.within;
    unit.farthest = std::max(unit.farthest, family.farthest);
    const double share = share_of(family.total(), whole);
    const auto at =
        std::ranges::find(unit.grounds, family.ground, &std::pair<CostGround, double>::first);
    if (at == unit.grounds.end())
      unit.grounds.emplace_back(family.ground, share);
    else
      at->second += share;
  }
  unit.within_measured = share_of(within, whole);
  return unit;
}

ComputeReport compute_report(const std::string& gpu, const Model& model, const StepCosts& costs) {
  ComputeReport report{.gpu = gpu, .families = {}, .units = {}};
  const std::vector<CostPart> parts = scaled_parts(costs);
  for (const CostPart& part : parts) add_part(costs, part, report.families);
  std::ranges::stable_sort(report.families, std::ranges::greater{}, &FamilyReport::total);
  std::vector<FamilyReport> before;  // of the last unit
  for (std::size_t i = 0; i < costs.units.size(); ++i) {
    const std::string& name = model.units[i].name;
    std::vector<FamilyReport> families;
    for (const CostPart& part : parts)
      if (part.unit == i) add_part(costs, part, families);
    if (!report.units.empty() && are_alike(before, families)) {
      report.units.back().last = name;
      ++report.units.back().count;
    } else {
      report.units.push_back(unit_report(name, families));
      before = std::move(families);
    }
  }
  return report;
}

/// What an iteration of a rank on such a GPU steps its optimizer for, by the schedule; of a rank
/// that never does, as a parameter server's worker, what all parameters would take stays.
void set_optimizer(const Schedule& schedule, const Cluster& cluster, ComputeReport& report) {
  const auto own = std::ranges::find(report.families, CostFamily::optimizer, &FamilyReport::family);
  const auto rank = std::ranges::find_if(schedule.ranks, [&](const RankSpec& one) {
    return one.place.gpu >= 0 && cluster.node(one.place.node).gpu.name == report.gpu;
  });
  if (own == report.families.end() || rank == schedule.ranks.end()) return;
  Seconds sum;
  for (const Op& op : schedule.programs[rank->program.index()].ops)
    if (const auto* compute = std::get_if<Compute>(&op.work);
        compute != nullptr && op.phase == Phase::optimizer)
      sum += compute->duration;
  if (sum > Seconds(0)) own->backward = sum;
}

}  // namespace

Seconds total(const std::vector<FamilyReport>& families) {
  Seconds sum;
  for (const FamilyReport& family : families)
    if (family.family != CostFamily::optimizer) sum += family.total();
  return sum;
}

std::vector<ComputeReport> compute_reports(const Scenario& scenario, const Schedule& schedule,
                                           const std::vector<StepCosts>& costs) {
  std::vector<ComputeReport> reports;
  for (std::size_t g = 0; g < costs.size(); ++g) {
    const std::string& gpu = scenario.cluster.groups[g].node.gpu.name;
    const bool known = std::ranges::find(reports, gpu, &ComputeReport::gpu) != reports.end();
    if (costs[g].units.empty() || known) continue;
    ComputeReport& report =
        reports.emplace_back(compute_report(gpu, computed_model(scenario), costs[g]));
    set_optimizer(schedule, scenario.cluster, report);
  }
  return reports;
}

}  // namespace rehearse::inline report
