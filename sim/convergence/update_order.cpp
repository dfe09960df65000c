#include "convergence/update_order.hpp"

#include <algorithm>
#include <cmath>

namespace rehearse::inline convergence {
namespace {

constexpr std::size_t kPlayed = 8000;  // updates, half of them to forget the start
constexpr int kHalvings = 16;

/// The last values of x, newest at `at(0)`, in a ring of at least as many as are looked back at.
class Ring {
 public:
  explicit Ring(std::size_t size) : values_(size, 1.0) {}
  double at(std::size_t back) const {
    return values_[(newest_ + values_.size() - back) % values_.size()];
  }
  void push(double value) {
    newest_ = (newest_ + 1) % values_.size();
    values_[newest_] = value;
  }
  double largest() const {
    double most = 0;
    for (const double value : values_) most = std::max(most, std::abs(value));
    return most;
  }
  void scale(double factor) {
    for (double& value : values_) value *= factor;
  }

 private:
  std::vector<double> values_;
  std::size_t newest_ = 0;
};

/// Whether x grows over the second half of the updates played.
bool grows(const std::vector<std::uint32_t>& staleness, double a, const Descent& descent) {
  const std::size_t size = std::max<std::size_t>(*std::ranges::max_element(staleness) + 2, 16);
  const std::size_t cycles = std::max<std::size_t>(kPlayed / staleness.size(), 1) + 1;
  const std::size_t updates = cycles * staleness.size();
  Ring x(size);
  double growth = 0;
  for (std::size_t t = 0; t < updates; ++t) {
    const double stale = x.at(staleness[t % staleness.size()]);
    const double seen = descent.compensation * x.at(0) + (1 - descent.compensation) * stale;
    x.push(x.at(0) + descent.momentum * (x.at(0) - x.at(1)) - a * seen);
    if (t % size != size - 1) continue;
    const double most = x.largest();
    if (most == 0) return false;
    if (t >= updates / 2) growth += std::log(most);
    x.scale(1 / most);
  }
  return growth > 0;
}

}  // namespace

double ordered_stability_edge(const std::vector<std::uint32_t>& staleness, const Descent& descent) {
  double low = 0;
  // Of fresh gradients; partly compensated ones may be more stable than these: their roots' product
  // a (1 - f) below 1 and z = -1 outside leave 4 + 2 m, with f = (3 + 2 m) / (4 + 2 m).
  double high = descent.compensation > 0 ? 4 + 2 * descent.momentum : 2 * (1 + descent.momentum);
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = 0.5 * (low + high);
    (grows(staleness, middle, descent) ? high : low) = middle;
  }
  return 0.5 * (low + high);
}

double order_factor(const std::vector<std::uint32_t>& staleness, const Descent& descent) {
  if (staleness.empty()) return 1;
  StalenessHistogram histogram;
  for (const std::uint32_t value : staleness) ++histogram[value];
  Descent exact = descent;
  exact.curvature_noise = 0;
  const double unordered = stability_edge(counted_staleness(histogram), exact);
  return std::min(1.0, ordered_stability_edge(staleness, descent) / unordered);
}

}  // namespace rehearse::inline convergence
