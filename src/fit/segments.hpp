#pragma once

#include <cstddef>
#include <limits>
#include <vector>

#include "base/quantity.hpp"

namespace rehearse::inline fit {

/// One measured point of time(size).
struct TimedSize {
  Bytes size;
  Seconds time;
};

/// One affine regime: latency + size / rate.
struct Segment {
  Seconds latency;
  BytesPerSecond rate;
};

/// Relative error of a prediction at one point: |predicted / measured - 1|.
struct PointError {
  Bytes size;
  double error = 0;
};

/// Summary of a set of relative errors; all 0 for an empty set.
struct FitErrors {
  double median = 0;
  double p90 = 0;  ///< what nine points of ten stay within (nearest rank)
  double max = 0;
};

struct FitOptions {
  int max_segments = 3;        ///< NCCL has three protocols: LL, LL128, Simple
  int points_per_segment = 3;  ///< the fewest points that a regime may rest on
};

/// A fitted curve: the cheapest of its regimes at each size. Latencies and rates both rise from one
/// to the next.
struct SegmentFit {
  std::vector<Segment> segments;
  std::vector<Bytes> knees;           ///< sizes where one regime hands over to the next
  std::vector<PointError> residuals;  ///< on the fitted sizes, outliers included
};

/// The fewest distinct sizes that fit_segments accepts.
inline constexpr int kFewestSizes = 4;

/// The cheapest regime at `size`: its index in `segments`, which must not be empty.
std::size_t cheapest_segment(const std::vector<Segment>& segments, Bytes size);

/// Time of `size` under the cheapest regime.
Seconds predict(const std::vector<Segment>& segments, Bytes size);

/// Relative errors of `segments` on `points`.
std::vector<PointError> relative_errors(const std::vector<Segment>& segments,
                                        const std::vector<TimedSize>& points);

/// The errors at sizes in [from, below), summed up.
FitErrors summarize_errors(const std::vector<PointError>& errors, Bytes from = Bytes(0),
                           Bytes below = Bytes(std::numeric_limits<double>::infinity()));

/// Fits time(size) as the lower envelope of affine regimes: a library that picks the cheapest
/// protocol at each size costs the minimum of theirs, and a protocol with more start-up cost
/// survives only by a higher rate.
///
/// Relative residuals (their logarithms), Huber's loss (so that a warm-up point does not bend the
/// curve), every placement of the knees, and the number of regimes by the Bayesian information
/// criterion. Several points of one size count as their median; sizes of up to 1 KiB all measure
/// the start-up and count as one. Throws std::invalid_argument for fewer than kFewestSizes sizes,
/// for sizes or times that are not positive or not finite, and for times that do not grow with
/// size.
SegmentFit fit_segments(const std::vector<TimedSize>& points, const FitOptions& options = {});

/// How well a fit predicts points that it has not seen: every other size is left out, then the
/// others; each point is scored once, by the fit without it. Needs twice kFewestSizes sizes (else
/// std::invalid_argument).
std::vector<PointError> held_out_errors(const std::vector<TimedSize>& points,
                                        const FitOptions& options = {});

}  // namespace rehearse::inline fit
