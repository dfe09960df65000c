#include "train/ps_worker.hpp"

#include <chrono>
#include <cmath>
#include <thread>

#include "base/error.hpp"
#include "base/random.hpp"

namespace rehearse::inline calibrate {
namespace {

using Clock = std::chrono::steady_clock;

/// The network's parameters beside one flat buffer in host memory, which travels.
class FlatBuffer {
 public:
  explicit FlatBuffer(const std::vector<torch::Tensor>& parameters) : parameters_(parameters) {
    check(!parameters.empty(), "a network has parameters");
    std::int64_t count = 0;
    for (const torch::Tensor& one : parameters) {
      if (one.scalar_type() != type())
        throw InputError("error: a parameter server holds parameters of one type only");
      count += one.numel();
    }
    if (type() != torch::kFloat32 && type() != torch::kFloat64)
      throw InputError("error: a parameter server holds float or double parameters only");
    host_ = torch::empty({count}, torch::TensorOptions(type()).pinned_memory(on_gpu()));
    device_ =
        on_gpu() ? torch::empty({count}, parameters.front().options().requires_grad(false)) : host_;
    slices_ = slices(device_);
  }

  ElementType element() const {
    return type() == torch::kFloat64 ? ElementType::float64 : ElementType::float32;
  }
  std::span<std::byte> bytes() {
    return {static_cast<std::byte*>(host_.data_ptr()), static_cast<std::size_t>(host_.nbytes())};
  }

  void to_network() {
    const torch::NoGradGuard no_gradient;
    if (on_gpu()) device_.copy_(host_);
    for (std::size_t i = 0; i < slices_.size(); ++i) parameters_[i].copy_(slices_[i]);
  }
  void from_network() {
    const torch::NoGradGuard no_gradient;
    for (std::size_t i = 0; i < slices_.size(); ++i) slices_[i].copy_(parameters_[i]);
    to_host();
  }
  void take_gradients() {
    const torch::NoGradGuard no_gradient;
    for (std::size_t i = 0; i < slices_.size(); ++i) {
      const torch::Tensor& gradient = parameters_[i].grad();
      if (gradient.defined()) {
        slices_[i].copy_(gradient);
      } else {
        slices_[i].zero_();
      }
    }
    to_host();
  }

 private:
  torch::ScalarType type() const { return parameters_.front().scalar_type(); }
  bool on_gpu() const { return parameters_.front().is_cuda(); }
  void to_host() {
    if (on_gpu()) host_.copy_(device_);
  }
  std::vector<torch::Tensor> slices(const torch::Tensor& flat) const {
    std::vector<torch::Tensor> result;
    std::int64_t offset = 0;
    for (const torch::Tensor& one : parameters_) {
      result.push_back(flat.narrow(0, offset, one.numel()).view(one.sizes()));
      offset += one.numel();
    }
    return result;
  }

  std::vector<torch::Tensor> parameters_;
  torch::Tensor host_, device_;  ///< the same tensor on a CPU
  std::vector<torch::Tensor> slices_;
};

/// In seconds.
double delay_of(const PsWorkerOptions& options, std::uint64_t iteration) {
  if (options.jitter.value() == 0) return options.delay.value();
  RandomStream stream = random_stream(options.seed, "worker jitter", options.worker, iteration);
  return options.delay.value() - options.jitter.value() * std::log1p(-uniform01(stream));
}

/// Time since the last call.
class Laps {
 public:
  Seconds lap() {
    const auto now = Clock::now();
    const Seconds passed(std::chrono::duration<double>(now - last_).count());
    last_ = now;
    return passed;
  }

 private:
  Clock::time_point last_ = Clock::now();
};

}  // namespace

PsWorkerResult train_with_server(const std::vector<torch::Tensor>& parameters,
                                 const IterationGradients& gradients,
                                 const PsWorkerOptions& options) {
  FlatBuffer flat(parameters);
  flat.from_network();
  ParameterClient client(options.servers,
                         {options.worker, flat.element(), options.iterations,
                          options.connect_timeout, options.reply_timeout},
                         flat.bytes());
  PsWorkerResult result;
  Laps laps;
  const auto pull = [&] {
    if (options.memory != nullptr) options.memory->begin();
    return client.pull(flat.bytes());
  };
  const auto end_part = [&](const char* phase) {
    if (options.memory != nullptr) options.memory->end_part(phase);
  };
  while (const auto iteration = pull()) {
    PsStep step{*iteration, {}, {}, {}};
    flat.to_network();
    step.pull = laps.lap();
    end_part("pull");
    const auto step_gradients = [&](std::uint32_t k) {
      return gradients(*iteration * options.local.steps + k);
    };
    result.losses.push_back(take_local_steps(parameters, step_gradients, options.local));
    std::this_thread::sleep_for(std::chrono::duration<double>(delay_of(options, *iteration)));
    step.compute = laps.lap();
    flat.take_gradients();
    client.push(flat.bytes());
    step.push = laps.lap();
    end_part("push");
    if (options.memory != nullptr) step.memory = options.memory->finish();
    result.steps.push_back(step);
  }
  flat.to_network();
  client.done();
  result.sent = client.sent();
  result.received = client.received();
  return result;
}

}  // namespace rehearse::inline calibrate
