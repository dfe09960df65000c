#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "base/quantity.hpp"

namespace rehearse::inline cost {

/// Kernels of one kind; what is not known by kernels counts as whole units.
enum class CostFamily {
  products,
  narrow_products,
  attention,
  convolutions,
  depthwise,
  rows,
  pointwise,
  embeddings,
  pooling,
  copies,
  whole_units,
  optimizer
};
inline constexpr std::size_t kCostFamilies = 12;
std::string to_string(CostFamily family);  ///< "matrix products", "norms and losses", "optimizer"

/// Evidence that speaks for the time of a kind of kernels.
enum class CostGround {
  given,         ///< the scenario
  measured,      ///< a profile of this GPU
  transferred,   ///< a profile of another device
  fitted,        ///< a curve fitted to kernels on this chip
  carried_over,  ///< a curve fitted on others
  analytic       ///< a share of the datasheet's peak or bandwidth
};
inline constexpr std::size_t kCostGrounds = 6;
std::string to_string(CostGround ground);  ///< "fitted", "carried over"

/// Where a family's times in one step's costs come from.
struct FamilyGround {
  CostFamily family = CostFamily::products;
  CostGround ground = CostGround::analytic;
  std::string from{};           ///< "gemm tensor on A100-SXM-80", "run.efficiency"
  std::optional<double> off{};  ///< mean error of the fit at shapes that it had not seen
};

/// Time that one family takes of a unit.
struct CostPart {
  std::size_t unit = 0;  ///< of StepCosts::units; their number: the optimizer
  CostFamily family = CostFamily::products;
  Seconds forward{}, backward{};
  Seconds within{};     ///< of both, at sizes that were measured
  double farthest = 1;  ///< the factor by which a size lies beyond those; 0: of no measured sizes
};

/// Adds up the operators of one unit by family.
class UnitParts {
 public:
  explicit UnitParts(std::size_t unit) : unit_(unit) {}
  /// `distance`: as CostPart::farthest.
  void add(CostFamily family, Seconds time, bool forward, double distance);
  void append_to(std::vector<CostPart>& parts) const;

 private:
  std::size_t unit_;
  std::array<std::optional<CostPart>, kCostFamilies> parts_{};
};

}  // namespace rehearse::inline cost
