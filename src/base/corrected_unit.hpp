#pragma once

#include <string>

namespace rehearse::inline base {

/// The probable meaning of a quantity whose unit is not known, as a text that can be read:
/// "400Gbps" for "400 gbps". Empty where nothing is near, or the text has no number.
std::string corrected_seconds(const std::string& text);
std::string corrected_bytes(const std::string& text);
std::string corrected_bytes_per_second(const std::string& text);
std::string corrected_flops_per_second(const std::string& text);

}  // namespace rehearse::inline base
