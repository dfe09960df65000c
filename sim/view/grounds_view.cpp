#include "view/grounds_view.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report/compute_grounds.hpp"

namespace rehearse::inline view {
namespace {

/// What speaks for less of the time is not printed.
constexpr double kShown = 0.01;

/// Rounding leaves none above 1.
double share_of(Seconds part, Seconds whole) {
  return whole > Seconds(0) ? std::min(1.0, part / whole) : 0;
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

}  // namespace

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

void add_mechanisms(const std::string& of, const std::vector<Mechanism>& mechanisms, Page& page) {
  std::string text;
  for (const Mechanism& one : mechanisms) {
    const double above = one.upper() - 1;
    if (above < kShown) continue;
    if (!text.empty()) text += ", ";
    if (one.whole && above > std::expm1(one.width()))
      text += fmt::format("{} +{} where compute no longer hides them", one.name, percent(above));
    else
      text += fmt::format("{} ± {}", one.name, percent(above));
  }
  if (!text.empty()) page.wrapped_field("interval", Ink::faint, of + ": " + text);
}

}  // namespace rehearse::inline view
