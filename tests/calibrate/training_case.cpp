#include "training_case.hpp"

#include <nlohmann/json.hpp>

#include "launch/run_ranks.hpp"
#include "measure/device.hpp"
#include "models/networks.hpp"

namespace rehearse {
namespace {

using Tensors = std::vector<torch::Tensor>;

constexpr std::int64_t kSamples = 4;  ///< of one micro-batch of one rank

Chain build(const TrainingCase& one) {
  if (!one.transformer) return build_chain("small_cnn", {.image = 8, .classes = 5});
  const TransformerSize size = {.hidden = 16,
                                .heads = 2,
                                .kv_heads = 2,
                                .feed_forward = 32,
                                .vocabulary = 37,
                                .positions = 8,
                                .blocks = 2,
                                .dropout = 0};
  return gpt2_chain("tiny", size, {.sequence = 8});
}

std::unique_ptr<torch::optim::Optimizer> make_optimizer(const TrainingCase& one, Tensors weights) {
  if (one.adam) {
    return std::make_unique<torch::optim::Adam>(weights, torch::optim::AdamOptions(1e-2));
  }
  return std::make_unique<torch::optim::SGD>(weights, torch::optim::SGDOptions(5e-2).momentum(0.9));
}

torch::Tensor flat(const Tensors& tensors) {
  Tensors rows;
  for (const torch::Tensor& tensor : tensors) rows.push_back(tensor.detach().reshape({-1}));
  return torch::cat(rows);
}

double largest(const torch::Tensor& difference) { return difference.abs().max().item<double>(); }

/// The batches of all steps; the same on every rank.
std::vector<Batch> whole_batches(const TrainingCase& one, const Chain& chain) {
  torch::manual_seed(99);
  std::vector<Batch> batches;
  for (int step = 0; step < one.steps; ++step) {
    batches.push_back(random_batch(chain.input, kSamples * one.ranks * one.micro_batches,
                                   torch::kCPU, torch::kFloat64));
  }
  return batches;
}

std::vector<Batch> micro_batches_of(const Batch& whole, const TrainingCase& one, int rank) {
  std::vector<Batch> parts;
  const std::int64_t targets = whole.target.size(0) / whole.input.size(0);
  for (int i = 0; i < one.micro_batches; ++i) {
    const std::int64_t first = kSamples * (rank * one.micro_batches + i);
    parts.push_back({whole.input.narrow(0, first, kSamples),
                     whole.target.narrow(0, first * targets, kSamples * targets)});
  }
  return parts;
}

struct Trained {
  torch::Tensor parameters, gradients;
};

/// One process on the concatenated batches, from the same weights.
Trained train_alone(const TrainingCase& one, const Tensors& weights,
                    const std::vector<Batch>& batches) {
  const Chain chain = build(one);
  move_to(chain, torch::kFloat64);
  Tensors own = parameters(chain);
  {
    const torch::NoGradGuard no_grad;
    for (std::size_t i = 0; i < own.size(); ++i) own[i].copy_(weights[i]);
  }
  const auto optimizer = make_optimizer(one, own);
  for (const Batch& batch : batches) {
    zero_gradients(chain);
    forward_loss(chain, batch).backward();
    optimizer->step();
  }
  Tensors gradients;
  for (const torch::Tensor& weight : own) gradients.push_back(weight.grad());
  return {flat(own), flat(gradients)};
}

double spread_over_ranks(const ProcessGroup& group, const torch::Tensor& value) {
  Tensors most = {value.clone()}, least = {value.clone()};
  c10d::AllreduceOptions options;
  options.reduceOp = c10d::ReduceOp::MAX;
  group->allreduce(most, options)->wait();
  options.reduceOp = c10d::ReduceOp::MIN;
  group->allreduce(least, options)->wait();
  return largest(most[0] - least[0]);
}

void describe(const Chain& chain, nlohmann::json& out) {
  for (const torch::Tensor& weight : parameters(chain)) out["tensors"].push_back(weight.numel());
  for (const ChainUnit& unit : chain.units) {
    std::int64_t elements = 0;
    for (const torch::Tensor& weight : unit.module->parameters()) elements += weight.numel();
    if (elements > 0) out["units"].push_back(elements);
  }
}

void describe(const StepRecord& record, nlohmann::json& out) {
  out["times"] = {record.forward.value(), record.backward.value(), record.optimizer.value(),
                  record.whole.value(), record.waited.value()};
  out["peak"] = record.memory.allocated_peak.value();
  for (const Seconds ready : record.gradient_ready) out["ready"].push_back(ready.value());
  for (const CollectiveTimes& one : record.collectives) {
    out["collectives"].push_back(
        {static_cast<int>(one.kind), one.size.value(), one.launched.value(), one.done.value()});
  }
}

std::string be_rank(const TrainingCase& one, const RankEnvironment& ranks) {
  const auto device = make_cpu_device();
  at::set_num_threads(1);
  const ProcessGroup all = make_process_group(ranks);
  RankEnvironment own = {.store_file = ranks.store_file + std::to_string(ranks.rank)};
  const ProcessGroup group = one.alone ? make_process_group(own) : all;
  torch::manual_seed(1 + static_cast<std::uint64_t>(ranks.rank));  // rank 0's weights must win
  const Chain chain = build(one);
  move_to(chain, torch::kFloat64);
  nlohmann::json out = nlohmann::json::object();
  describe(chain, out);
  const auto trainer = one.make({chain, group, device.get(), [&one](Tensors weights) {
                                   return make_optimizer(one, std::move(weights));
                                 }});
  const Tensors initial = trainer->whole_parameters();
  const auto batches = whole_batches(one, chain);
  StepRecord record;
  const WireBytes before = wire_bytes();
  barrier(all);
  for (const Batch& batch : batches)
    record = trainer->step(micro_batches_of(batch, one, ranks.rank));
  // Between the two, all of the steps' bytes are here and none of what follows.
  barrier(all);
  const WireBytes moved = wire_bytes() - before;
  barrier(all);
  out["received_per_step"] = moved.received.value() / one.steps;
  const Trained result = {flat(trainer->whole_parameters()), flat(trainer->whole_gradients())};
  out["unequal"] = spread_over_ranks(all, result.gradients);
  if (ranks.rank == 0) {
    const Trained expected = train_alone(one, initial, batches);
    out["parameters_off"] = largest(result.parameters - expected.parameters);
    out["gradients_off"] = largest(result.gradients - expected.gradients);
  }
  describe(record, out);
  // No rank leaves while another still talks to it.
  barrier(all);
  return out.dump();
}

StepRecord read_record(const nlohmann::json& in) {
  StepRecord record;
  record.forward = Seconds(in["times"][0]);
  record.backward = Seconds(in["times"][1]);
  record.optimizer = Seconds(in["times"][2]);
  record.whole = Seconds(in["times"][3]);
  record.waited = Seconds(in["times"][4]);
  record.memory.allocated_peak = Bytes(in["peak"]);
  for (const auto& ready : in.value("ready", nlohmann::json::array())) {
    record.gradient_ready.emplace_back(ready.get<double>());
  }
  for (const auto& one : in.value("collectives", nlohmann::json::array())) {
    record.collectives.push_back({.kind = static_cast<CollectiveKind>(one[0].get<int>()),
                                  .what = {},
                                  .size = Bytes(one[1]),
                                  .launched = Seconds(one[2]),
                                  .done = Seconds(one[3])});
  }
  return record;
}

}  // namespace

TrainingOutcome train(const TrainingCase& one) {
  const auto texts = collect_from_ranks(
      one.ranks, [&one](const RankEnvironment& ranks) { return be_rank(one, ranks); },
      {.total = std::chrono::minutes(2)});
  const auto first = nlohmann::json::parse(texts[0]);
  return {.parameters_off = first["parameters_off"],
          .gradients_off = first["gradients_off"],
          .gradients_unequal = first["unequal"],
          .tensor_elements = first["tensors"],
          .unit_elements = first["units"],
          .received_per_step = first["received_per_step"],
          .last = read_record(first)};
}

}  // namespace rehearse
