#pragma once

#include <stdexcept>
#include <string>

namespace rehearse::inline base {

/// Exit codes of a process; the numbers are part of the interface (README, "Exit codes").
enum class ExitCode : int {
  success = 0,
  refuted = 1,    ///< a bound that was asked for does not hold; some of a study's points have no
                  ///< result
  input = 2,      ///< the user's input is wrong
  stuck = 3,      ///< the simulation cannot finish: something waits for what never comes
  missing = 4,    ///< a file, device or library that is needed is not there, or cannot be written
  internal = 70,  ///< our own bug
};

/// An error that ends the program with a code of its own; `what()` is the whole text for the user.
class Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& text) : std::runtime_error(text), code_(code) {}
  ExitCode code() const { return code_; }

 private:
  ExitCode code_;
};

/// Wrong input. The text is `file:line:column: error: message`, the line, a caret and a remedy
/// where known.
class InputError : public Error {
 public:
  explicit InputError(const std::string& text) : Error(ExitCode::input, text) {}
};

/// The simulation stopped with work left; the text names what waits for what.
class StuckError : public Error {
 public:
  explicit StuckError(const std::string& text) : Error(ExitCode::stuck, text) {}
};

/// Something outside the program is missing or cannot be read or written.
class MissingError : public Error {
 public:
  explicit MissingError(const std::string& text) : Error(ExitCode::missing, text) {}
};

/// A broken invariant of our own.
class InternalError : public Error {
 public:
  explicit InternalError(const std::string& text) : Error(ExitCode::internal, text) {}
};

/// Throws InternalError unless `condition` holds. On in every build.
inline void check(bool condition, const char* what) {
  if (!condition) throw InternalError(std::string("internal error: ") + what);
}

}  // namespace rehearse::inline base
