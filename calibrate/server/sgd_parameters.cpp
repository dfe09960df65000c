#include "server/sgd_parameters.hpp"

#include <cstring>

#include "base/error.hpp"

namespace rehearse {
namespace {

/// The element at `index` of bytes that need not be aligned.
template <class T>
T load(std::span<const std::byte> bytes, std::size_t index) {
  T value;
  std::memcpy(&value, bytes.data() + index * sizeof(T), sizeof(T));
  return value;
}

template <class T>
void add(std::vector<T>& sum, std::span<const std::byte> gradient) {
  check(gradient.size() == sum.size() * sizeof(T), "a gradient is as long as the parameters");
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += load<T>(gradient, i);
}

template <class T>
std::vector<T> mean(const std::vector<std::span<const std::byte>>& gradients, std::size_t count) {
  std::vector<T> sum(count, T{0});
  for (const auto gradient : gradients) add(sum, gradient);
  for (T& value : sum) value /= static_cast<T>(gradients.size());
  return sum;
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

void SgdParameters::apply(const std::vector<std::span<const std::byte>>& gradients) {
  check(!gradients.empty(), "an update has a gradient");
  snapshot_.reset();
  std::visit(
      [&](auto& state) {
        using T = typename std::decay_t<decltype(state.values)>::value_type;
        const T rate = static_cast<T>(options_.learning_rate);
        const T momentum = static_cast<T>(options_.momentum);
        const std::vector<T> step = mean<T>(gradients, state.values.size());
        for (std::size_t i = 0; i < step.size(); ++i) {
          T direction = step[i];
          if (!state.velocity.empty())
            direction = state.velocity[i] = momentum * state.velocity[i] + step[i];
          state.values[i] -= rate * direction;
        }
      },
      state_);
}

std::shared_ptr<const std::vector<std::byte>> SgdParameters::snapshot() {
  if (!snapshot_) {
    const auto bytes = std::visit(
        [](const auto& state) { return std::as_bytes(std::span(state.values)); }, state_);
    snapshot_ = std::make_shared<const std::vector<std::byte>>(bytes.begin(), bytes.end());
  }
  return snapshot_;
}

}  // namespace rehearse
