#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <variant>
#include <vector>

namespace rehearse {

/// The arithmetic of parameters and gradients, by the bytes of one element.
enum class ElementType : std::uint32_t { float32 = 4, float64 = 8 };
constexpr std::size_t size_of(ElementType type) { return static_cast<std::size_t>(type); }

struct SgdOptions {
  double learning_rate = 0.01;
  double momentum = 0;  ///< as torch.optim.SGD: v = momentum v + g; p = p - learning_rate v
};

/// Parameters (or one server's part of them) and the optimizer that updates them.
class SgdParameters {
 public:
  SgdParameters() = default;
  SgdParameters(ElementType type, std::span<const std::byte> initial, const SgdOptions& options);

  /// One step with the mean of the gradients, summed in the order given; each is as long as the
  /// parameters.
  void apply(const std::vector<std::span<const std::byte>>& gradients);

  /// The parameters' bytes now; one copy serves all who ask before the next step.
  std::shared_ptr<const std::vector<std::byte>> snapshot();

 private:
  template <class T>
  struct State {
    std::vector<T> values, velocity;
  };
  SgdOptions options_;
  std::variant<State<float>, State<double>> state_;
  std::shared_ptr<const std::vector<std::byte>> snapshot_;
};

}  // namespace rehearse
