#include "profile/yaml_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace rehearse::inline profile {

std::string decimal(double value) {
  const double magnitude = value > 0 ? std::floor(std::log10(value)) : 0;
  return fmt::format("{:.{}f}", value, static_cast<int>(std::clamp(5 - magnitude, 0.0, 15.0)));
}

std::string yaml_seconds(Seconds time) {
  const double seconds = time.value();
  if (seconds >= 1) return decimal(seconds) + "s";
  if (seconds >= 1e-3) return decimal(seconds * 1e3) + "ms";
  return decimal(seconds * 1e6) + "us";
}

std::string yaml_flops_per_second(FlopsPerSecond rate) {
  return decimal(rate.value() / 1e9) + "GFLOPs";
}

std::string yaml_bytes_per_second(BytesPerSecond rate) {
  return decimal(rate.value() / 1e9) + "GBps";
}

std::string yaml_bytes(Bytes size) {
  constexpr std::pair<double, const char*> kUnits[] = {
      {1024.0 * 1024 * 1024, "GiB"}, {1024.0 * 1024, "MiB"}, {1024.0, "KiB"}};
  for (const auto& [unit, name] : kUnits) {
    if (size.value() >= unit && std::fmod(size.value(), unit) == 0) {
      return fmt::format("{:.0f}{}", size.value() / unit, name);
    }
  }
  return fmt::format("{:.0f}B", size.value());
}

}  // namespace rehearse::inline profile
