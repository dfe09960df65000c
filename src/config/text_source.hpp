#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace rehearse::inline config {

/// A text that a user wrote, kept so that errors can show its lines.
struct TextSource {
  std::string name;                ///< as the user gave it
  std::filesystem::path folder;    ///< what relative file names in it start from
  std::vector<std::string> lines;  ///< without line ends
};

/// A place in a text.
struct TextPosition {
  std::shared_ptr<const TextSource> source;
  std::size_t line = 0;  ///< from 0
  std::size_t byte = 0;  ///< within the line, from 0
};

/// Splits a text into lines after it has shown that it is text: valid UTF-8 (a byte order mark is
/// skipped), no unprintable characters but line ends (LF or CR LF), at most 16 MiB. InputError
/// otherwise.
std::shared_ptr<const TextSource> make_text_source(std::string_view text, const std::string& name,
                                                   const std::filesystem::path& folder);

/// The lines joined again, from byte `skip` of the first line on.
std::string joined(const TextSource& source, std::size_t skip);

class PlacedError;
/// An error at a place: `name:line:column: error: message`, the line, a caret, and `remedy: ...`
/// unless empty.
PlacedError error_at(const TextPosition& place, const std::string& message,
                     const std::string& remedy = "");
/// Throws it: `name:line:column: error: message`, the line, a caret, and `remedy: ...`
/// unless empty.
[[noreturn]] void fail_at(const TextPosition& place, const std::string& message,
                          const std::string& remedy = "");

constexpr std::size_t kMaxTextBytes = std::size_t{16} << 20;

}  // namespace rehearse::inline config
