#include "scenario/loss/loss_method.hpp"

#include <fmt/format.h>

#include "strategy/server/server_host.hpp"

namespace rehearse::inline scenario {
namespace {

LossMethod::Format format_of(Precision precision) {
  using Format = LossMethod::Format;
  if (precision == Precision::fp8) return Format::fp8;
  if (precision == Precision::mxfp8) return Format::mxfp8;
  if (precision == Precision::nvfp4) return Format::nvfp4;
  return Format::wide;
}

}  // namespace

double samples_per_step(const Scenario& scenario) {
  const Strategy& strategy = scenario.strategy;
  const auto replicas = static_cast<double>(replicas_on(strategy, scenario.cluster));
  return replicas * static_cast<double>(scenario.batch_per_gpu) *
         gradient_accumulation(strategy).value_or(1);
}

LossMethod loss_method_of(const Scenario& scenario) {
  using Order = LossMethod::Order;
  const Strategy& strategy = scenario.strategy;
  LossMethod method{.parameters = static_cast<double>(scenario.model.active_parameters()),
                    .format = format_of(scenario.precision)};
  method.tokens_per_step =
      samples_per_step(scenario) * static_cast<double>(scenario.model.tokens_per_sample);
  if (strategy.local_sgd) {
    method.replicas = static_cast<int>(replica_count(strategy, scenario.cluster));
    method.period = strategy.local_sgd->period;
  } else if (const ParameterServer* server = server_in(strategy)) {
    const auto workers = static_cast<int>(worker_count(scenario.strategy, scenario.cluster));
    const bool in_step = server->staleness == 0U;
    if (server->local_steps > 1) {
      method.replicas = workers;
      method.period = server->local_steps;
    }
    if (!in_step && workers > 1)
      method.order =
          workers == 2 && server->local_steps == 1 ? Order::one_late : Order::asynchronous;
    if (!in_step && server->local_steps == 1) method.tokens_per_step /= workers;
  }
  return method;
}

std::optional<LossRefusal> refused_training(const Scenario& scenario) {
  if (!scenario.transformer || scenario.model.tokens_per_sample == 0)
    return LossRefusal{scenario.model.name + " is no language model, of which these laws are",
                       "reference points: train: {to: {accuracy: ...}}, or curves of your own"};
  const OptimizerKind kind = scenario.optimizer.kind;
  if (kind != OptimizerKind::adam && kind != OptimizerKind::adamw)
    return LossRefusal{
        fmt::format("these laws are of Adam and AdamW, and the optimizer is {}", to_string(kind)),
        "optimizer: {adamw: {}}; Muon changes the sign of some"};
  if (scenario.adaptation || scenario.model.trainable_parameters() < scenario.model.parameters())
    return LossRefusal{"these laws are of training from scratch, of all parameters",
                       "train all parameters, or ask for a length"};
  const Strategy& strategy = scenario.strategy;
  const ParameterServer* server = server_in(strategy);
  const bool averages = (strategy.local_sgd && !strategy.local_sgd->outer) ||
                        (server != nullptr && server->local_steps > 1 && !server->outer);
  if (averages)
    return LossRefusal{
        "public rows of local steps have an outer optimizer, and this has none",
        "outer_optimizer: {sgd: {learning_rate: 0.7, momentum: 0.9, nesterov: true}}"};
  if (server != nullptr && server->sampled_workers > 0)
    return LossRefusal{
        "no public row says what workers drawn anew each round cost: their shards "
        "are not i.i.d.",
        "leave sampled_workers out"};
  return std::nullopt;
}

std::string method_name(const LossMethod& method) {
  using Order = LossMethod::Order;
  using Format = LossMethod::Format;
  std::string name = method.order == Order::asynchronous ? "asynchronous"
                     : method.order == Order::one_late   ? "one update late"
                                                         : "synchronous";
  if (method.has_local_steps())
    name = fmt::format("{}DiLoCo, {} replicas, H {}",
                       method.order == Order::asynchronous ? "asynchronous " : "", method.replicas,
                       method.period);
  if (method.format == Format::wide) return name;
  return name + (method.format == Format::fp8     ? ", FP8"
                 : method.format == Format::mxfp8 ? ", MXFP8"
                                                  : ", NVFP4");
}

}  // namespace rehearse::inline scenario
