#include "planner/what_if.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "planner/words.hpp"

namespace rehearse::inline planner {
namespace {

constexpr std::size_t kRivals = 4, kRivalsOfLayouts = 2;
constexpr int kBisections = 3;
constexpr double kBetter = 0.005;  ///< a share by which a rival must be better

/// What is turned, and how far.
struct Dial {
  const char* what;
  const char* words;
  double WhatIf::*factor;
  std::vector<double> factors;  ///< from 1 outwards
};

const std::vector<Dial> kDials = {
    {"network", "the network's bandwidth", &WhatIf::network, {2, 4}},
    {"network", "the network's bandwidth", &WhatIf::network, {0.5, 0.25}},
    {"compute", "the GPUs' speed", &WhatIf::compute, {2, 4}},
    {"compute", "the GPUs' speed", &WhatIf::compute, {0.5, 0.25}}};

class Flips {
 public:
  Flips(PlanResult& result, const Ask& ask)
      : result_(result),
        ask_(ask),
        metric_(result.prepared.plan.objective.metrics.front()),
        rivals_(result.prepared.plan.layouts ? kRivalsOfLayouts : kRivals) {
    add_rivals();
  }

  void run() {
    if (runners_.size() < 2) return;
    for (const Dial& dial : kDials) turn(dial);
  }

 private:
  using Answers = std::vector<std::optional<Figures>>;

  /// The choice first.
  void add_rivals() {
    const std::vector<Point>& points = result_.prepared.study.study.points;
    runners_ = {*result_.choice};
    const Point& chosen = points[*result_.choice];
    for (std::size_t axis = 0; axis < chosen.size(); ++axis) {
      const auto rival = std::ranges::find_if(
          result_.ranking, [&](std::size_t i) { return points[i][axis] != chosen[axis]; });
      const bool is_new =
          rival != result_.ranking.end() && std::ranges::find(runners_, *rival) == runners_.end();
      if (is_new && runners_.size() <= rivals_) runners_.push_back(*rival);
    }
  }

  /// Figures of those that keep to the constraints.
  Answers answers(const std::vector<std::size_t>& of, const Dial& dial, double factor) const {
    std::vector<Question> questions;
    for (const std::size_t i : of) {
      questions.push_back({.candidate = i, .machine = {}});
      questions.back().machine.*dial.factor = factor;
    }
    Answers answers;
    for (std::size_t k = 0; Simulated & one : ask_(questions)) {
      const Bound& bound = result_.prepared.candidates[of[k++]].bound;
      if (one.figures) one.figures->insert(bound.best.begin(), bound.best.end());
      const bool kept =
          one.figures && one.figures->contains(metric_) &&
          misses_of(*one.figures, bound, result_.prepared.plan.constraints, false).empty();
      answers.push_back(kept ? one.figures : std::nullopt);
    }
    return answers;
  }

  bool beats(const std::optional<Figures>& rival, const std::optional<Figures>& choice) const {
    if (!rival || !choice) return rival.has_value();
    const double own = rival->at(metric_).value, other = choice->at(metric_).value;
    const double ratio = info(metric_).more_is_better ? other / own : own / other;
    return ratio < 1 - kBetter;
  }

  /// The best of the others, if it beats the choice.
  std::optional<std::size_t> winner(const Answers& found) const {
    std::optional<std::size_t> best;
    for (std::size_t k = 1; k < found.size(); ++k) {
      if (!beats(found[k], found[0])) continue;
      const auto value = [&](std::size_t i) {
        return badness(metric_, found[i]->at(metric_).value);
      };
      if (!best || value(k) < value(*best)) best = k;
    }
    return best;
  }

  void turn(const Dial& dial) {
    double kept = 1;
    for (const double factor : dial.factors) {
      // A layout costs seconds: once twofold.
      if (result_.prepared.plan.layouts && factor != dial.factors.front()) break;
      if (const auto best = winner(answers(runners_, dial, factor))) {
        add_flip(dial, runners_[*best], kept, factor);
        return;
      }
      kept = factor;
    }
    result_.steady.push_back(fmt::format("it stays the choice {} to {:.2g} times {}",
                                         kept > 1 ? "up" : "down", kept, dial.words));
  }

  void add_flip(const Dial& dial, std::size_t rival, double kept, double flipped) {
    Answers at_flip = answers({*result_.choice, rival}, dial, flipped);
    for (int i = 0; i < kBisections; ++i) {
      const double middle = std::sqrt(kept * flipped);
      Answers found = answers({*result_.choice, rival}, dial, middle);
      if (beats(found[1], found[0])) {
        flipped = middle;
        at_flip = std::move(found);
      } else {
        kept = middle;
      }
    }
    const std::string difference = at_flip[0] ? compared(metric_, at_flip[1]->at(metric_).value,
                                                         at_flip[0]->at(metric_).value) +
                                                    " than the choice then"
                                              : "which then is feasible and the choice is not";
    result_.would_change.push_back(
        {.what = dial.what,
         .from = 1,
         .to = flipped,
         .unit = "times",
         .words = fmt::format("with {:.2g} times {}: {}, {}", flipped, dial.words,
                              settings_text(result_.prepared, rival), difference),
         .choice = rival});
  }

  PlanResult& result_;
  const Ask& ask_;
  Metric metric_;
  std::size_t rivals_;
  std::vector<std::size_t> runners_;
};

}  // namespace

void add_what_ifs(PlanResult& result, const Ask& ask) {
  if (!result.choice || result.prepared.plan.objective.metrics.size() > 1) return;
  Flips(result, ask).run();
}

}  // namespace rehearse::inline planner
