#include "view/page_parts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "report/prediction_interval.hpp"

namespace rehearse::inline view {
namespace {

std::string hundredths(double value) { return fmt::format("{:.2f}", value); }

/// Counts of the stalenesses 0 to max, as many together as it takes to fit into `width` characters.
std::vector<double> binned(const StalenessReport& staleness, std::size_t width) {
  const std::size_t per_bin = staleness.max / width + 1;
  std::vector<double> bins(staleness.max / per_bin + 1);
  for (const auto& [value, updates] : staleness.histogram)
    bins[value / per_bin] += static_cast<double>(updates);
  return bins;
}

/// A line from the lower end of an interval to the upper one, with a mark at the value, on a scale
/// from 0.
std::string interval_bar(const Ends<double>& ends, double value, std::size_t width) {
  const auto column = [&](double at) {
    return static_cast<std::size_t>(std::lround(at / ends.high * static_cast<double>(width - 1)));
  };
  std::string text;
  for (std::size_t i = 0; i < width; ++i)
    text += i == column(value) ? "●" : i >= column(ends.low) ? "─" : "·";
  return text;
}

}  // namespace

void add_staleness(const Report& report, const StalenessReport& staleness, Page& page) {
  page.blank();
  page.field("staleness", page.ink(Ink::strong, fmt::format("mean {:.2f}", staleness.mean)) +
                              fmt::format(", median {}, 99 % up to {}, max {} updates",
                                          staleness.p50, staleness.p99, staleness.max));
  const std::string range = range_text(report, "staleness.mean", hundredths);
  if (!range.empty()) page.field("", "mean " + range + " (90 % interval)");
  if (staleness.between_push_and_pull)
    page.field("", fmt::format("{:.2f} updates of others between a worker's push and its next pull",
                               *staleness.between_push_and_pull));
  if (staleness.max == 0) return;
  page.field("", fmt::format("0 {} {}", page.ink(Ink::compute, sparkline(binned(staleness, 40))),
                             staleness.max));
}

void add_loss(const Report& report, Page& page) {
  const LossCost& loss = *report.loss;
  if (loss.asked == LossCost::Asked::length || !report.train_time) return;
  const auto interval = interval_of(report, "train_time_s");
  if (!interval || !std::isfinite(interval->high) || interval->high <= 0) return;
  const std::string range =
      fmt::format("{} to {}", format(Seconds(interval->low)), format(Seconds(interval->high)));
  page.field(loss.asked == LossCost::Asked::like ? "equal loss" : "to the target",
             page.ink(Ink::strong, left(format(*report.train_time), kValueColumns)) + range);
  page.field("",
             page.ink(Ink::compute, interval_bar(*interval, report.train_time->value(),
                                                 std::min<std::size_t>(40, page.body_width()))));
  for (const TokenCost& part : loss.parts)
    page.wrapped_field("", Ink::faint,
                       fmt::format("{}: {:.3g} times the tokens ({:.3g} to {:.3g}; {})", part.name,
                                   part.ratio.value, part.ratio.low, part.ratio.high, part.source));
}

void add_accuracy(const StrategyForecast& told, const std::string& from, Page& page) {
  page.blank();
  page.field("accuracy", page.ink(Ink::strong, left(percent(told.accuracy.value), kValueColumns)) +
                             fmt::format("{} to {} (90 % interval) after {:.0f} samples",
                                         percent(told.accuracy.low), percent(told.accuracy.high),
                                         told.samples));
  const Ink ink = told.verdict == Verdict::converges ? Ink::good : Ink::bad;
  page.field("", page.ink(ink, to_string(told.verdict)) +
                     fmt::format(" (fails with {}); {:+.1f} points by staleness",
                                 percent(told.failure_probability), -100 * told.staleness_loss));
  page.field("", "as curves of " + from + " say");
  if (told.verdict != Verdict::diverges)
    page.field("", "the median of runs that train; their mean is " + percent(told.mean_accuracy));
  for (const Doubt& doubt : told.outside_calibration) page.wrapped_field("", Ink::bad, doubt.text);
  if (!told.target) return;
  const Seconds time =
      told.time_to_target.value_or(Seconds(std::numeric_limits<double>::infinity()));
  page.field("", std::isfinite(time.value())
                     ? fmt::format("{} after {}", percent(*told.target), format(time))
                     : fmt::format("never comes to {}", percent(*told.target)));
}

}  // namespace rehearse::inline view
