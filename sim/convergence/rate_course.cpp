#include "convergence/rate_course.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <sstream>

#include "base/error.hpp"
#include "base/number.hpp"

namespace rehearse::inline convergence {

TrainingSetting along(TrainingSetting setting, const RateCourse& course, double samples,
                      double workers) {
  const double stale = setting.staleness.mean();
  const bool switches = course.synchronous_first > 0 && stale > 0;
  if (course.rates.empty() && !switches) return setting;
  if (workers <= 0) workers = std::round(stale) + 1;
  std::set<double> ends = {1};
  for (const RateChange& change : course.rates) ends.insert(change.after);
  if (switches) ends.insert(course.synchronous_first);
  std::vector<TrainingStretch> stretches;
  double begin = 0;
  for (const double end : ends) {
    double times = 1;
    for (const RateChange& change : course.rates)
      if (change.after <= begin) times = change.times;
    const bool in_step = switches && end <= course.synchronous_first;
    const double together = in_step ? workers : 1;
    stretches.push_back({.samples = end * samples,
                         .learning_rate = setting.learning_rate * times * together,
                         .samples_per_update = setting.samples_per_update * together,
                         .staleness = in_step ? 0 : stale});
    begin = end;
  }
  return with_stretches(std::move(setting), std::move(stretches));
}

std::vector<RateChange> parse_rates(const std::string& text) {
  std::vector<RateChange> changes;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) {
    const std::size_t middle = std::min(part.find("%:"), part.size());
    const double after = decimal_number(part.substr(0, middle)).value_or(0);
    const double times =
        middle < part.size() ? decimal_number(part.substr(middle + 2)).value_or(0) : 0;
    const bool in_order = changes.empty() || after / 100 > changes.back().after;
    if (after <= 0 || after >= 100 || times <= 0 || !in_order)
      throw InputError(fmt::format(
          "expected shares of the training in order, each with the rate over the first, such as "
          "50%:0.1,75%:0.01; got \"{}\"",
          text));
    changes.push_back({after / 100, times});
  }
  return changes;
}

}  // namespace rehearse::inline convergence
