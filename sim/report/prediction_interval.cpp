#include "report/prediction_interval.hpp"
#include "report/run_facts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <numbers>
#include <numeric>

namespace rehearse::inline report {
namespace {

/// Quantile of the normal distribution that leaves 5 % above.
constexpr double kNinety = 1.6449;

double square(double value) { return value * value; }

double deviation_of(const std::vector<double>& values) {
  const auto n = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / n;
  double squares = 0;
  for (const double value : values) squares += square(value - mean);
  return std::sqrt(squares / (n - 1));
}

/// What 95 % of the differences stay below, in standard errors that were estimated from `count`
/// values.
double student(std::size_t count) {
  const boost::math::students_t distribution(static_cast<double>(count) - 1);
  return boost::math::quantile(distribution, 0.95);
}

/// Both ends of a figure's change by each source, smallest first.
template <class Change>
Ends<double> in_quadrature(const std::vector<ErrorSource>& sources, double sampling,
                           const Change& change) {
  double below = square(sampling), above = square(sampling);
  for (const ErrorSource& source : sources) {
    const double first = change(source.best, source.low), second = change(source.best, source.high);
    below += square(std::min({first, second, 0.0}));
    above += square(std::max({first, second, 0.0}));
  }
  return {-std::sqrt(below), std::sqrt(above)};
}

/// A mean staleness may be 0: it changes by differences, and never below 0.
Ends<double> staleness_bounds(double mean, const std::vector<ErrorSource>& sources,
                              double sampling) {
  const auto change = [](const Headline& from, const Headline& to) {
    return to.staleness.value_or(0) - from.staleness.value_or(0);
  };
  const Ends<double> off = in_quadrature(sources, sampling, change);
  return {std::max(0.0, mean + off.low), mean + off.high};
}

/// Mechanisms err independently.
Ends<double> memory_bounds(Bytes best, const std::vector<Mechanism>& mechanisms) {
  double squares = 0;
  for (const Mechanism& one : mechanisms) squares += square(one.width());
  const double factor = std::exp(std::sqrt(squares));
  return {best.value() / factor, best.value() * factor};
}

/// The interval of what takes as long as the whole training: that of its steps and that of its
/// failures, which are independent, each end in quadrature of ln.
Ends<double> spread(double value, const Ends<double>& by_steps,
                    const std::optional<GoodputReport>& goodput) {
  if (!goodput || value <= 0) return by_steps;
  const auto below = [&](double low, double best) { return std::log(std::min(1.0, low / best)); };
  const auto above = [&](double high, double best) { return std::log(std::max(1.0, high / best)); };
  const double time = goodput->expected_time.value();
  const Ends<Seconds>& failures = goodput->expected_time_spread;
  return {
      value * std::exp(-std::hypot(below(by_steps.low, value), below(failures.low.value(), time))),
      value *
          std::exp(std::hypot(above(by_steps.high, value), above(failures.high.value(), time)))};
}

/// The same with what the training's length itself is not known by.
Ends<double> with_length(double value, const Ends<double>& bounds,
                         const std::optional<LossCost>& loss) {
  if (!loss || !loss->amount || value <= 0 || loss->amount->value <= 0) return bounds;
  const Estimate<double>& amount = *loss->amount;
  return {value * std::exp(-std::hypot(std::log(value / bounds.low),
                                       std::log(amount.value / amount.low))),
          value * std::exp(std::hypot(std::log(bounds.high / value),
                                      std::log(amount.high / amount.value)))};
}

}  // namespace

double mean_error(const std::vector<double>& values, double deviation) {
  if (values.size() < 2) return kNinety * std::numbers::sqrt2 * deviation;
  return student(values.size()) * deviation_of(values) *
         std::sqrt(2.0 / static_cast<double>(values.size()));
}

Ends<double> log_bounds(double best, const std::vector<ErrorSource>& sources,
                        const std::function<double(const Headline&)>& figure, double sampling) {
  const auto change = [&](const Headline& from, const Headline& to) {
    return std::log(figure(to) / figure(from));
  };
  const Ends<double> off = in_quadrature(sources, sampling, change);
  return {best * std::exp(off.low), best * std::exp(off.high)};
}

std::vector<KeyBounds> intervals_of(const Report& report, const RunFacts& facts,
                                    const Sampling& sampling) {
  const std::vector<ErrorSource>& sources = facts.error_sources;
  const double step_alone = std::hypot(sampling.step, facts.model_error.step);
  std::vector<KeyBounds> intervals;
  const double step = report.step_time.value();
  intervals.push_back(
      {"step_time_s",
       log_bounds(
           step, sources, [](const Headline& h) { return h.step_time.value(); }, step_alone)});
  if (report.worker_step_time) {
    const auto own = [](const Headline& h) { return h.worker_step_time.value().value(); };
    intervals.push_back({"worker_step_time_s",
                         log_bounds(report.worker_step_time->value(), sources, own, step_alone)});
  }
  const double rate = report.samples_per_s;
  const Ends<double> rates = log_bounds(
      rate, sources, [](const Headline& h) { return h.samples_per_s; }, step_alone);
  intervals.push_back({"samples_per_s", rates});
  const auto as_rate = [&](const char* key, const std::optional<double>& value) {
    if (value)
      intervals.push_back({key, {*value * (rates.low / rate), *value * (rates.high / rate)}});
  };
  as_rate("tokens_per_s", report.tokens_per_s);
  as_rate("tokens_per_s_per_gpu", report.tokens_per_s_per_gpu);
  // What takes as long as the samples do.
  const auto as_time = [&](double value) {
    return Ends<double>{value * (rate / rates.high), value * (rate / rates.low)};
  };
  if (report.epoch_time) {
    intervals.push_back({"epoch_time_s", as_time(report.epoch_time->value())});
  }
  if (report.train_time) {
    const double time = report.train_time->value();
    intervals.push_back({"train_time_s", with_length(time, as_time(time), report.loss)});
  }
  if (report.memory) {
    const MemoryMechanisms& mechanisms = report.memory_mechanisms;
    intervals.push_back({"memory.allocated_peak_bytes",
                         memory_bounds(report.memory->allocated_peak, mechanisms.allocated)});
    intervals.push_back(
        {"memory.used_bytes", memory_bounds(report.memory->used(), mechanisms.used)});
  }
  if (report.staleness) {
    const double mean = report.staleness->mean;
    const double alone = std::hypot(sampling.staleness, mean * facts.model_error.staleness);
    intervals.push_back({"staleness.mean", staleness_bounds(mean, sources, alone)});
  }
  // What failures add to chance.
  const auto as_whole = [&](double value) {
    return with_length(value, spread(value, as_time(value), report.goodput), report.loss);
  };
  if (report.cost) {
    const CostReport& cost = *report.cost;
    intervals.push_back({"cost.gpu_hours", as_whole(cost.gpu_hours)});
    if (cost.usd) intervals.push_back({"cost.usd", as_whole(*cost.usd)});
    if (cost.energy_kwh) intervals.push_back({"cost.energy_kwh", as_whole(*cost.energy_kwh)});
    if (cost.co2_kg) intervals.push_back({"cost.co2_kg", as_whole(*cost.co2_kg)});
  }
  if (report.goodput) {
    const double time = report.goodput->expected_time.value();
    intervals.push_back({"goodput.expected_time_s", as_whole(time)});
  }
  return intervals;
}

const std::vector<std::string>& interval_keys() {
  static const std::vector<std::string> keys{"step_time_s",
                                             "worker_step_time_s",
                                             "samples_per_s",
                                             "tokens_per_s",
                                             "tokens_per_s_per_gpu",
                                             "epoch_time_s",
                                             "train_time_s",
                                             "memory.allocated_peak_bytes",
                                             "memory.used_bytes",
                                             "staleness.mean",
                                             "cost.gpu_hours",
                                             "cost.usd",
                                             "cost.energy_kwh",
                                             "cost.co2_kg",
                                             "goodput.expected_time_s"};
  return keys;
}

std::optional<Ends<double>> interval_of(const Report& report, std::string_view key) {
  const auto found = std::ranges::find(report.intervals, key, &KeyBounds::key);
  if (found == report.intervals.end()) return std::nullopt;
  return found->bounds;
}

std::string range_text(const Report& report, std::string_view key, std::string (*text)(double)) {
  const std::optional<Ends<double>> bounds = interval_of(report, key);
  return bounds ? text(bounds->low) + " to " + text(bounds->high) : "";
}

}  // namespace rehearse::inline report
