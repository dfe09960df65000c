#include "replay/replica.hpp"

#include <fmt/format.h>

#include <cstring>
#include <numeric>
#include <stdexcept>

#include "base/error.hpp"
#include "data/samples.hpp"
#include "models/networks.hpp"

namespace rehearse::inline calibrate {
namespace {

[[noreturn]] void refuse(const std::string& model, const std::string& why,
                         const std::string& instead) {
  throw InputError(fmt::format("error: --model: {} {}\nremedy: a network without, such as {}",
                               model, why, instead));
}

bool draws_random_numbers(const Chain& chain) {
  const torch::NoGradGuard no_gradient;
  const InputShape& shape = chain.input;
  const auto input = shape.image > 0 ? torch::zeros({1, 3, shape.image, shape.image})
                                     : torch::zeros({1, shape.sequence}, torch::kInt64);
  const auto state = [] { return at::detail::getDefaultCPUGenerator().get_state(); };
  const torch::Tensor before = state();
  forward(chain, input);
  return !torch::equal(before, state());
}

Chain build(const NetworkOptions& options) {
  Chain chain;
  torch::manual_seed(options.seed);
  try {
    chain = build_chain(options.model, options.shape);
  } catch (const std::invalid_argument& error) {
    throw InputError(fmt::format("error: {}", error.what()));
  }
  const char* instead = chain.input.image > 0 ? "small_cnn or small_mlp" : "small_gpt2";
  if (!buffers(chain).empty()) {
    refuse(options.model,
           "has batch norms, whose running statistics are each worker's own and on no server",
           instead);
  }
  if (draws_random_numbers(chain))
    refuse(options.model, "draws random numbers as it trains (dropout, stochastic depth)", instead);
  return chain;
}

}  // namespace

Replica::Replica(const NetworkOptions& options)
    : chain_(build(options)), parameters_(parameters(chain_)) {}

std::vector<std::byte> Replica::values() const {
  std::vector<std::byte> bytes;
  for (const torch::Tensor& one : parameters_) {
    const auto* data = static_cast<const std::byte*>(one.data_ptr());
    bytes.insert(bytes.end(), data, data + one.nbytes());
  }
  return bytes;
}

void Replica::load(const std::vector<std::byte>& values) {
  std::size_t offset = 0;
  for (const torch::Tensor& one : parameters_) {
    check(offset + one.nbytes() <= values.size(), "parameters keep their size");
    std::memcpy(one.data_ptr(), values.data() + offset, one.nbytes());
    offset += one.nbytes();
  }
}

Replica::Sent Replica::train(const std::vector<std::byte>& parameters, const Dataset& data,
                             const std::vector<std::vector<std::uint32_t>>& batches,
                             const LocalSteps& local) {
  load(parameters);
  const auto gradients = [&](std::uint32_t step) {
    const torch::Tensor loss =
        forward_loss(chain_, sample_batch(data.train, batches[step], data.name));
    loss.backward();
    return loss.item<double>();
  };
  Sent sent;
  sent.loss = take_local_steps(parameters_, gradients, local);
  for (const torch::Tensor& one : parameters_) {
    const torch::Tensor gradient =
        one.grad().defined() ? one.grad().contiguous() : torch::zeros_like(one);
    const auto* bytes = static_cast<const std::byte*>(gradient.data_ptr());
    sent.gradient.insert(sent.gradient.end(), bytes, bytes + gradient.nbytes());
  }
  return sent;
}

Score Replica::score(const std::vector<std::byte>& parameters, const Dataset& data,
                     std::uint32_t first, std::uint32_t last) {
  const torch::NoGradGuard no_gradient;
  load(parameters);
  std::vector<std::uint32_t> samples(last - first);
  std::iota(samples.begin(), samples.end(), first);
  const Batch batch = sample_batch(data.test, samples, data.name);
  const torch::Tensor output = forward(chain_, batch.input);
  const auto mean = chain_.loss(output, batch.target).item<double>();
  const auto right = output.argmax(-1).eq(batch.target).sum().item<std::int64_t>();
  return {.loss_sum = mean * static_cast<double>(samples.size()),
          .samples = samples.size(),
          .correct = static_cast<std::uint64_t>(right),
          .predictions = static_cast<std::uint64_t>(batch.target.numel())};
}

}  // namespace rehearse::inline calibrate
