#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <variant>
#include <vector>

namespace rehearse::inline calibrate {

/// The arithmetic of parameters and gradients, by the bytes of one element.
enum class ElementType : std::uint32_t { float32 = 4, float64 = 8 };
constexpr std::size_t size_of(ElementType type) { return static_cast<std::size_t>(type); }

struct SgdOptions {
  double learning_rate = 0.01;
  double momentum = 0;    ///< as torch.optim.SGD: v = momentum v + g; p = p - learning_rate v
  bool nesterov = false;  ///< likewise: p = p - learning_rate (g + momentum v)
  /// An update's learning rate over its staleness, where that is above 1 (Zhang et al. 2016).
  bool staleness_aware = false;
  /// The lambda of DC-ASGD-c: to each gradient g computed at w_read, lambda g g (w - w_read) is
  /// added, an estimate of what it is at w (Zheng et al. 2017, equation 10); 0: none.
  double delay_compensation = 0;
};

/// A gradient, and how old the parameters are that it was computed from.
struct StaleGradient {
  std::span<const std::byte> bytes;  ///< as long as the parameters
  std::uint64_t staleness = 0;
  std::span<const std::byte> read = {};  ///< those parameters, for delay compensation
};

/// Parameters (or one server's part of them) and the optimizer that updates them.
class SgdParameters {
 public:
  SgdParameters() = default;
  SgdParameters(ElementType type, std::span<const std::byte> initial, const SgdOptions& options);

  /// One step with the mean of the gradients, summed in the order given.
  void apply(const std::vector<StaleGradient>& gradients);

  /// The parameters' bytes now; one copy serves all who ask before the next step.
  std::shared_ptr<const std::vector<std::byte>> snapshot();

  /// The momentum's bytes (empty without momentum), which with the parameters are all that the next
  /// step depends on; and back.
  std::vector<std::byte> velocity() const;
  void set_velocity(std::span<const std::byte> velocity);

 private:
  template <class T>
  struct State {
    std::vector<T> values, velocity;
  };
  SgdOptions options_;
  std::variant<State<float>, State<double>> state_;
  std::shared_ptr<const std::vector<std::byte>> snapshot_;
};

}  // namespace rehearse::inline calibrate
