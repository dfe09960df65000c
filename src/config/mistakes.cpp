#include "config/mistakes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <tuple>

namespace rehearse::inline config {
namespace {

thread_local Mistakes* innermost_notes = nullptr;

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

}  // namespace rehearse::inline config
