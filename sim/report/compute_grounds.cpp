#include "report/compute_grounds.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

namespace rehearse::inline report {
namespace {

/// What speaks for less of the time is not printed.
constexpr double kShown = 0.01;

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

/// Of forward and backward: an optimizer's step may be shared by ranks.
Seconds total(const std::vector<FamilyReport>& families) {
  Seconds sum;
  for (const FamilyReport& family : families)
    if (family.family != CostFamily::optimizer) sum += family.total();
  return sum;
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

/// What speaks for some of the time.
struct GroundShare {
  CostGround ground;
  std::string from;  ///< of other devices
  double share = 0;
  double off = 0, known = 0;  ///< of fits: error times share, and the share whose error is known
};

std::vector<GroundShare> ground_shares(const ComputeReport& report) {
  const Seconds whole = total(report.families);
  std::vector<GroundShare> shares;
  for (const FamilyReport& family : report.families) {
    if (family.family == CostFamily::optimizer) continue;
    auto at = std::ranges::find(shares, family.ground, &GroundShare::ground);
    if (at == shares.end()) {
      shares.push_back({.ground = family.ground, .from = family.from});
      at = std::prev(shares.end());
    }
    const double share = share_of(family.total(), whole);
    at->share += share;
    if (family.off) at->off += share * *family.off;
    if (family.off) at->known += share;
  }
  std::ranges::stable_sort(shares, std::ranges::greater{}, &GroundShare::share);
  return shares;
}

/// "87 % fitted (5.1 % off at unseen shapes), 9 % carried over from rows, 16 bits of A40".
std::string text_of(const GroundShare& one) {
  std::string text = fmt::format("{:.0f} % {}", 100 * one.share, to_string(one.ground));
  if (one.ground == CostGround::carried_over || one.ground == CostGround::transferred)
    text += " from " + one.from;
  if (one.known > 0)
    text += fmt::format(" ({} off at unseen shapes)", percent(one.off / one.known));
  return text;
}

/// Of fits, what lies beyond the sizes that they were made of.
Seconds beyond(const FamilyReport& family) {
  const bool fit = family.farthest > 1 && family.family != CostFamily::optimizer;
  return fit ? family.total() - family.within : Seconds(0);
}

/// "; 23 % of the time beyond measured sizes, most of it pointwise (up to 4.7 times)"; empty: all
/// sizes were measured, but for a hundredth of the time.
std::string beyond_text(const ComputeReport& report) {
  Seconds sum;
  const FamilyReport* most = nullptr;
  for (const FamilyReport& family : report.families) {
    sum += beyond(family);
    if (most == nullptr || beyond(family) > beyond(*most)) most = &family;
  }
  const double share = share_of(sum, total(report.families));
  if (most == nullptr || share < kShown) return "";
  return fmt::format(
      "; {:.0f} % of the time beyond measured sizes, most of it {} (up to {:.2g} times)",
      100 * share, to_string(most->family), most->farthest);
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

bool rests_on_datasheet(const std::vector<ComputeReport>& compute) {
  return std::ranges::any_of(compute, [](const ComputeReport& one) {
    return std::ranges::any_of(ground_shares(one), [](const GroundShare& share) {
      return share.ground == CostGround::analytic && share.share > 0.5;
    });
  });
}

void add_compute(const std::vector<ComputeReport>& compute, Page& page) {
  for (const ComputeReport& one : compute) {
    std::string text;
    for (const GroundShare& share : ground_shares(one)) {
      if (share.share >= kShown) text += (text.empty() ? "" : ", ") + text_of(share);
    }
    if (text.empty()) continue;
    const std::string gpu = compute.size() > 1 ? one.gpu + ": " : "";
    page.wrapped_field("kernels", Ink::faint, gpu + text + beyond_text(one));
  }
}

}  // namespace rehearse::inline report
