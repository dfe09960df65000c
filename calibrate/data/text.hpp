#pragma once

#include <cstdint>
#include <filesystem>
#include <span>

#include "data/data_file.hpp"
#include "models/chain.hpp"

namespace rehearse::inline calibrate {

/// Text in windows that follow each other: each of a window's bytes is to predict the one behind
/// it, the last one the next window's first.
struct Text {
  std::size_t window = 0;  ///< bytes of a sample
  DataBytes bytes;         ///< all windows', and one more

  std::size_t count() const { return window == 0 ? 0 : (bytes.size() - 1) / window; }
};

/// Windows [first, last).
Text slice(const Text& text, std::size_t first, std::size_t last);

/// Values of a byte: the vocabulary that a network of text needs.
constexpr std::int64_t kByteValues = 256;

/// A file's bytes, in windows; what is left of the last one is dropped. MissingError and InputError
/// as read_data_file(); InputError where it has no whole window.
Text read_text(const std::filesystem::path& file, std::size_t window);

/// Text of a Markov source of second order over 16 letters, `windows` of them: the logit of a
/// letter is the sum of a normal draw for the letter before it and one for the letter before that.
/// The same on every machine.
Text generated_text(std::size_t windows, std::size_t window);

/// Windows as a network takes them: samples x window, in 64 bits on the CPU; targets are the bytes
/// behind each.
Batch text_batch(const Text& text, std::span<const std::uint32_t> samples);

/// Cost of a byte in nats where only the frequencies of bytes are known: the entropy of those.
double unigram_entropy(const DataBytes& bytes);
/// The share of the byte that is there most often.
double commonest_share(const DataBytes& bytes);

}  // namespace rehearse::inline calibrate
