#include "view/answer.hpp"

#include <fmt/format.h>

#include <cmath>

#include "report/common_errors.hpp"
#include "report/memory_verdict.hpp"
#include "report/prediction_interval.hpp"
#include "view/digits.hpp"
#include "view/grounds_view.hpp"

namespace rehearse::inline view {
namespace {

constexpr double kGiB = 1024.0 * 1024 * 1024;

/// "33 of 79 GiB": with a decimal where whole ones would hide which is more.
std::string used_of_capacity(const MemoryFit& fit) {
  const double used = fit.used.value() / kGiB, capacity = fit.capacity.value() / kGiB;
  const bool close = std::abs(used - capacity) < 2 || capacity < 10;
  const auto text = [&](double size) {
    return size < 1 ? fmt::format("{:.2f}", size) : fmt::format("{:.{}f}", size, close ? 1 : 0);
  };
  return fmt::format("{} of {} GiB", text(used), text(capacity));
}

std::string would_fit_sentence(const MemoryReport& memory) {
  if (!memory.would_fit) return "";
  if (memory.would_fit->empty()) return " No single change that was tried makes it fit.";
  const FittingChange& best = memory.would_fit->front();
  return fmt::format(" It would with {} ({:.0f} GiB, {:+.0f} % time a sample).", best.change,
                     best.used.value() / kGiB, 100 * best.price);
}

std::string memory_sentence(const Report& report) {
  const std::optional<MemoryFit> fit = memory_fit(report);
  if (!fit) return "";
  if (fit->verdict == MemoryVerdict::unknown)
    return fmt::format("Takes {} of memory a GPU.", format(fit->used));
  const std::string sizes = used_of_capacity(*fit);
  const std::optional<double> fits = probability_of_fitting(*fit);
  if (fit->verdict == MemoryVerdict::does_not_fit) {
    const std::string why = fit->used <= fit->capacity ? ", in pieces that are too small"
                            : fits ? fmt::format(", {} sure", chance_words(1 - *fits))
                                   : "";
    return fmt::format("Does not fit ({} a GPU{}).", sizes, why) +
           would_fit_sentence(*report.memory);
  }
  const bool at_risk = fit->verdict == MemoryVerdict::at_risk;
  return fmt::format("{} ({} a GPU{}).", at_risk ? "May not fit" : "Fits", sizes,
                     !fits     ? ""
                     : at_risk ? fmt::format(", fits with {}", chance_words(*fits))
                               : fmt::format(", {} sure", chance_words(*fits)));
}

/// A figure in its digits; behind it, where `ranged`, its interval in the same.
std::string time_text(const Report& report, Seconds time, const char* key, bool ranged) {
  const auto interval = interval_of(report, key);
  const double place = place_of(time.value(), interval);
  if (!ranged || !interval) return rounded(time, place);
  return fmt::format("{} ({} to {})", rounded(time, place), rounded(Seconds(interval->low), place),
                     rounded(Seconds(interval->high), place));
}

/// Whatever is proportional to the samples per second is known as well as these are.
std::string rate_text(const Report& report, double rate) {
  auto interval = interval_of(report, "samples_per_s");
  if (interval && report.samples_per_s > 0) {
    const double each = rate / report.samples_per_s;
    interval = Ends<double>{interval->low * each, interval->high * each};
  }
  return rounded(rate, place_of(rate, interval));
}

std::string pace_sentence(const Report& report) {
  std::string text =
      time_text(report, report.step_time, "step_time_s", !report.train_time) + " a step, ";
  text += report.tokens_per_s_per_gpu
              ? rate_text(report, *report.tokens_per_s_per_gpu) + " tokens/s a GPU"
              : rate_text(report, report.samples_per_s) + " samples/s";
  if (report.mfu)
    text += fmt::format(" ({:.{}f} % MFU)", 100 * *report.mfu, *report.mfu < 0.1 ? 1 : 0);
  const std::optional<MemoryFit> fit = memory_fit(report);
  const bool fits = !fit || fit->verdict != MemoryVerdict::does_not_fit;
  return fits ? text + "." : "With enough memory: " + text + ".";
}

std::string cost_text(const Report& report) {
  if (!report.cost) return "";
  if (!report.cost->usd)
    return fmt::format("; that is {} GPU hours, and nobody gives {}",
                       rounded(report.cost->gpu_hours, place_of(report.cost->gpu_hours, {})),
                       report.cost->prices.empty() ? "their price" : "the price of some nodes");
  const auto interval = interval_of(report, "cost.usd");
  const double place = place_of(*report.cost->usd, interval);
  std::string text = fmt::format(" and cost {} USD", rounded(*report.cost->usd, place));
  if (interval)
    text +=
        fmt::format(" ({} to {})", rounded(interval->low, place), rounded(interval->high, place));
  return text;
}

/// With failures and the start, where the scenario tells of them.
std::string training_sentence(const Report& report) {
  if (!report.train_time) return "";
  const bool tokens = report.tokens_per_s.has_value();
  const double trained =
      report.train_time->value() * (tokens ? *report.tokens_per_s : report.samples_per_s);
  const bool priced = report.cost && report.cost->usd;
  const std::string time =
      report.goodput
          ? time_text(report, report.goodput->expected_time, "goodput.expected_time_s", !priced)
          : time_text(report, *report.train_time, "train_time_s", !priced);
  return fmt::format("{} {} take {}{}{}.", short_count(trained), tokens ? "tokens" : "samples",
                     time, report.goodput ? " with what holds them up" : "", cost_text(report));
}

std::string accuracy_sentence(const Report& report) {
  if (!report.accuracy) return "";
  const StrategyForecast& told = *report.accuracy;
  if (told.verdict == Verdict::diverges)
    return fmt::format("By curves of {} training diverges ({:.0f} % of runs fail).",
                       report.accuracy_from, 100 * told.failure_probability);
  return fmt::format(
      "By curves of {} it ends at {:.1f} % accuracy ({:.1f} to {:.1f}); {:.0f} % of "
      "runs fail.",
      report.accuracy_from, 100 * told.accuracy.value, 100 * told.accuracy.low,
      100 * told.accuracy.high, 100 * told.failure_probability);
}

std::string bound_sentence(const Report& report) {
  if (report.bottleneck.empty()) return "";
  std::string text = "Bound by " + report.bottleneck;
  return text.ends_with('.') ? text : text + ".";
}

}  // namespace

std::string answer(const Report& report) {
  std::string text;
  const auto add = [&](const std::string& sentence) {
    if (!sentence.empty()) text += (text.empty() ? "" : " ") + sentence;
  };
  add(memory_sentence(report));
  add(pace_sentence(report));
  add(training_sentence(report));
  add(accuracy_sentence(report));
  if (report.loss) add(report.loss->line);
  add(bound_sentence(report));
  if (report.routing_taken)
    add("Every rank's experts are taken to get equal tokens; a router's own choice takes longer "
        "(strategy.experts.imbalance).");
  if (rests_on_datasheet(report.compute)) add("These times rest on a datasheet alone.");
  return text;
}

}  // namespace rehearse::inline view
