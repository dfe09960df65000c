#include "report/training_kind.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace rehearse::inline report {
namespace {

using Json = nlohmann::json;

std::string narrow_format(const std::string& precision) {
  return precision == "fp8" || precision == "mxfp8" || precision == "nvfp4" ? precision : "";
}

/// By the strategy's name and whether updates are stale.
std::string method_of(const std::string& strategy, double staleness) {
  if (strategy.starts_with("diloco") || strategy.starts_with("local_sgd"))
    return strategy.substr(0, strategy.find(','));
  return staleness > 0 ? "stale updates" : "";
}

std::string shift_name(const std::string& part) { return "loss: " + part; }

ErrorShifts shifts_of_amount(const Estimate<double>& amount) {
  return {{shift_name(fmt::format("{:.6g}", amount.value)),
           {std::log(amount.low / amount.value), std::log(amount.high / amount.value)}}};
}

const Json& member(const Json& report, const char* key) {
  static const Json kNone;
  return report.is_object() && report.contains(key) ? report.at(key) : kNone;
}

Estimate<double> estimate_of(const Json& json) {
  return {json.at("value").get<double>(), json.at("low").get<double>(),
          json.at("high").get<double>()};
}

}  // namespace

TrainingKind training_kind(const Report& report) {
  TrainingKind kind{
      .batch = static_cast<double>(report.global_batch),
      .method = method_of(report.strategy, report.staleness ? report.staleness->mean : 0),
      .format = narrow_format(report.precision),
      .takes_tokens = report.tokens_per_s.has_value()};
  if (report.loss) {
    kind.like_tokens = report.loss->like_tokens.value_or(0);
    kind.to_a_target = report.loss->asked == LossCost::Asked::target;
  }
  return kind;
}

TrainingKind training_kind(const Json& report) {
  const auto text = [&](const char* key) {
    const Json& value = member(report, key);
    return value.is_string() ? value.get<std::string>() : std::string();
  };
  const Json &batch = member(report, "global_batch"), &staleness = member(report, "staleness"),
             &loss = member(report, "loss");
  TrainingKind kind{
      .batch = batch.is_number() ? batch.get<double>() : 0,
      .method = method_of(text("strategy"),
                          staleness.is_object() ? staleness.at("mean").get<double>() : 0),
      .format = narrow_format(text("precision")),
      .takes_tokens = member(report, "tokens_per_s").is_number()};
  if (!loss.is_object()) return kind;
  if (loss.at("like_tokens").is_number()) kind.like_tokens = loss.at("like_tokens");
  kind.to_a_target = loss.at("asked") == "target";
  return kind;
}

std::string unlike_training(const TrainingKind& first, const TrainingKind& second) {
  const bool same_loss = (first.like_tokens > 0 && first.like_tokens == second.like_tokens) ||
                         (first.to_a_target && second.to_a_target);
  if (same_loss) return "";
  std::string text;
  const auto add = [&](const std::string& words) { text += (text.empty() ? "" : ", ") + words; };
  // A step of local steps has the samples of a whole period.
  if (first.method == second.method && first.batch != second.batch)
    add(fmt::format("batches of {:.0f} and {:.0f} samples", std::min(first.batch, second.batch),
                    std::max(first.batch, second.batch)));
  for (const std::string& one : {first.method, second.method})
    if (first.method != second.method && !one.empty()) add(one);
  for (const std::string& one : {first.format, second.format})
    if (first.format != second.format && !one.empty()) add(one);
  return text;
}

std::string left_out_line(const std::vector<TrainingKind>& compared) {
  std::string text;
  for (const TrainingKind& one : compared) {
    text = unlike_training(compared.front(), one);
    if (!text.empty()) break;
  }
  if (text.empty()) return "";
  return fmt::format("Left out: what they cost in loss ({}); {}.", text,
                     compared.front().takes_tokens
                         ? "--like data-parallel:TOKENS compares at equal loss"
                         : "train.to compares at equal accuracy, where reference points are known");
}

ErrorShifts loss_shifts(const std::optional<LossCost>& loss) {
  if (!loss || loss->asked == LossCost::Asked::length) return {};
  if (loss->parts.empty() && loss->amount) return shifts_of_amount(*loss->amount);
  ErrorShifts shifts;
  for (const TokenCost& part : loss->parts)
    shifts[shift_name(part.name)] = {std::log(part.ratio.low / part.ratio.value),
                                     std::log(part.ratio.high / part.ratio.value)};
  return shifts;
}

ErrorShifts loss_shifts(const Json& report) {
  const Json& loss = member(report, "loss");
  if (!loss.is_object() || loss.at("asked") == "length") return {};
  if (loss.at("parts").empty() && loss.at("amount").is_object())
    return shifts_of_amount(estimate_of(loss.at("amount")));
  ErrorShifts shifts;
  for (const Json& part : loss.at("parts")) {
    const Estimate<double> ratio = estimate_of(part.at("ratio"));
    shifts[shift_name(part.at("name").get<std::string>())] = {std::log(ratio.low / ratio.value),
                                                              std::log(ratio.high / ratio.value)};
  }
  return shifts;
}

ErrorShifts with(ErrorShifts shifts, const ErrorShifts& more) {
  shifts.insert(more.begin(), more.end());
  return shifts;
}

}  // namespace rehearse::inline report
