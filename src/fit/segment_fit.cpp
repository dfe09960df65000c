// The search for the lower envelope that fits best.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <optional>
#include <stdexcept>

#include "base/percentile.hpp"
#include "fit/fit_points.hpp"
#include "fit/robust_line.hpp"

namespace rehearse::inline fit {
namespace {

/// Regimes in order of size.
using Envelope = std::vector<Line>;

/// nccl-tests prints four significant digits: differences below this are rounding, not structure.
constexpr double kRounding = 5e-4;
/// Spread that is assumed before the first fit has shown the real one.
constexpr double kFirstSpread = 0.05;
/// Huber's constant: 95 % efficiency on normal noise.
constexpr double kHuber = 1.345;
/// A median absolute deviation times this estimates a standard deviation.
constexpr double kMadToSigma = 1.4826;
/// More places for a knee than this say no more: they are thinned out evenly.
constexpr std::size_t kMostPlaces = 40;

double cheapest(const Envelope& envelope, double size) {
  double best = std::numeric_limits<double>::infinity();
  for (const Line& line : envelope) best = std::min(best, line.at(size));
  return best;
}

/// Latencies and rates both rise, so that each regime is the cheapest somewhere.
bool rises(const Envelope& envelope) {
  double knee = 0;
  for (std::size_t i = 1; i < envelope.size(); ++i) {
    const Line &low = envelope[i - 1], &high = envelope[i];
    if (!(high.intercept > low.intercept) || !(high.slope < low.slope)) return false;
    const double next = (high.intercept - low.intercept) / (low.slope - high.slope);
    if (!(next > knee)) return false;
    knee = next;
  }
  return true;
}

/// The search over knees for one set of points and one Huber limit.
class Search {
 public:
  Search(const std::vector<TimedSize>& points, const FitOptions& options, double limit)
      : points_(points),
        least_(static_cast<std::size_t>(options.points_per_segment)),
        limit_(limit) {
    const std::size_t n = points.size(), step = n / kMostPlaces + 1;
    for (std::size_t i = 0; i < n; i += step) places_.push_back(i);
    places_.push_back(n);
    lines_.resize(places_.size() * places_.size());
    for (std::size_t a = 0; a < places_.size(); ++a) {
      for (std::size_t b = a + 1; b < places_.size(); ++b)
        lines_[a * places_.size() + b] = line_of(a, b);
    }
  }

  /// The best envelope of exactly `count` regimes, or an empty one.
  Envelope best(int count) {
    best_.clear();
    best_loss_ = std::numeric_limits<double>::infinity();
    extend({}, 0, count);
    return best_.empty() ? best_ : polish(best_);
  }

  double loss(const Envelope& envelope) const {
    double sum = 0;
    for (const TimedSize& p : points_) {
      sum += huber_loss(residual_of(cheapest(envelope, p.size.value()), p), limit_);
    }
    return sum;
  }

 private:
  std::optional<Line> line_of(std::size_t a, std::size_t b) const {
    // Two points make a line but leave no residual: a whole curve may be short, a regime in it may
    // not.
    if (places_[b] - places_[a] < least_) return std::nullopt;
    std::vector<const TimedSize*> members;
    for (std::size_t i = places_[a]; i < places_[b]; ++i) members.push_back(&points_[i]);
    return robust_line(members, limit_);
  }

  /// Tries every way to cut what lies beyond place `from` into `left` regimes.
  void extend(const Envelope& so_far, std::size_t from, int left) {
    const std::size_t end = places_.size() - 1;
    for (std::size_t to = left == 1 ? end : from + 1; to <= end; ++to) {
      const std::optional<Line>& line = lines_[from * places_.size() + to];
      if (!line) continue;
      Envelope next = so_far;
      next.push_back(*line);
      if (!rises(next)) continue;
      if (left > 1) {
        extend(next, to, left - 1);
      } else if (const double value = loss(next); value < best_loss_) {
        best_loss_ = value;
        best_ = next;
      }
    }
  }

  /// Refits each regime on the points where it is the cheapest, as long as that lowers the loss:
  /// neighbours of a knee belong to whichever regime the envelope says, not to where the cut was
  /// tried.
  Envelope polish(Envelope envelope) const {
    double value = loss(envelope);
    for (int round = 0; round < 20; ++round) {
      std::vector<std::vector<const TimedSize*>> members(envelope.size());
      for (const TimedSize& p : points_) {
        const auto least =
            std::min_element(envelope.begin(), envelope.end(), [&](const Line& a, const Line& b) {
              return a.at(p.size.value()) < b.at(p.size.value());
            });
        members[static_cast<std::size_t>(least - envelope.begin())].push_back(&p);
      }
      Envelope next;
      for (const auto& group : members) {
        if (group.size() < least_) return envelope;
        const std::optional<Line> line = robust_line(group, limit_);
        if (!line) return envelope;
        next.push_back(*line);
      }
      const double next_value = loss(next);
      if (!rises(next) || !(next_value < value)) return envelope;
      envelope = next;
      value = next_value;
    }
    return envelope;
  }

  const std::vector<TimedSize>& points_;
  std::size_t least_;
  double limit_;
  std::vector<std::size_t> places_;         ///< indices where a regime may start, and the end
  std::vector<std::optional<Line>> lines_;  ///< the line of every [place, place)
  Envelope best_;
  double best_loss_ = 0;
};

/// n ln(variance) + parameters ln(n): two parameters per regime and one per knee. The knees follow
/// from the regimes, but their places were searched, and a search that is not paid for finds
/// structure in noise.
double information_criterion(double loss, std::size_t points, std::size_t regimes) {
  const double n = static_cast<double>(points);
  const double parameters = 3 * static_cast<double>(regimes) - 1;
  return n * std::log(2 * loss / n + kRounding * kRounding) + parameters * std::log(n);
}

Envelope choose(const std::vector<TimedSize>& points, const FitOptions& options, double limit) {
  Search search(points, options, limit);
  Envelope chosen;
  double lowest = std::numeric_limits<double>::infinity();
  for (int count = 1; count <= options.max_segments; ++count) {
    const Envelope envelope = search.best(count);
    if (envelope.empty()) continue;
    const double value =
        information_criterion(search.loss(envelope), points.size(), envelope.size());
    if (value < lowest) {
      lowest = value;
      chosen = envelope;
    }
  }
  if (chosen.empty()) throw std::invalid_argument("the times do not grow with size");
  return chosen;
}

/// Huber's limit from the spread around an envelope.
double limit_around(const Envelope& envelope, const std::vector<TimedSize>& points) {
  std::vector<double> residuals;
  residuals.reserve(points.size());
  for (const TimedSize& p : points) {
    residuals.push_back(std::abs(residual_of(cheapest(envelope, p.size.value()), p)));
  }
  return kHuber * std::max(kMadToSigma * percentile(residuals, 0.5), kRounding);
}

std::vector<Segment> segments_of(const Envelope& envelope) {
  std::vector<Segment> segments;
  for (const Line& line : envelope)
    segments.push_back({Seconds(line.intercept), BytesPerSecond(1 / line.slope)});
  return segments;
}

std::vector<Bytes> knees_of(const Envelope& envelope) {
  std::vector<Bytes> knees;
  for (std::size_t i = 1; i < envelope.size(); ++i) {
    const Line &low = envelope[i - 1], &high = envelope[i];
    knees.push_back(Bytes((high.intercept - low.intercept) / (low.slope - high.slope)));
  }
  return knees;
}

}  // namespace

SegmentFit fit_segments(const std::vector<TimedSize>& raw, const FitOptions& options) {
  const std::vector<TimedSize> points = tidy(raw);
  if (points.size() < kFewestSizes) throw std::invalid_argument("too few sizes to fit a curve");
  const std::vector<TimedSize> fitted = thinned(merge_tiny(points));
  // First with an assumed spread, to learn the real one; then with that.
  const Envelope rough = choose(fitted, options, kHuber * kFirstSpread);
  const Envelope envelope = choose(fitted, options, limit_around(rough, fitted));
  const std::vector<Segment> segments = segments_of(envelope);
  return {segments, knees_of(envelope), relative_errors(segments, points)};
}

std::vector<PointError> held_out_errors(const std::vector<TimedSize>& raw,
                                        const FitOptions& options) {
  const std::vector<TimedSize> points = tidy(raw);
  if (points.size() < 2 * kFewestSizes)
    throw std::invalid_argument("too few sizes to leave half of them out");
  std::vector<PointError> errors;
  errors.reserve(points.size());
  for (const std::size_t kept : {std::size_t{0}, std::size_t{1}}) {
    std::vector<TimedSize> seen, unseen;
    for (std::size_t i = 0; i < points.size(); ++i)
      (i % 2 == kept ? seen : unseen).push_back(points[i]);
    const auto half = relative_errors(fit_segments(seen, options).segments, unseen);
    errors.insert(errors.end(), half.begin(), half.end());
  }
  return errors;
}

}  // namespace rehearse::inline fit
