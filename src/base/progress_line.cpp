#include "base/progress_line.hpp"

#include <unistd.h>

#include <string>

#include "base/printable.hpp"

namespace rehearse::inline base {
namespace {

constexpr std::chrono::milliseconds kFirst{500}, kRedraw{200};
constexpr std::chrono::seconds kLine{5};

}  // namespace

ProgressLine::ProgressLine(bool quiet)
    : form_(quiet                        ? Form::none
            : isatty(STDERR_FILENO) == 1 ? Form::drawn
                                         : Form::lines),
      next_(Clock::now() + (form_ == Form::drawn ? Clock::duration(kFirst) : kLine)) {}

ProgressLine::~ProgressLine() {
  if (drawn_) draw("\r\033[K");
}

bool ProgressLine::due() const { return form_ != Form::none && Clock::now() >= next_; }

void ProgressLine::show(std::string_view text) {
  if (!due()) return;
  if (form_ == Form::lines) {
    tell(std::string(text) + "\n");
    next_ = Clock::now() + kLine;
    return;
  }
  draw("\r" + printable(text) + "\033[K");
  drawn_ = true;
  next_ = Clock::now() + kRedraw;
}

}  // namespace rehearse::inline base
