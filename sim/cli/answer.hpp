#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "config/output_files.hpp"

namespace rehearse::inline cli {

/// Writes to standard output, printable where that is a terminal. A reader that has closed its end
/// (`| head`) has what it wanted; anything else that cannot be written is a MissingError.
void write_stdout(const std::string& text);

enum class ColorChoice { automatic, always, never };
/// The choice that "always" or "never" names; automatic for any other.
ColorChoice parse_color_choice(const std::string& name);
/// Whether text for standard output is to be coloured; automatic: a terminal that is not "dumb"
/// (TERM), and NO_COLOR is empty or not set (no-color.org).
bool use_color(ColorChoice choice);
/// Columns of the terminal, 100 where standard output is none.
int terminal_width();

/// Where an answer goes, and in which form.
struct AnswerOptions {
  std::string format = "table";  ///< table, json, csv, or what else a command has
  std::filesystem::path output;  ///< empty: standard output
  std::filesystem::path html;    ///< a page that shows the answer; empty: none
  ColorChoice color = ColorChoice::automatic;
  bool quiet = false;    ///< the answer alone: no progress, no remarks
  bool verbose = false;  ///< all that is known, not the answer and its reasons alone
};

/// An answer in each of its forms; those that nobody asks for are not made.
struct Answer {
  std::function<std::string(int width, bool color)> table;
  std::function<std::string()> json, csv{}, page{};
};

/// Prints the form that is asked for, whatever its output is.
void print_answer(const Answer& answer, const AnswerOptions& options);
/// Writes the page where one is asked for, and then the answer.
void write_answer(const Answer& answer, const AnswerOptions& options);

}  // namespace rehearse::inline cli
