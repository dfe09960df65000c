#include "convergence/update_order.hpp"

#include <algorithm>
#include <cmath>

#include "convergence/stability.hpp"

namespace rehearse {
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
bool grows(const std::vector<std::uint32_t>& staleness, double a, double momentum) {
  const std::size_t size = std::max<std::size_t>(*std::ranges::max_element(staleness) + 2, 16);
  const std::size_t cycles = std::max<std::size_t>(kPlayed / staleness.size(), 1) + 1;
  const std::size_t updates = cycles * staleness.size();
  Ring x(size);
  double growth = 0;
  for (std::size_t t = 0; t < updates; ++t) {
    const double stale = x.at(staleness[t % staleness.size()]);
    x.push(x.at(0) + momentum * (x.at(0) - x.at(1)) - a * stale);
    if (t % size != size - 1) continue;
    const double most = x.largest();
    if (most == 0) return false;
    if (t >= updates / 2) growth += std::log(most);
    x.scale(1 / most);
  }
  return growth > 0;
}

}  // namespace

double ordered_stability_edge(const std::vector<std::uint32_t>& staleness, double momentum) {
  double low = 0;
  double high = 2 * (1 + momentum);  // of fresh gradients
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = 0.5 * (low + high);
    (grows(staleness, middle, momentum) ? high : low) = middle;
  }
  return 0.5 * (low + high);
}

double order_factor(const std::vector<std::uint32_t>& staleness, double momentum) {
  if (staleness.empty()) return 1;
  std::map<std::uint32_t, std::uint64_t> histogram;
  for (const std::uint32_t value : staleness) ++histogram[value];
  const double unordered = stability_edge(counted_staleness(histogram), {momentum, 0});
  return std::min(1.0, ordered_stability_edge(staleness, momentum) / unordered);
}

}  // namespace rehearse
