#include "convergence/token_cost.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "convergence/method_laws.hpp"

namespace rehearse::inline convergence {
namespace {

using Order = LossMethod::Order;
using Format = LossMethod::Format;

constexpr double kLargeModel = 3e9;  ///< parameters, from which on DiLoCo's law is less sure
constexpr double kFittedPeriod = 30;

/// ln(tokens' ratio) for a loss that is higher by `nats`; `slope` is -dL/d ln D.
double log_ratio(double nats, double slope) {
  const MethodLaws& laws = method_laws();
  const double beta = laws.slope.beta, most = std::log(laws.most_ratio);
  const double left = 1 - beta * nats / slope;
  return left <= std::exp(-beta * most) ? most : -std::log(left) / beta;
}

double plain_loss(double parameters, double tokens) {
  const auto& law = method_laws().loss;
  return law.E + law.A * std::pow(parameters, -law.alpha) + law.B * std::pow(tokens, -law.beta);
}

/// Tokens for a loss that is higher by so many nats.
Estimate<double> tokens_for(const Estimate<double>& nats, const LossMethod& method, double like) {
  const auto& law = method_laws().slope;
  const double slope = method.slope.value_or(law.A * std::pow(like, -law.beta));
  const double spread = method.slope ? 1 : law.spread;
  const double value = log_ratio(nats.value, slope);
  const double steep = log_ratio(nats.value, slope * spread) - value;
  const double flat = log_ratio(nats.value, slope / spread) - value;
  const double low = std::hypot(log_ratio(nats.low, slope) - value, std::min(steep, flat));
  const double high = std::hypot(log_ratio(nats.high, slope) - value, std::max(steep, flat));
  const double most = method_laws().most_ratio;
  return {std::exp(value), std::exp(value - low), std::min(most, std::exp(value + high))};
}

Estimate<double> in_nats(const Estimate<double>& share, double loss) {
  return {loss * std::expm1(share.value), loss * std::expm1(share.low),
          loss * std::expm1(share.high)};
}

/// What replicas that drift apart for 30 steps lose, as a share of the loss.
double drift(const LossMethod& method) {
  const auto& law = method_laws().diloco;
  return law.gap * std::pow(method.replicas - 1.0, law.power) *
         std::pow(method.parameters / 1e9, -law.fade);
}

std::string local_steps_name(const LossMethod& method) {
  return fmt::format("{}DiLoCo, {} replicas, H {}{}",
                     method.order == Order::asynchronous ? "asynchronous " : "", method.replicas,
                     method.period, method.tuned ? "" : ", rates not tuned for it");
}

Estimate<double> format_cost(Format format) {
  const MethodLaws& laws = method_laws();
  if (format == Format::fp8) return laws.fp8;
  if (format == Format::mxfp8) return laws.mxfp8;
  return laws.nvfp4;
}

const char* format_name(Format format) {
  return format == Format::fp8 ? "FP8" : format == Format::mxfp8 ? "MXFP8" : "NVFP4";
}

/// Tokens over those of fresh data, of data that are passed over several times.
double passes_ratio(double wanted, double unique, double worth) {
  const double share = (wanted / unique - 1) / worth;
  if (share <= 0) return 1;
  if (share >= 1) return method_laws().most_ratio;
  return (1 - worth * std::log1p(-share)) * unique / wanted;
}

Estimate<double> repeated_cost(double wanted, double unique) {
  const auto& law = method_laws().repeated;
  const double value = passes_ratio(wanted, unique, law.R);
  return {value, std::min(value, passes_ratio(wanted, unique, law.R * law.spread)),
          passes_ratio(wanted, unique, law.R / law.spread)};
}

double product(const std::vector<TokenCost>& parts) {
  double all = 1;
  for (const TokenCost& part : parts) all *= part.ratio.value;
  return all;
}

/// What stands in any training, whatever its data.
std::vector<TokenCost> method_costs(const LossMethod& method, double like) {
  std::vector<TokenCost> parts;
  const double loss = plain_loss(method.parameters, like);
  const auto add = [&](std::string name, const Estimate<double>& nats, std::string source) {
    parts.push_back({std::move(name), tokens_for(nats, method, like), std::move(source)});
  };
  if (method.has_local_steps()) {
    Estimate<double> nats = in_nats(diloco_cost(method), loss);
    std::string source = "arXiv 2503.09799, 2501.18512, 2506.10911";
    if (method.order == Order::asynchronous) {
      const auto& law = method_laws().asynchronous_diloco;
      const Estimate<double>& late = method.delayed_nesterov ? law.delayed_nesterov : law.plain;
      const double value = nats.value + late.value;
      nats = {value, value - std::hypot(nats.value - nats.low, late.value - late.low),
              value + std::hypot(nats.high - nats.value, late.high - late.value)};
      source += ", 2401.09135";
    }
    add(local_steps_name(method), nats, source);
  } else if (method.order == Order::one_late) {
    add("one update late", in_nats(method_laws().one_update_late, loss), "arXiv 2006.09503");
  }
  if (method.format != Format::wide)
    add(format_name(method.format), in_nats(format_cost(method.format), loss),
        method.format == Format::nvfp4 ? "arXiv 2509.25149" : "arXiv 2412.19437");
  if (method.tokens_per_step > 0) {
    const Estimate<double> batch = critical_batch(method, like);
    const double part = method_laws().batch.excess * method.tokens_per_step;
    parts.push_back({fmt::format("batch of {:.3g}M tokens", method.tokens_per_step / 1e6),
                     {1 + part / batch.value, 1 + part / batch.high, 1 + part / batch.low},
                     "arXiv 2410.21676"});
  }
  return parts;
}

}  // namespace

Estimate<double> diloco_cost(const LossMethod& method) {
  if (!method.has_local_steps()) return {};
  const auto& law = method_laws().diloco;
  const double gap = drift(method), folds = std::log(method.period / kFittedPeriod);
  const double longer = gap * std::pow(std::max(1.0, method.period / kFittedPeriod), law.period);
  const double gain = law.gain * method.parameters / (method.parameters + law.gain_size);
  const double off = std::hypot(method.parameters < kLargeModel ? law.off_below : law.off_above,
                                law.off_period * gap * folds);
  if (method.tuned) return {longer - gain, longer - gain - off, longer - gain + off};
  return {longer, law.untuned_least * longer - off, std::max(longer, law.untuned_most * gap) + off};
}

Estimate<double> critical_batch(const LossMethod& method, double tokens) {
  const MethodLaws& laws = method_laws();
  const double units = tokens / 20 / 1e6;
  double value = laws.batch.tokens_at_million * std::pow(units, laws.batch.power);
  if (method.has_local_steps()) {
    const auto& best = laws.diloco.batch;
    value *= std::max(1.0, best.A * std::pow(method.parameters, best.parameters) *
                               std::pow(method.replicas, best.replicas));
  }
  return {value, value / laws.batch.spread, value * laws.batch.spread};
}

std::optional<LossRefusal> refusal_of(const LossMethod& method, double tokens) {
  const MethodLaws& laws = method_laws();
  const auto& diloco = laws.diloco;
  if (method.has_local_steps()) {
    if (method.replicas > diloco.most_replicas)
      return LossRefusal{fmt::format("no public row has {} replicas with local steps: 16 at most",
                                     method.replicas),
                         "fewer replicas, or two runs of your own at a smaller size"};
    if (method.period > diloco.most_period)
      return LossRefusal{
          fmt::format("no public row has {} steps between averages: 100 at most", method.period),
          fmt::format("a period of {:g} or less", diloco.most_period)};
    if (method.parameters < diloco.least_parameters || method.parameters > diloco.most_parameters)
      return LossRefusal{
          fmt::format("what local steps cost is known from 15M to 20B parameters, and this network "
                      "has {:.3g}B",
                      method.parameters / 1e9),
          "leave local steps out, or try them at a smaller size"};
  }
  if (method.order == Order::asynchronous && !method.has_local_steps())
    return LossRefusal{
        "no public row says what gradients more than one update late cost a language model",
        "staleness: 0, or curves of your own and `rehearse forecast`"};
  if (!method.unique_tokens) return std::nullopt;
  const double wanted = tokens * product(method_costs(method, tokens));
  const double passes =
      passes_ratio(wanted, *method.unique_tokens, laws.repeated.R) * wanted / *method.unique_tokens;
  if (passes > laws.repeated.most_passes)
    return LossRefusal{
        fmt::format("{:.3g}B unique tokens would be passed over {:.0f} times, and the "
                    "law of repeated data holds to {:g}",
                    *method.unique_tokens / 1e9, passes, laws.repeated.most_passes),
        "more data, or a loss that fewer tokens come to"};
  return std::nullopt;
}

EqualLoss equal_loss(const LossMethod& method, double like) {
  EqualLoss equal{.like = like, .tokens = {}, .parts = method_costs(method, like)};
  if (method.unique_tokens) {
    const double wanted = like * product(equal.parts);
    equal.parts.push_back({fmt::format("{:.3g}B unique tokens", *method.unique_tokens / 1e9),
                           repeated_cost(wanted, *method.unique_tokens), "arXiv 2305.16264"});
  }
  double low = 0, high = 0;
  for (const TokenCost& part : equal.parts) {
    low = std::hypot(low, std::log(part.ratio.value / part.ratio.low));
    high = std::hypot(high, std::log(part.ratio.high / part.ratio.value));
  }
  const double value = like * product(equal.parts);
  equal.tokens = {value, value * std::exp(-low), value * std::exp(high)};
  return equal;
}

}  // namespace rehearse::inline convergence
