#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace rehearse::inline view {

/// The meaning of a piece of text; a page without colour shows them all alike.
enum class Ink { plain, strong, faint, good, bad, compute, communication };

/// Columns that a UTF-8 text takes on a terminal (all characters used here are one column wide).
std::size_t columns(std::string_view text);
/// Padded with spaces to `width` columns; longer text stays whole.
std::string left(std::string_view text, std::size_t width);
std::string right(std::string_view text, std::size_t width);
/// Formats a share: "12.3 %".
std::string percent(double share);
/// Up to the first line break: of an error, where and what.
std::string first_line(std::string_view text);
/// Broken between words into lines of at most `width` columns (a longer word keeps a line of its
/// own).
std::vector<std::string> wrap(std::string_view text, std::size_t width);
/// A bar of eighths of a block for a share of `width` columns, without padding; anything above 0
/// shows.
std::string bar(double share, std::size_t width);
/// One character per value, its height relative to the largest; a dot for 0.
std::string sparkline(const std::vector<double>& values);

/// Text for a terminal, line by line: fields with a name in the left column and their text beside
/// it.
class Page {
 public:
  Page(std::size_t width, bool color) : width_(width), color_(color) {}

  std::size_t width() const { return width_; }
  /// Columns right of the names.
  std::size_t body_width() const { return width_ - kNameColumns; }
  std::string ink(Ink ink, std::string_view text) const;

  void blank() { text_ += '\n'; }
  /// A line at the left margin: printable, and one line whatever it holds.
  void line(std::string_view text);
  /// Wrapped to the page.
  void paragraph(Ink ink, std::string_view text);
  /// `name` in the left column and `body`, inked already and short enough; the name may be empty.
  void field(std::string_view name, std::string_view body);
  /// The same with a text that is wrapped.
  void wrapped_field(std::string_view name, Ink ink, std::string_view text);

  const std::string& text() const { return text_; }

 private:
  static constexpr std::size_t kNameColumns = 14;

  std::size_t width_;
  bool color_;
  std::string text_;
};

}  // namespace rehearse::inline view
