#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rehearse::inline foreign {

/// Lines of a log with their numbers, without colours. What a progress bar overwrites by a return
/// of the carriage are lines with one number.
class Lines {
 public:
  Lines(std::string_view text, std::string name) : text_(text), name_(std::move(name)) {}

  bool next(std::string& line);
  [[noreturn]] void fail(const std::string& line, std::size_t byte,
                         const std::string& message) const;

 private:
  std::string_view text_;
  std::string name_;
  std::size_t at_ = 0, number_ = 0;
  bool begins_ = true;  ///< whether the next one has a number of its own
};

/// The number behind a label, with commas between thousands; nothing where the label is not there,
/// or is 0 and `may_be_none`. InputError for what is no number above 0.
std::optional<double> labelled(const Lines& lines, const std::string& line, std::string_view label,
                               bool may_be_none = false);

/// Steps and the seconds that went by until then, as bars and counters tell them.
class Progress {
 public:
  /// A count that falls begins anew, and so does one of another `total`: an evaluation's bar.
  void tell(double count, double total, double seconds);
  /// Seconds of a step, one of each stretch that is long enough for its clock; empty: none is.
  const std::vector<double>& times() const { return times_; }

 private:
  double count_ = -1, seconds_ = 0, total_ = -1;  ///< where the stretch began
  std::vector<double> times_;
};

}  // namespace rehearse::inline foreign
