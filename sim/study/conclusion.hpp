#pragma once

#include <optional>
#include <string>
#include <vector>

#include "study/result_store.hpp"

namespace rehearse::inline study {

/// The conclusions of a study. Points count from 0.
struct Conclusion {
  std::optional<std::size_t> fastest;   ///< most samples per second of those that fit
  std::optional<std::size_t> cheapest;  ///< least money of those that fit; nothing: no prices
  /// The largest number of GPUs, at its fastest, of which each still does kWorthwhile of what one
  /// of the smallest number does; nothing where all points have as many.
  std::optional<std::size_t> knee;
  std::vector<std::string> words;  ///< a sentence each: best, cheapest, knee, axes, what is missing

  static constexpr double kWorthwhile = 0.8;

  /// The first sentences, for what stands above all else.
  std::string answer() const;
};

/// From the outcomes that a store has. A report that lacks a figure counts as none.
Conclusion conclude(const ResultStore& store);

}  // namespace rehearse::inline study
