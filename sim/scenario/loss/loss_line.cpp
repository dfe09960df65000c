#include <fmt/format.h>

#include <cmath>
#include <memory>

#include "config/count.hpp"
#include "scenario/loss/loss_method.hpp"
#include "scenario/loss/loss_section.hpp"
#include "scenario/loss/loss_target.hpp"

namespace rehearse::inline scenario {
namespace {

constexpr double kSameData = 0.01;  ///< of an epoch's samples
/// What a plain training at its own batch may cost before a run says it.
constexpr double kWorthSaying = 1.1;

bool is_same_data(const Scenario& scenario, const std::optional<double>& samples) {
  const auto own = scenario.train.samples_per_epoch;
  return own && samples && std::abs(static_cast<double>(*own) / *samples - 1) < kSameData;
}

/// "Time is for 90 epochs, not for an accuracy; MLPerf's ..."; empty where nothing is known.
std::string line_of_reference(const Scenario& scenario) {
  const Workload* const workload = workload_of(scenario.model.name);
  if (workload == nullptr || workload->unit != "epochs" || !scenario.train.epochs ||
      !is_same_data(scenario, workload->samples_per_epoch))
    return "";
  const double batch = samples_per_step(scenario);
  const BatchLaw law(workload->points, known_workloads().prior);
  std::string text = fmt::format("Time is for {:g} epoch{}, not for an accuracy; ",
                                 *scenario.train.epochs, *scenario.train.epochs == 1 ? "" : "s");
  if (law.holds_at(batch)) {
    const Estimate<double> amount = law.amount(batch);
    text += fmt::format("MLPerf's {} ({}) needs {:.0f} ({:.0f} to {:.0f}) to {} at this batch.",
                        scenario.model.name, workload->optimizer, amount.value, amount.low,
                        amount.high, workload->target);
  } else {
    text += fmt::format("MLPerf's points reach from batches of {:.0f} to {:.0f}.", law.range().low,
                        law.range().high);
  }
  const FixedLength* const length = length_of(scenario);
  if (length != nullptr && workload->accuracy &&
      length->reaches(batch, *workload->accuracy) == std::optional(false)) {
    const EndByBatch& near = end_near(*length, batch);
    text += fmt::format(" SGD came to {:.1f} % in {:.0f} at batch {:.0f}: more, or never.",
                        100 * near.accuracy, length->epochs, near.batch);
  }
  return text;
}

/// What so many tokens are worth in plain training: the same by the other way about.
LossCost worth_of_tokens(const Scenario& scenario, double tokens) {
  const LossMethod method = loss_method_of(scenario);
  LossCost cost{
      .method = method_name(method), .unit = "tokens", .amount = {}, .parts = {}, .line = {}};
  const auto refused = refused_training(scenario);
  const auto unknown = refused ? refused : refusal_of(method, tokens);
  const bool is_plain = cost.method == "synchronous";
  if (unknown) {
    if (!is_plain)
      cost.line = fmt::format("Time is for {} tokens, not for a loss: {}.", count_text(tokens),
                              unknown->why);
    return cost;
  }
  const EqualLoss equal = equal_loss(method, tokens);
  if (is_plain && equal.ratio().value < kWorthSaying) return cost;
  cost.amount = Estimate<double>{tokens, tokens, tokens};
  cost.parts = equal.parts;
  const Estimate<double> ratio = equal.ratio();
  cost.line = fmt::format(
      "Time is for {} tokens, not for a loss: they train as far as {} ({} to {}) "
      "in plain training at its best batch.",
      count_text(tokens), count_text(tokens / ratio.value), count_text(tokens / ratio.high),
      count_text(tokens / ratio.low));
  return cost;
}

}  // namespace

void say_loss(Scenario& scenario) {
  if (scenario.train.loss || scenario.convergence) return;
  LossCost cost{.method = "synchronous", .unit = "epochs", .amount = {}, .parts = {}, .line = {}};
  const auto tokens = static_cast<double>(scenario.model.tokens_per_sample);
  if (tokens > 0 && scenario.transformer) {
    const auto samples = training_samples(scenario, samples_per_step(scenario));
    if (!samples || scenario.train.steps) return;
    cost = worth_of_tokens(scenario, *samples * tokens);
  } else {
    cost.line = line_of_reference(scenario);
  }
  if (!cost.line.empty()) scenario.train.loss = std::make_shared<const LossCost>(std::move(cost));
}

}  // namespace rehearse::inline scenario
