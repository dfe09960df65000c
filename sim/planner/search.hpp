#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "planner/bound.hpp"
#include "planner/plan.hpp"
#include "report/training_kind.hpp"

namespace rehearse::inline planner {

/// A constraint that a candidate does not keep to, or the objective that it cannot reach.
struct Miss {
  std::string constraint;  ///< its name; "objective"
  Metric metric = Metric::train_time;
  std::optional<double> value;  ///< nothing: not known
  double limit = 0;
  std::string words;

  /// How far beyond: value over limit, or its inverse where more is better; 1.25 for 25 %.
  /// Infinite where the value is not known.
  double excess() const;
};

/// One point of a plan, and how far it came.
struct Candidate {
  enum class Stage { open, bound, error, simulated, feasible };
  std::size_t point = 0;    ///< the study's
  std::size_t options = 0;  ///< how many more options than the simplest it sets
  Bound bound;
  Stage stage = Stage::open;
  std::optional<Figures> figures{};  ///< once it is simulated
  std::string error{};
  std::vector<Miss> misses{};          ///< why it is rejected, by its stage
  std::vector<std::string> at_risk{};  ///< constraints that its interval straddles
  /// Parts of a step in seconds: on average over the ranks, and over a pipeline's stages.
  std::map<std::string, double> parts{}, stage_parts{};
  /// By source of error, the logarithm of what its step takes over its best estimate at both ends.
  std::map<std::string, std::pair<double, double>> shifts{};
  /// The same of its length, by what costs it tokens at equal loss.
  std::map<std::string, std::pair<double, double>> loss_shifts{};
  TrainingKind kind{};
  /// Its objective over the choice's, both being off by the same errors; of those compared so.
  std::optional<Estimate<double>> beside_choice{};
};

/// Outcome of a simulation: figures or an error.
struct Simulated {
  std::optional<Figures> figures;
  std::string error;
  bool too_large = false;  ///< memory cannot suffice, so that nothing was played
  std::map<std::string, double> parts{}, stage_parts{};
  std::map<std::string, std::pair<double, double>> shifts{}, loss_shifts{};
  TrainingKind kind{};
};

struct SearchTask {
  const std::vector<Constraint>& constraints;
  const Objective& objective;
  std::function<std::vector<Simulated>(const std::vector<std::size_t>&)> simulate;
  /// Candidates that are simulated before bounds are looked at again: the same for any number of
  /// jobs, so that what is simulated does not depend on them.
  std::size_t wave = 16;
  /// Called before each wave with how many candidates may still have to be simulated.
  std::function<void(std::size_t)> open{};
  bool prune = true;  ///< false: everything that can be read is simulated
};

/// Branch and bound. A candidate is dismissed without a simulation where its bound shows that it
/// misses a constraint, or that not even the best end of its interval reaches the worst end of the
/// best one's that was found (of several objectives: of one candidate's in all of them); so the
/// winner and all that are tied with it are those of an exhaustive search. The others are simulated
/// in order of promise.
void search(std::vector<Candidate>& candidates, const SearchTask& task);

/// Simulates candidates that were dismissed by their bounds all the same, to know how far they are
/// off.
void probe(std::vector<Candidate>& candidates, const std::vector<std::size_t>& which,
           const SearchTask& task);

/// Small for a candidate that may be good: the sum of the logarithms of the objective's metrics,
/// those of which more is better negative; minus infinity where one is not bounded.
double promise(const Candidate& candidate, const Objective& objective);

/// Constraints that figures miss; `at_least` says that they are bounds.
std::vector<Miss> misses_of(const Figures& figures, const Bound& bound,
                            const std::vector<Constraint>& constraints, bool bounds);

/// The feasible ones, best first: by the objective, then with fewer options, then in order. Of
/// several objectives: those on the front in order of the first, then the others likewise.
std::vector<std::size_t> rank(const std::vector<Candidate>& candidates, const Objective& objective);
/// Whether a feasible candidate's interval overlaps the best's; where candidates are compared under
/// common errors, whether the best is better with less than kSureChance; of several objectives:
/// whether no other is surely better in all of them.
bool is_tied(const Candidate& candidate, const std::vector<Candidate>& candidates,
             const std::vector<std::size_t>& ranking, const Objective& objective);
/// Whether no other feasible candidate is better in one objective and no worse in the others.
bool on_front(const Candidate& candidate, const std::vector<Candidate>& candidates,
              const Objective& objective);
/// The one to take: the first; of a front that whose product of objectives is the least.
std::optional<std::size_t> choose(const std::vector<Candidate>& candidates,
                                  const std::vector<std::size_t>& ranking,
                                  const Objective& objective);

}  // namespace rehearse::inline planner
