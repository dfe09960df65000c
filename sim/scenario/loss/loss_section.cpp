#include "scenario/loss/loss_section.hpp"

#include <fmt/format.h>

#include <memory>

#include "config/count.hpp"
#include "config/fields.hpp"
#include "scenario/loss/loss_method.hpp"
#include "scenario/loss/loss_target.hpp"
#include "scenario/token_keys.hpp"

namespace rehearse::inline scenario {
namespace {

struct Like {
  double tokens = 0;
  std::optional<double> unique_tokens, slope;
  bool tuned = false, delayed_nesterov = false;
};

Form<double> count_form() {
  return {type::text("a count, such as 20B"),
          [](const Value& value) { return static_cast<double>(read_count_of(value)); }};
}

Fields<Like> like_fields() {
  return {required(
              "data_parallel", &Like::tokens, count_form(),
              "Tokens of plain synchronous training at its best batch; equal loss to it is asked."),
          silent("unique_tokens", &Like::unique_tokens, count_form(),
                 "Of the data, which is passed over again beyond them."),
          silent("slope", &Like::slope, form::positive(),
                 "-dL/d ln D of your own runs, in nats; else the stated one with its spread."),
          silent("rates", &Like::tuned, form::choice<bool>({{"untuned", false}, {"tuned", true}}),
                 "Whether rates and batch were searched for this method.")
              .otherwise("untuned"),
          silent("delayed_nesterov", &Like::delayed_nesterov, form_of<bool>(),
                 "Asynchronous DiLoCo with delayed Nesterov and dynamic local updates.",
                 "arXiv 2401.09135")
              .otherwise("false"),
          {{{"shards", type::choice({"iid", "by_source"}), "iid",
             "How replicas' data are drawn; others are refused."}},
           [](Map& map, Like&) {
             const auto shards = map.optional("shards");
             if (shards && shards->as_choice({"iid", "by_source"}) != "iid")
               shards->fail(
                   "no law says what non-i.i.d. shards cost: public rows of them train on more "
                   "tokens",
                   "shards: iid, or runs of your own");
           }}};
}

[[noreturn]] void refuse(const Value& at, const LossRefusal& refusal) {
  at.fail(refusal.why, refusal.remedy);
}

/// "1.2 times the tokens (1.0 to 1.6)", of what costs them.
std::string ratio_text(const Estimate<double>& ratio) {
  return fmt::format("{:.3g} times ({:.3g} to {:.3g})", ratio.value, ratio.low, ratio.high);
}

std::string parts_text(const std::vector<TokenCost>& parts) {
  std::string text;
  for (const TokenCost& part : parts)
    text += fmt::format("{}{}: {:.3g} to {:.3g}", text.empty() ? "" : "; ", part.name,
                        part.ratio.low, part.ratio.high);
  return text;
}

LossMethod asked_method(const Scenario& scenario, const Like& like) {
  LossMethod method = loss_method_of(scenario);
  method.unique_tokens = like.unique_tokens;
  method.slope = like.slope;
  method.tuned = like.tuned;
  method.delayed_nesterov = like.delayed_nesterov;
  return method;
}

LossCost cost_like(const Value& value, const Scenario& scenario) {
  const Like like = read_fields(value, like_fields());
  if (const auto refused = refused_training(scenario)) refuse(value, *refused);
  const LossMethod method = asked_method(scenario, like);
  if (const auto refused = refusal_of(method, like.tokens)) refuse(value, *refused);
  const EqualLoss equal = equal_loss(method, like.tokens);
  return {.asked = LossCost::Asked::like,
          .method = method_name(method),
          .like_tokens = like.tokens,
          .unit = "tokens",
          .amount = equal.tokens,
          .parts = equal.parts,
          .line = fmt::format("As low a loss as plain training on {} tokens takes {} of them: {} "
                              "to {} tokens ({}).",
                              count_text(like.tokens), ratio_text(equal.ratio()),
                              count_text(equal.tokens.low), count_text(equal.tokens.high),
                              parts_text(equal.parts))};
}

}  // namespace

void apply_loss(const Value& train, Scenario& scenario) {
  Map map = train.as_map();
  const std::optional<Value> like = map.optional("like"), to = map.optional("to");
  if (!like && !to) return;
  const Value& asked = like ? *like : *to;
  for (const char* other : {"tokens", "steps", "epochs", like ? "to" : "like"}) {
    if (!map.has(other)) continue;
    const Value key = map.at_key(other);
    if (key.file() == asked.file())
      key.fail(
          fmt::format("{} and {} both say how long the training is", like ? "like" : "to", other),
          "leave one of them out");
    scenario.assumptions.push_back(
        fmt::format("train.{}: {} takes its place", other, asked.path()));
  }
  LossCost cost = like ? cost_like(*like, scenario) : cost_to(*to, scenario);
  if (like)
    set_samples(cost.amount->value / static_cast<double>(scenario.model.tokens_per_sample),
                scenario);
  scenario.train.loss = std::make_shared<const LossCost>(std::move(cost));
}

std::vector<Key> loss_keys() {
  std::vector<Key> keys = {
      {"like", type::map(), "-", "The loss of plain synchronous training; tokens follow."}};
  for (Key& key : keys_of(like_fields(), "like.")) keys.push_back(std::move(key));
  keys.push_back({"to", type::map(), "-", "A target of reference points; samples follow."});
  for (Key& key : target_keys("to.")) keys.push_back(std::move(key));
  return keys;
}

}  // namespace rehearse::inline scenario
