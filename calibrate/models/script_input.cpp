#include <fmt/format.h>

#include <charconv>
#include <stdexcept>

#include "models/script_model.hpp"

namespace rehearse::inline calibrate {
namespace {

constexpr std::int64_t kMostElements = std::int64_t{1} << 40;

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts = {""};
  for (const char c : text) {
    if (c == separator) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

std::int64_t positive(const std::string& text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 1 ||
      value > kMostElements) {
    throw std::invalid_argument(fmt::format("expected a positive whole number; got \"{}\"", text));
  }
  return value;
}

}  // namespace

ScriptInput parse_script_input(const std::string& text) {
  const std::vector<std::string> parts = split(text, ':');
  ScriptInput input;
  for (const std::string& size : split(parts[0], 'x')) input.sizes.push_back(positive(size));
  if (parts.size() == 1) return input;
  input.tokens = parts[1] == "long";
  if ((!input.tokens && parts[1] != "float") || parts.size() > (input.tokens ? 3 : 2)) {
    throw std::invalid_argument(fmt::format(
        "expected a sample's shape and type, such as 3x224x224, 784:float or 128:long:30522; got "
        "\"{}\"",
        text));
  }
  if (parts.size() == 3) input.vocabulary = positive(parts[2]);
  return input;
}

}  // namespace rehearse::inline calibrate
