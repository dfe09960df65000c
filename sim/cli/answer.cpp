#include "cli/answer.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/error.hpp"
#include "base/printable.hpp"

namespace rehearse::inline cli {
namespace {

std::string text_of(const Answer& answer, const std::string& format, int width, bool color) {
  if (format == "json") return answer.json();
  return format == "csv" ? answer.csv() : answer.table(width, color);
}

}  // namespace

void write_stdout(const std::string& given) {
  const std::string text = isatty(STDOUT_FILENO) == 1 ? printable(given) : given;
  const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if ((written && std::fflush(stdout) == 0) || errno == EPIPE) return;
  throw MissingError(
      fmt::format("standard output: error: cannot be written: {}", std::strerror(errno)));
}

ColorChoice parse_color_choice(const std::string& name) {
  if (name == "always") return ColorChoice::always;
  return name == "never" ? ColorChoice::never : ColorChoice::automatic;
}

bool use_color(ColorChoice choice) {
  if (choice != ColorChoice::automatic) return choice == ColorChoice::always;
  const char *no_color = std::getenv("NO_COLOR"), *terminal = std::getenv("TERM");
  const bool refused = no_color != nullptr && *no_color != '\0';
  const bool is_dumb = terminal != nullptr && std::strcmp(terminal, "dumb") == 0;
  return isatty(STDOUT_FILENO) == 1 && !refused && !is_dumb;
}

int terminal_width() {
  constexpr int kDefault = 100;
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return kDefault;
  return size.ws_col;
}

void print_answer(const Answer& answer, const AnswerOptions& options) {
  write_stdout(text_of(answer, options.format, terminal_width(), use_color(options.color)));
}

void write_answer(const Answer& answer, const AnswerOptions& options) {
  constexpr int kFileColumns = 100;
  if (!options.html.empty()) write_file(options.html, answer.page());
  if (options.output.empty()) return print_answer(answer, options);
  write_file(options.output,
             text_of(answer, options.format, kFileColumns, options.color == ColorChoice::always));
}

}  // namespace rehearse::inline cli
