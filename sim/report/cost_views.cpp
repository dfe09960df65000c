#include "report/cost_views.hpp"

#include <fmt/format.h>

#include <cmath>

#include "cluster/power.hpp"
#include "report/prediction_interval.hpp"

namespace rehearse::inline report {
namespace {

using Json = nlohmann::ordered_json;

template <class Number>
Json number(const std::optional<Number>& value) {
  return value ? Json(*value) : Json();
}

/// Null for what never happens.
Json seconds(Seconds time) { return std::isfinite(time.value()) ? Json(time.value()) : Json(); }

Json bounds(const Ends<Seconds>& interval) {
  return Json::array({interval.low.value(), interval.high.value()});
}

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

Json cost_json(const std::optional<CostReport>& cost) {
  if (!cost) return nullptr;
  Json parts;
  if (cost->usd_by_part) {
    parts = {{"training", cost->usd_by_part->training},
             {"failures", cost->usd_by_part->failures},
             {"start", cost->usd_by_part->start},
             {"energy", cost->usd_by_part->energy}};
  }
  return {{"usd", number(cost->usd)},
          {"gpu_hours", cost->gpu_hours},
          {"usd_by_part", parts},
          {"energy_kwh", number(cost->energy_kwh)},
          {"co2_kg", number(cost->co2_kg)}};
}

Json energy_json(const std::optional<EnergyReport>& energy) {
  if (!energy) return nullptr;
  return {{"power_w", energy->power_w},
          {"gpus_w", energy->gpus_w},
          {"hosts_w", energy->hosts_w},
          {"pue_w", energy->pue_w},
          {"step_j", energy->step_j}};
}

Json goodput_json(const std::optional<GoodputReport>& goodput) {
  if (!goodput) return nullptr;
  const auto of_failures = [&](Seconds time) {
    return goodput->trainings > 0 ? seconds(time) : Json();
  };
  return {{"share", goodput->share},
          {"expected_time_s", goodput->expected_time.value()},
          {"expected_time_spread_s", bounds(goodput->expected_time_spread)},
          {"checkpoint_interval_s", of_failures(goodput->checkpoint_interval)},
          {"checkpoint_write_s", of_failures(goodput->checkpoint_write)},
          {"young_daly_s", of_failures(goodput->young)},
          {"daly_higher_order_s", of_failures(goodput->daly)},
          {"job_mtbf_s", of_failures(goodput->job_mtbf)},
          {"failures_expected", goodput->failures},
          {"checkpoints_expected", goodput->checkpoints},
          {"checkpoint_s", goodput->checkpoint_time.value()},
          {"lost_s", goodput->lost.value()},
          {"recovery_s", goodput->recovery.value()},
          {"waiting_s", goodput->waiting.value()},
          {"slower_s", goodput->slower.value()},
          {"start_s", goodput->start.value()},
          {"expectation", goodput->exact ? "closed form" : "mean of the trainings played"},
          {"trainings", goodput->trainings}};
}

Json start_json(const std::optional<StartReport>& start) {
  if (!start) return nullptr;
  return {{"mode", start->elastic ? "elastic" : "gang"},
          {"first_step_s", start->first_step.value()},
          {"all_there_s", start->all_there.value()},
          {"all_there_spread_s", bounds(start->all_there_spread)},
          {"delay_s", start->delay.value()},
          {"samples_meanwhile", start->samples_meanwhile}};
}

void add_economy(const Report& report, Page& page) {
  if (report.goodput) add_goodput(report, *report.goodput, page);
  if (report.start) add_start(*report.start, page);
  if (report.energy) add_energy(report, *report.energy, page);
}

}  // namespace rehearse::inline report
