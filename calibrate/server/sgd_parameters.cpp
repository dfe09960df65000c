#include "server/sgd_parameters.hpp"

#include <algorithm>
#include <cstring>

#include "base/error.hpp"

namespace rehearse::inline calibrate {
namespace {

/// The element at `index` of bytes that need not be aligned.
template <class T>
T load(std::span<const std::byte> bytes, std::size_t index) {
  T value;
  std::memcpy(&value, bytes.data() + index * sizeof(T), sizeof(T));
  return value;
}

/// sum += g + lambda g g (w - w_read).
template <class T>
void add(std::vector<T>& sum, const StaleGradient& gradient, const std::vector<T>& values,
         double lambda) {
  check(gradient.bytes.size() == sum.size() * sizeof(T), "a gradient is as long as the parameters");
  if (lambda == 0) {
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += load<T>(gradient.bytes, i);
    return;
  }
  check(gradient.read.size() == gradient.bytes.size(), "what a gradient was computed from is kept");
  for (std::size_t i = 0; i < sum.size(); ++i) {
    const T g = load<T>(gradient.bytes, i);
    sum[i] += g + static_cast<T>(lambda) * g * g * (values[i] - load<T>(gradient.read, i));
  }
}

template <class T>
std::vector<T> mean(const std::vector<StaleGradient>& gradients, const std::vector<T>& values,
                    double lambda) {
  std::vector<T> sum(values.size(), T{0});
  for (const StaleGradient& gradient : gradients) add(sum, gradient, values, lambda);
  for (T& value : sum) value /= static_cast<T>(gradients.size());
  return sum;
}

double learning_rate(const SgdOptions& options, const std::vector<StaleGradient>& gradients) {
  if (!options.staleness_aware) return options.learning_rate;
  std::uint64_t stalest = 1;
  for (const StaleGradient& gradient : gradients) stalest = std::max(stalest, gradient.staleness);
  return options.learning_rate / static_cast<double>(stalest);
}

template <class T>
std::vector<std::byte> copy_of(const std::vector<T>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

}  // namespace

SgdParameters::SgdParameters(ElementType type, std::span<const std::byte> initial,
                             const SgdOptions& options)
    : options_(options) {
  check(initial.size() % size_of(type) == 0, "parameters are whole elements");
  const auto fill = [&](auto state) {
    using T = typename decltype(state.values)::value_type;
    state.values.resize(initial.size() / sizeof(T));
    if (!initial.empty()) std::memcpy(state.values.data(), initial.data(), initial.size());
    if (options_.momentum != 0) state.velocity.assign(state.values.size(), T{0});
    state_ = std::move(state);
  };
  if (type == ElementType::float32) fill(State<float>{});
  if (type == ElementType::float64) fill(State<double>{});
}

void SgdParameters::apply(const std::vector<StaleGradient>& gradients) {
  check(!gradients.empty(), "an update has a gradient");
  snapshot_.reset();
  std::visit(
      [&](auto& state) {
        using T = typename std::decay_t<decltype(state.values)>::value_type;
        const T rate = static_cast<T>(learning_rate(options_, gradients));
        const T momentum = static_cast<T>(options_.momentum);
        const std::vector<T> step = mean(gradients, state.values, options_.delay_compensation);
        for (std::size_t i = 0; i < step.size(); ++i) {
          T direction = step[i];
          if (!state.velocity.empty())
            direction = state.velocity[i] = momentum * state.velocity[i] + step[i];
          if (options_.nesterov) direction = step[i] + momentum * direction;
          state.values[i] -= rate * direction;
        }
      },
      state_);
}

std::shared_ptr<const std::vector<std::byte>> SgdParameters::snapshot() {
  if (!snapshot_) {
    snapshot_ = std::make_shared<const std::vector<std::byte>>(
        std::visit([](const auto& state) { return copy_of(state.values); }, state_));
  }
  return snapshot_;
}

std::vector<std::byte> SgdParameters::velocity() const {
  return std::visit([](const auto& state) { return copy_of(state.velocity); }, state_);
}

void SgdParameters::set_velocity(std::span<const std::byte> velocity) {
  std::visit(
      [&](auto& state) {
        check(velocity.size() == std::as_bytes(std::span(state.velocity)).size(),
              "a momentum is as long as the parameters");
        if (!velocity.empty()) std::memcpy(state.velocity.data(), velocity.data(), velocity.size());
      },
      state_);
}

}  // namespace rehearse::inline calibrate
