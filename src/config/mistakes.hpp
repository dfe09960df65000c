#pragma once

#include <cstddef>
#include <exception>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"

namespace rehearse::inline config {

/// Wrong input at a place of a text.
class PlacedError : public InputError {
 public:
  /// `line` and `byte` count from 0.
  PlacedError(std::string file, std::size_t line, std::size_t byte, const std::string& text)
      : InputError(text), file_(std::move(file)), line_(line), byte_(byte) {}
  const std::string& file() const { return file_; }
  std::size_t line() const { return line_; }
  std::size_t byte() const { return byte_; }

 private:
  std::string file_;
  std::size_t line_, byte_;
};

/// While it lives, this thread's readers note mistakes instead of throwing them, and go on with
/// stand-ins for what cannot be read. They may be nested; the innermost notes.
class Mistakes {
 public:
  Mistakes();
  ~Mistakes();
  Mistakes(const Mistakes&) = delete;
  Mistakes& operator=(const Mistakes&) = delete;

  /// The innermost of this thread; null: the first mistake is thrown.
  static Mistakes* current();

  /// Notes a mistake. The first of several at one place counts: the others follow from it.
  void note(const PlacedError& mistake);
  /// Notes a mistake without a place.
  void note(const Error& mistake);
  /// Something was read that is not there, as a mistake was noted before.
  void note_stand_in() { ++events_; }

  std::size_t count() const { return all_.size(); }
  /// ExitCode::missing where nothing but missing files was noted, else ExitCode::input.
  ExitCode code() const { return code_; }
  /// Texts of all mistakes, by their places, and how many there are where there are several.
  std::string text() const;
  /// How often anything was noted: as long as it stays, what was read is as the user wrote it.
  std::size_t events() const { return events_; }

  /// While it lives, errors that end a part may only follow from mistakes elsewhere.
  class Doubt {
   public:
    Doubt(Mistakes& mistakes, bool is_doubtful) : mistakes_(mistakes), is_doubtful_(is_doubtful) {
      if (is_doubtful_) ++mistakes_.doubts_;
    }
    ~Doubt() {
      if (is_doubtful_) --mistakes_.doubts_;
    }
    Doubt(const Doubt&) = delete;
    Doubt& operator=(const Doubt&) = delete;

   private:
    Mistakes& mistakes_;
    bool is_doubtful_;
  };
  bool is_doubtful() const { return doubts_ > 0; }

 private:
  struct Noted {
    std::size_t file, line, byte;
    std::string text;
  };

  std::vector<Noted> all_;
  std::vector<std::string> files_;  ///< in the order in which they were met
  std::set<std::string> seen_;      ///< places, and texts without one
  ExitCode code_ = ExitCode::missing;
  std::size_t events_ = 0;
  int doubts_ = 0;
  Mistakes* outer_;
};

/// Reads a part of a file. Where mistakes are noted, an error that ends the part is noted too, and
/// the other parts can still be read; but if the part had a mistake before, or rests on others that
/// had (`is_sound` is false), the error may only follow from that, and is left out. True if the
/// part was read without a mistake.
template <class Read>
bool read_part(Read&& read, bool is_sound = true) {
  Mistakes* const mistakes = Mistakes::current();
  if (mistakes == nullptr) {
    read();
    return true;
  }
  const Mistakes::Doubt doubt(*mistakes, !is_sound);
  const std::size_t before = mistakes->events();
  const auto may_note = [&] { return !mistakes->is_doubtful() && mistakes->events() == before; };
  try {
    read();
    return may_note();
  } catch (const PlacedError& mistake) {
    if (may_note()) mistakes->note(mistake);
  } catch (const Error& mistake) {
    if (may_note() && mistake.code() != ExitCode::internal) mistakes->note(mistake);
  } catch (const std::exception&) {
    // A stand-in that did not suit: what it stands for is noted.
  }
  mistakes->note_stand_in();
  return false;
}

/// Checks parts against each other, unless one of them had a mistake: stand-ins are no model and
/// no cluster. True if there was no mistake.
template <class Check>
bool check_parts(bool are_sound, Check&& check) {
  return are_sound && read_part(std::forward<Check>(check));
}

/// For what cannot go on with stand-ins.
class SoundPart {
 public:
  SoundPart() : before_(now()) {}
  /// Ends the part, without a word more, if a mistake was noted since the construction.
  void check() const {
    if (now() != before_) throw InputError("");
  }

 private:
  static std::size_t now() {
    return Mistakes::current() == nullptr ? 0 : Mistakes::current()->events();
  }

  std::size_t before_;
};

/// While it lives, this thread's readers end at the first mistake, and look for no others.
class FirstMistake {
 public:
  FirstMistake();
  ~FirstMistake();
  FirstMistake(const FirstMistake&) = delete;
  FirstMistake& operator=(const FirstMistake&) = delete;

  static bool is_enough();
};

/// Reads once more, in a child process, to find all mistakes. Throws `first` where it is the only
/// one, else an Error that says all. A child that dies takes nothing away: then the text is the
/// first one's, with a line on the child.
[[noreturn]] void throw_all_mistakes(const Error& first, const std::function<void()>& read);

/// Reads, and where that finds a mistake, reads once more to find all. What is read within it ends
/// at its first mistake the first time, so that the second time alone says each.
template <class Read>
auto read_with_all_mistakes(Read&& read) -> decltype(read()) {
  if (Mistakes::current() != nullptr || FirstMistake::is_enough()) return read();
  try {
    const FirstMistake only;
    return read();
  } catch (const Error& first) {
    if (first.code() != ExitCode::input && first.code() != ExitCode::missing) throw;
    throw_all_mistakes(first, [&] { static_cast<void>(read()); });
  }
}

}  // namespace rehearse::inline config
