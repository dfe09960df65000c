#include "launch/rank_end.hpp"

#include <fmt/format.h>
#include <sys/wait.h>

#include <cstring>
#include <optional>
#include <utility>

#include "base/error.hpp"

namespace rehearse::inline calibrate {

std::size_t first_cause(const std::vector<RankEnd>& ranks) {
  std::optional<std::size_t> cause;
  const auto order = [](const RankEnd& rank) {
    const int kind = rank.lost || WIFSIGNALED(rank.status) ? 0 : rank.follows ? 2 : 1;
    return std::pair(kind, rank.when);
  };
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (ranks[i].failed() && (!cause || order(ranks[i]) < order(ranks[*cause]))) cause = i;
  }
  check(cause.has_value(), "a failed run without a failed rank");
  return *cause;
}

void throw_failure(const RankEnd& rank, const std::string& who, bool alone) {
  if (rank.lost) {
    throw MissingError(fmt::format(
        "error: {} is gone, its process killed or its node unreachable; the others were stopped",
        who));
  }
  if (WIFSIGNALED(rank.status)) {
    const int signal = WTERMSIG(rank.status);
    throw MissingError(fmt::format("error: {} was ended by signal {} ({}); the others were stopped",
                                   who, signal, strsignal(signal)));
  }
  const int code = WEXITSTATUS(rank.status);
  if (!rank.complete) {
    throw MissingError(fmt::format(
        "error: {} left with code {} in the middle of its work; the others were stopped", who,
        code));
  }
  throw Error(static_cast<ExitCode>(code),
              alone ? rank.text : fmt::format("{} (in {})", rank.text, who));
}

}  // namespace rehearse::inline calibrate
