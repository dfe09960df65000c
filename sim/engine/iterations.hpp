#pragma once

#include <cstdint>
#include <vector>

#include "engine/engine.hpp"
#include "engine/recorder.hpp"

namespace rehearse::inline engine {

/// Which iterations the ranks may begin, who takes part in them, and when all is over.
class Iterations {
 public:
  Iterations(const Schedule& schedule, const EngineOptions& options, Recorder& recorder);

  /// Whether a rank may begin with this iteration.
  bool goes_on(std::uint32_t rank, std::uint32_t iteration) const;
  bool takes_part(std::uint32_t rank, std::uint32_t iteration) const {
    return present_.empty() || in_background(rank) || present_[iteration][rank];
  }
  void count_operation(std::uint32_t rank) {
    if (!in_background(rank)) ++operations_;
  }

  /// Who may go on after an iteration's end.
  enum class Next { nobody, rank, job };
  Next end(std::uint32_t rank, std::uint32_t iteration, double now);

  /// True if nothing is to be played any more, whatever is in flight.
  bool finished() const { return finished_; }
  /// True if all that is left is in the background, or of iterations that nobody asks for.
  bool over() const { return is_open_ended() ? finished_ : left_ == 0; }
  /// True if all that was asked for was played.
  bool complete() const { return left_ == 0 && (!is_open_ended() || finished_); }

 private:
  bool in_background(std::uint32_t rank) const { return schedule_.ranks[rank].in_background(); }
  bool is_open_ended() const { return static_cast<bool>(options_.enough); }
  std::uint32_t ended(std::size_t rank) const {
    return static_cast<std::uint32_t>(recorder_.trace().iteration_end[rank].size());
  }
  Next end_in_background(std::uint32_t rank);
  bool suffices();

  const Schedule& schedule_;
  const EngineOptions& options_;
  Recorder& recorder_;
  std::vector<std::vector<bool>> present_;  // by iteration and rank; empty: all take part
  std::uint64_t left_ = 0;  // of the schedule's, of ranks that are not in the background
  // Of an open-ended run, without the background:
  std::uint64_t operations_ = 0, iterations_ = 0;  // that have ended
  std::uint64_t asks_at_ = 0;                      // iterations at which to ask again
  bool closing_ = false;  // only ranks that lack iterations of the schedule's go on
  bool finished_ = false;
  std::vector<std::uint32_t> slowest_;  // by job: iterations that all of its ranks have ended
};

}  // namespace rehearse::inline engine
