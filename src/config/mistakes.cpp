#include "config/mistakes.hpp"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <limits>
#include <tuple>

#include "base/child_process.hpp"

namespace rehearse::inline config {
namespace {

thread_local Mistakes* innermost_notes = nullptr;
thread_local int first_mistakes = 0;

constexpr rlim_t kMostSeconds = 10;  ///< of a CPU, to look for further mistakes

/// In the child. Throws all that it finds; nothing where `first` is alone.
void look_for_more(const Error& first, const std::function<void()>& read) {
  const rlimit limit{kMostSeconds, kMostSeconds};
  setrlimit(RLIMIT_CPU, &limit);
  Mistakes all;
  if (const auto* placed = dynamic_cast<const PlacedError*>(&first)) {
    all.note(*placed);
  } else {
    all.note(first);
  }
  try {
    read();
  } catch (const std::exception&) {
    // The first one again, or what follows from it.
  }
  if (all.count() > 1) throw Error(all.code(), all.text());
}

constexpr std::size_t kNowhere = std::numeric_limits<std::size_t>::max();

}  // namespace

Mistakes::Mistakes() : outer_(innermost_notes) { innermost_notes = this; }
Mistakes::~Mistakes() { innermost_notes = outer_; }

Mistakes* Mistakes::current() { return innermost_notes; }

void Mistakes::note(const PlacedError& mistake) {
  ++events_;
  code_ = ExitCode::input;
  const std::size_t line = mistake.line(), byte = mistake.byte();
  if (!seen_.insert(fmt::format("{}:{}:{}", mistake.file(), line, byte)).second) return;
  auto found = std::ranges::find(files_, mistake.file());
  if (found == files_.end()) found = files_.insert(files_.end(), mistake.file());
  const auto number = static_cast<std::size_t>(found - files_.begin());
  all_.push_back({number, line, byte, mistake.what()});
}

void Mistakes::note(const Error& mistake) {
  ++events_;
  if (mistake.code() == ExitCode::input) code_ = ExitCode::input;
  if (seen_.insert(mistake.what()).second)
    all_.push_back({kNowhere, kNowhere, kNowhere, mistake.what()});
}

std::string Mistakes::text() const {
  std::vector<Noted> sorted = all_;
  std::ranges::stable_sort(
      sorted, {}, [](const Noted& one) { return std::tuple(one.file, one.line, one.byte); });
  std::string text;
  for (const Noted& one : sorted) text += (text.empty() ? "" : "\n\n") + one.text;
  return sorted.size() < 2 ? text : text + fmt::format("\n\n{} mistakes", sorted.size());
}

FirstMistake::FirstMistake() { ++first_mistakes; }
FirstMistake::~FirstMistake() { --first_mistakes; }

bool FirstMistake::is_enough() { return first_mistakes > 0; }

namespace {

/// Of a child that looks for all mistakes; as if it found none where no child is to be had.
ChildEnd end_of_second_reading(const Error& first, const std::function<void()>& read) {
  try {
    ChildProcess child([&] {
      look_for_more(first, read);
      return std::string();
    });
    while (child.read_some()) {
    }
    return child.finish();
  } catch (const MissingError&) {
    return {};
  }
}

}  // namespace

void throw_all_mistakes(const Error& first, const std::function<void()>& read) {
  const ChildEnd end = end_of_second_reading(first, read);
  if (end.code == ExitCode::success) throw;
  if (end.text.find(first.what()) == std::string::npos)
    throw InputError(fmt::format("{}\n\nnote: no further mistakes could be looked for: {}",
                                 first.what(), end.text));
  if (end.code == ExitCode::input) throw InputError(end.text);
  throw Error(end.code, end.text);
}

}  // namespace rehearse::inline config
