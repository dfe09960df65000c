#include "profile/transport_fit.hpp"
#include "base/percentile.hpp"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace rehearse::inline profile {
namespace {

/// Up to here the wire's time is small beside the host's.
constexpr Bytes kSmallMessage(64.0 * 1024.0);

/// What an all_reduce of one size is for each rank.
struct Ring {
  double steps;     ///< that follow one another
  double segments;  ///< in each
  Bytes segment;
};

Ring ring_of(const Transport& transport, Bytes size, int ranks) {
  const Bytes chunk = size / static_cast<double>(ranks);
  const double segments = transport.segments_of(chunk);
  return {2.0 * (ranks - 1), segments, chunk / segments};
}

double efficiency_of(const std::vector<TransportPoint>& points, int ranks, BytesPerSecond rate) {
  std::vector<double> shares;
  for (const TransportPoint& point : points) {
    if (point.size < kLargeMessage) continue;
    const Bytes sent = point.size * bus_factor(CollectiveKind::all_reduce, ranks);
    shares.push_back(sent / point.time / rate);
  }
  if (shares.empty()) throw std::invalid_argument("no size of 1 MiB or more");
  return std::min(percentile(shares, 0.5), 1.0);
}

/// host = messages * per_message + bytes / host_rate, relative errors; neither below zero.
void fit_host(const std::vector<TransportPoint>& points, int ranks, Transport& transport) {
  Eigen::MatrixXd terms(points.size(), 2);
  for (std::size_t i = 0; i < points.size(); ++i) {
    const Ring ring = ring_of(transport, points[i].size, ranks);
    const double messages = ring.steps * ring.segments;
    const auto row = static_cast<Eigen::Index>(i);
    terms(row, 0) = messages / points[i].host.value();
    terms(row, 1) = messages * ring.segment.value() / points[i].host.value();
  }
  const Eigen::VectorXd ones = Eigen::VectorXd::Ones(terms.rows());
  const Eigen::Vector2d both = terms.colPivHouseholderQr().solve(ones);
  if (both(0) > 0 && both(1) > 0) {
    transport.per_message = Seconds(both(0));
    transport.host_rate = BytesPerSecond(1 / both(1));
    return;
  }
  const Eigen::VectorXd only = terms.col(0);
  transport.per_message = Seconds(only.dot(ones) / only.squaredNorm());
}

Seconds wake_of(const std::vector<TransportPoint>& points, int ranks, BytesPerSecond rate,
                const Transport& transport) {
  std::vector<double> wakes;
  for (const TransportPoint& point : points) {
    if (point.size > kSmallMessage) continue;
    const Ring ring = ring_of(transport, point.size, ranks);
    const Seconds work = transport.host_work(ring.segment);
    const Seconds wire = ring.segment / (rate * transport.efficiency);
    const Seconds left = point.time - (ring.segments - 1) * work;
    wakes.push_back(std::max(0.0, left.value() / ring.steps - (work + wire).value()));
  }
  if (wakes.empty()) throw std::invalid_argument("no size of 64 KiB or less");
  return Seconds(percentile(wakes, 0.5));
}

/// What 90 % of the points that are large, or that are not, stay within of uncontended().
double error_p90(const std::vector<TransportPoint>& points, int ranks, bool large,
                 const Transport& transport) {
  std::vector<double> errors;
  for (const TransportPoint& point : points) {
    if ((point.size >= kLargeMessage) != large) continue;
    const Seconds predicted = uncontended(transport, point.size, ranks, transport.measured_at);
    errors.push_back(std::abs(std::log(predicted / point.time)));
  }
  std::sort(errors.begin(), errors.end());
  const auto rank = static_cast<std::size_t>(std::ceil(0.9 * static_cast<double>(errors.size())));
  return errors[rank - 1];
}

}  // namespace

Seconds uncontended(const Transport& transport, Bytes size, int ranks, BytesPerSecond rate) {
  const Ring ring = ring_of(transport, size, ranks);
  const Seconds work = transport.host_work(ring.segment);
  const Seconds wire = ring.segment / (rate * transport.efficiency);
  const Seconds way = transport.wake + work + wire;
  const Seconds busiest = std::max(work, wire);
  // Each step waits for the first segment's way, whose others follow as they can ...
  if (way >= ring.segments * busiest) return ring.steps * way + (ring.segments - 1) * busiest;
  // ... or the busier of link and host never rests, but for the first and the last segment.
  return ring.steps * ring.segments * busiest + way - busiest;
}

Transport fit_transport(const std::vector<TransportPoint>& points, int ranks, BytesPerSecond rate,
                        const TransportRules& rules) {
  if (ranks < 2) throw std::invalid_argument("a transport needs at least two ranks");
  Transport transport;
  transport.segments = rules.segments;
  transport.largest_segment = rules.largest_segment;
  transport.at_a_time = rules.at_a_time;
  transport.slice = rules.slice;
  transport.queued = rules.queued;
  transport.efficiency = efficiency_of(points, ranks, rate);
  transport.measured_at = rate;
  fit_host(points, ranks, transport);
  transport.wake = wake_of(points, ranks, rate, transport);
  transport.efficiency_error = error_p90(points, ranks, true, transport);
  transport.host_error = error_p90(points, ranks, false, transport);
  return transport;
}

}  // namespace rehearse::inline profile
