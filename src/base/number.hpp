#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace rehearse::inline base {

/// A decimal number that a text begins with, and how many characters it takes.
struct LeadingNumber {
  double value = 0;        ///< finite
  std::size_t length = 0;  ///< in bytes of the text
};

/// Reads `12`, `-0.5`, `.5`, `+1.5e-3` from the front of `text`, the same in every locale. Nothing
/// for leading zeros (`010`), hexadecimal, NaN, infinities, and what a double cannot hold
/// (`1e400`).
std::optional<LeadingNumber> leading_number(std::string_view text);

/// The same, where the number must be the whole text.
std::optional<double> decimal_number(std::string_view text);

}  // namespace rehearse::inline base
