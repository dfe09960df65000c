#include "config/count.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>

#include "base/number.hpp"

namespace rehearse::inline config {
namespace {

constexpr double kMost = 1e18;

struct Suffix {
  const char* text;
  double factor;
};
constexpr std::array<Suffix, 9> kSuffixes = {{{"Ki", 1024.0},
                                              {"Mi", 1048576.0},
                                              {"Gi", 1073741824.0},
                                              {"K", 1e3},
                                              {"M", 1e6},
                                              {"G", 1e9},
                                              {"B", 1e9},
                                              {"T", 1e12},
                                              {"", 1}}};

}  // namespace

std::optional<double> count_number(const std::string& text) {
  for (const Suffix& suffix : kSuffixes) {
    if (!text.ends_with(suffix.text)) continue;
    const std::string digits = text.substr(0, text.size() - std::string(suffix.text).size());
    const std::optional<double> number = decimal_number(digits);
    if (!number) break;
    const double count = *number * suffix.factor;
    if (count >= 1 && count <= kMost && count == std::floor(count)) return count;
    break;
  }
  return std::nullopt;
}

std::string count_text(double count) {
  for (const Suffix& suffix : {Suffix{"T", 1e12}, Suffix{"B", 1e9}, Suffix{"M", 1e6}})
    if (count >= 0.9995 * suffix.factor)
      return fmt::format("{:.3g}{}", count / suffix.factor, suffix.text);
  return fmt::format("{:.3g}", count);
}

}  // namespace rehearse::inline config
