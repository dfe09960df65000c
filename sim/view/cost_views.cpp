#include "view/cost_views.hpp"

#include <fmt/format.h>

#include <cmath>

#include "cluster/power.hpp"
#include "report/prediction_interval.hpp"

namespace rehearse::inline view {
namespace {

/// "12 failures", "0.34 failures"
std::string counted(double count, const char* noun) {
  return count >= 100 ? fmt::format("{:.0f} {}", count, noun)
                      : fmt::format("{:.3g} {}", count, noun);
}

/// What holds the training up, as far as there is any.
std::string held_up_by(const GoodputReport& goodput) {
  const std::pair<const char*, Seconds> parts[] = {
      {"checkpoints", goodput.checkpoint_time}, {"lost work", goodput.lost},
      {"recovery", goodput.recovery},           {"waiting for nodes", goodput.waiting},
      {"fewer nodes", goodput.slower},          {"start", goodput.start}};
  std::string text;
  for (const auto& [name, time] : parts) {
    if (time <= Seconds(0)) continue;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, format(time));
  }
  return text.empty() ? "nothing holds it up" : text;
}

void add_failures(const GoodputReport& goodput, Page& page) {
  const bool fails = std::isfinite(goodput.job_mtbf.value());
  page.wrapped_field("", Ink::plain,
                     fails ? fmt::format("{}, one every {}", counted(goodput.failures, "failures"),
                                         format(goodput.job_mtbf))
                           : "no failures");
  const std::string best = fails ? fmt::format("; Young's interval {}", format(goodput.young)) : "";
  page.wrapped_field("", Ink::plain,
                     fmt::format("a checkpoint of {} every {}{}", format(goodput.checkpoint_write),
                                 format(goodput.checkpoint_interval), best));
}

void add_goodput(const Report& report, const GoodputReport& goodput, Page& page) {
  page.blank();
  std::string range = range_text(report, "goodput.expected_time_s",
                                 [](double time) { return format(Seconds(time)); });
  if (!range.empty()) range = fmt::format(" ({}, 90 % interval)", range);
  page.wrapped_field(
      "goodput", Ink::strong,
      fmt::format("{} of {}{}", percent(goodput.share), format(goodput.expected_time), range));
  if (goodput.trainings > 0) add_failures(goodput, page);
  page.wrapped_field("", Ink::plain, held_up_by(goodput));
}

void add_start(const StartReport& start, Page& page) {
  page.blank();
  page.wrapped_field("start", Ink::plain,
                     fmt::format("{}: first step after {}, all nodes there after {} ({} to {})",
                                 start.elastic ? "elastic" : "gang", format(start.first_step),
                                 format(start.all_there), format(start.all_there_spread.low),
                                 format(start.all_there_spread.high)));
  if (start.elastic)
    page.field("", fmt::format("{:.0f} samples trained meanwhile", start.samples_meanwhile));
}

void add_energy(const Report& report, const EnergyReport& energy, Page& page) {
  page.blank();
  page.wrapped_field("energy", Ink::plain,
                     fmt::format("{} while it trains: GPUs {}, hosts {}, the building {}",
                                 format(Watts(energy.power_w)), format(Watts(energy.gpus_w)),
                                 format(Watts(energy.hosts_w)), format(Watts(energy.pue_w))));
  if (!report.cost || !report.cost->energy_kwh) return;
  const CostReport& cost = *report.cost;
  std::string text = counted(*cost.energy_kwh, "kWh");
  if (cost.co2_kg) text += ", " + counted(*cost.co2_kg, "kg CO2");
  page.field("", page.ink(Ink::strong, text));
}

}  // namespace

std::string money(double usd) {
  if (std::abs(usd) < 100) return fmt::format("{:.2f}", usd);
  const double unit = std::pow(10, std::max(0.0, std::floor(std::log10(std::abs(usd))) - 3));
  return fmt::format("{:.0f}", std::round(usd / unit) * unit);
}

void add_economy(const Report& report, Page& page) {
  if (report.goodput) add_goodput(report, *report.goodput, page);
  if (report.start) add_start(*report.start, page);
  if (report.energy) add_energy(report, *report.energy, page);
}

}  // namespace rehearse::inline view
