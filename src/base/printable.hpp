#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace rehearse::inline base {

/// The length in bytes of the UTF-8 sequence at the front of `text`, or 0 if it is none (Unicode
/// 15, table 3-7).
std::size_t utf8_sequence(std::string_view text);

/// Whether the character at the front of `text`, a UTF-8 sequence, moves the cursor or changes the
/// order of what is shown: controls (C0 but tabs and line ends, DEL, C1), line and paragraph
/// separators, and marks that embed, override or isolate a direction of writing (Unicode Annex 9).
bool is_unprintable(std::string_view text);

/// `text` for a terminal: unprintable characters and bytes that are no UTF-8 become escapes such as
/// `\x1b` and `\u202e`. Colours pass (`ESC [`, digits and semicolons, `m`).
std::string printable(std::string_view text);
/// The same without colours: of texts that others wrote.
std::string escaped(std::string_view text);

/// Writes `text`, printable, to standard error. Does nothing where that cannot be written: there is
/// nobody left to tell.
void tell(std::string_view text);

/// Draws over a line of a terminal: writes `text` to standard error as it is, or nothing.
void draw(std::string_view text);

}  // namespace rehearse::inline base
