#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace rehearse {

/// Writes a file so that a reader sees the old one or the whole new one: to a temporary file beside
/// it, then renamed. A device or a pipe is written directly. MissingError if it cannot be written.
void write_file(const std::filesystem::path& file, const std::string& text);

/// A file that an option names; none where the path is empty.
struct OutputFile {
  std::string option;  ///< "--html"
  std::filesystem::path file;
};

/// InputError where two of the outputs are the same file, or one is a file that was read as input
/// (FilesKept) or is among `taken`. Devices and pipes may be named as often as one likes.
void check_outputs(const std::vector<OutputFile>& outputs,
                   const std::vector<std::filesystem::path>& taken = {});

/// Writes to standard output, printable where that is a terminal. A reader that has closed its end (`| head`) has what it wanted;
/// anything else that cannot be written is a MissingError.
void write_stdout(const std::string& text);

/// Writes to `file`, or to standard output where it is empty.
void write_result(const std::filesystem::path& file, const std::string& text);

enum class ColorChoice { automatic, always, never };
/// The choice that "always" or "never" names; automatic for any other.
ColorChoice parse_color_choice(const std::string& name);
/// Whether text for standard output is to be coloured; automatic: a terminal, and NO_COLOR is not
/// set.
bool use_color(ColorChoice choice);
/// Columns of the terminal, 100 where standard output is none.
int terminal_width();

}  // namespace rehearse
