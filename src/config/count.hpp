#pragma once

#include <optional>
#include <string>

namespace rehearse::inline config {

/// A whole number from 1 to 10^18 with an optional suffix: K, M, B (or G) and T are 10^3 to 10^12;
/// Ki, Mi and Gi are 2^10 to 2^30. "15T", "4Mi", "1000". Nothing for any other text.
std::optional<double> count_number(const std::string& text);

/// "20B", "1.5T", "512": the shortest that count_number() reads as the number, to three digits.
std::string count_text(double count);

}  // namespace rehearse::inline config
