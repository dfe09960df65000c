#include "scenario/speed_spread.hpp"

#include <boost/math/distributions/normal.hpp>
#include <cmath>
#include <utility>

#include "base/random.hpp"

namespace rehearse::inline scenario {

std::vector<double> spread_slowdowns(double spread, std::size_t gpus, std::uint64_t seed) {
  const boost::math::normal standard;
  std::vector<double> slowdowns;
  slowdowns.reserve(gpus);
  for (std::size_t i = 1; i <= gpus; ++i) {
    const double share = (static_cast<double>(i) - 0.375) / (static_cast<double>(gpus) + 0.25);
    slowdowns.push_back(std::exp(spread * boost::math::quantile(standard, share)));
  }
  RandomStream stream = random_stream(seed, "speed spread");
  for (std::size_t i = gpus; i > 1; --i) {
    const auto other = static_cast<std::size_t>(uniform01(stream) * static_cast<double>(i));
    std::swap(slowdowns[i - 1], slowdowns[other]);
  }
  return slowdowns;
}

}  // namespace rehearse::inline scenario
