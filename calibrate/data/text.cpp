#include "data/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "base/error.hpp"
#include "base/random.hpp"

namespace rehearse::inline calibrate {
namespace {

constexpr std::size_t kLetters = 16;
constexpr std::uint64_t kSourceSeed = 1;
/// Standard deviation of each of the two draws of a logit. A letter then costs 2.59 nats, 1.90
/// where the one before it is known, and 1.47 where both are.
constexpr double kSpread = 1.5;

using Logits = std::array<std::array<double, kLetters>, kLetters>;

/// Box and Muller's, of one draw each.
double normal(RandomStream& stream) {
  const double radius = std::sqrt(-2 * std::log1p(-uniform01(stream)));
  return radius * std::cos(2 * std::numbers::pi * uniform01(stream));
}

Logits drawn_logits(RandomStream& stream) {
  Logits logits{};
  for (auto& row : logits)
    for (double& one : row) one = kSpread * normal(stream);
  return logits;
}

std::array<std::uint64_t, kByteValues> counts_of(const DataBytes& bytes) {
  std::array<std::uint64_t, kByteValues> counts{};
  for (const std::uint8_t byte : bytes) ++counts[byte];
  return counts;
}

}  // namespace

Text slice(const Text& text, std::size_t first, std::size_t last) {
  check(first <= last && last <= text.count(), "a slice lies within the text");
  const auto begin = text.bytes.begin() + static_cast<std::ptrdiff_t>(first * text.window);
  const auto size = static_cast<std::ptrdiff_t>((last - first) * text.window + 1);
  return {text.window, {begin, begin + size}};
}

Text read_text(const std::filesystem::path& file, std::size_t window) {
  Text text{window, read_data_file(file)};
  if (text.bytes.size() <= window)
    throw InputError(
        fmt::format("{}: error: {} bytes have no window of {} and a byte behind it\nremedy: a "
                    "smaller --window, or more text",
                    file.string(), text.bytes.size(), window));
  text.bytes.resize(text.count() * window + 1);
  return text;
}

Text generated_text(std::size_t windows, std::size_t window) {
  RandomStream stream = random_stream(kSourceSeed, "text");
  const Logits by_last = drawn_logits(stream), by_second_last = drawn_logits(stream);
  Text text{window, {}};
  text.bytes.reserve(windows * window + 1);
  std::size_t last = 0, second_last = 0;
  while (text.bytes.size() < windows * window + 1) {
    std::array<double, kLetters> weights{};
    double sum = 0;
    for (std::size_t letter = 0; letter < kLetters; ++letter)
      sum += weights[letter] =
          std::exp(by_last[last][letter] + by_second_last[second_last][letter]);
    double left = sum * uniform01(stream);
    std::size_t letter = 0;
    while (letter + 1 < kLetters && left >= weights[letter]) left -= weights[letter++];
    text.bytes.push_back(static_cast<std::uint8_t>('a' + letter));
    second_last = last;
    last = letter;
  }
  return text;
}

Batch text_batch(const Text& text, std::span<const std::uint32_t> samples) {
  const std::vector<std::int64_t> sizes = {static_cast<std::int64_t>(samples.size()),
                                           static_cast<std::int64_t>(text.window)};
  Batch batch{torch::empty(sizes, torch::kInt64), torch::empty(sizes, torch::kInt64)};
  auto* input = batch.input.data_ptr<std::int64_t>();
  auto* target = batch.target.data_ptr<std::int64_t>();
  for (const std::uint32_t sample : samples) {
    check(sample < text.count(), "a batch is of samples that are there");
    const auto begin = text.bytes.begin() + static_cast<std::ptrdiff_t>(sample * text.window);
    const auto size = static_cast<std::ptrdiff_t>(text.window);
    input = std::copy(begin, begin + size, input);
    target = std::copy(begin + 1, begin + size + 1, target);
  }
  return batch;
}

double unigram_entropy(const DataBytes& bytes) {
  double entropy = 0;
  for (const std::uint64_t count : counts_of(bytes)) {
    if (count == 0) continue;
    const double share = static_cast<double>(count) / static_cast<double>(bytes.size());
    entropy -= share * std::log(share);
  }
  return entropy;
}

double commonest_share(const DataBytes& bytes) {
  const auto counts = counts_of(bytes);
  return static_cast<double>(*std::ranges::max_element(counts)) / static_cast<double>(bytes.size());
}

}  // namespace rehearse::inline calibrate
