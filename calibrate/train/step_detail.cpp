#include "train/step_detail.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/percentile.hpp"

namespace rehearse::inline calibrate {
namespace {

/// The median over steps of what `read` finds in each.
template <class Read>
Seconds over(const std::vector<const StepRecord*>& steps, Read read) {
  std::vector<Seconds> times;
  times.reserve(steps.size());
  for (const StepRecord* step : steps) times.push_back(read(*step));
  return percentile(std::move(times), 0.5);
}

bool launches_alike(const StepRecord& a, const StepRecord& b) {
  return a.gradient_ready.size() == b.gradient_ready.size() &&
         std::equal(a.collectives.begin(), a.collectives.end(), b.collectives.begin(),
                    b.collectives.end(), [](const CollectiveTimes& x, const CollectiveTimes& y) {
                      return x.kind == y.kind && x.what == y.what && x.size == y.size;
                    });
}

}  // namespace

StepDetail detail_of(const std::vector<StepRecord>& steps) {
  check(!steps.empty(), "details of at least one step");
  std::vector<const StepRecord*> alike;
  for (const StepRecord& step : steps) {
    if (launches_alike(step, steps.back())) alike.push_back(&step);
  }
  StepDetail detail;
  detail.phases = {{"forward", over(alike, [](const StepRecord& s) { return s.forward; })},
                   {"backward", over(alike, [](const StepRecord& s) { return s.backward; })},
                   {"optimizer", over(alike, [](const StepRecord& s) { return s.optimizer; })}};
  detail.collectives = steps.back().collectives;
  for (std::size_t i = 0; i < detail.collectives.size(); ++i) {
    CollectiveTimes& one = detail.collectives[i];
    one.launched = over(alike, [i](const StepRecord& s) { return s.collectives[i].launched; });
    one.done = over(alike, [i](const StepRecord& s) { return s.collectives[i].done; });
  }
  for (std::size_t i = 0; i < steps.back().gradient_ready.size(); ++i) {
    detail.gradient_ready.push_back(
        over(alike, [i](const StepRecord& s) { return s.gradient_ready[i]; }));
  }
  return detail;
}

}  // namespace rehearse::inline calibrate
