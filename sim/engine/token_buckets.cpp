#include "engine/token_buckets.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace rehearse::inline engine {

TokenBuckets::TokenBuckets(const Cluster& cluster, const std::vector<Port>& ports) {
  for (const Port& port : ports) {
    const double burst =
        port.kind == PortKind::nic ? cluster.node(port.node).nic_burst.value() : 0.0;
    out_.push_back(
        {.burst = burst, .rate = port_bandwidth(cluster, port).value(), .tokens = burst});
    any_ = any_ || burst > 0;
  }
  in_ = out_;
}

/// Up to now, where no flow is in flight.
void TokenBuckets::refill(Bucket& bucket, double now) {
  if (bucket.flows > 0) return;
  const double unused = bucket.rate * (now - bucket.since) - bucket.passing;
  bucket.tokens = std::min(bucket.burst, bucket.tokens + std::max(unused, 0.0));
  bucket.passing = 0;
  bucket.since = now;
}

void TokenBuckets::begin(Bucket& bucket, double rest) {
  bucket.passing += rest;
  ++bucket.flows;
}

const std::vector<TokenBuckets::Bucket*>& TokenBuckets::way(std::uint32_t source,
                                                            std::uint32_t target,
                                                            std::span<const std::uint32_t> cables) {
  way_ = {&out_[source], &in_[target]};
  for (const std::uint32_t cable : cables) way_.push_back(&cables_[cable]);
  return way_;
}

std::uint32_t TokenBuckets::add_cable(Bytes burst, BytesPerSecond rate) {
  cables_.push_back({.burst = burst.value(), .rate = rate.value(), .tokens = burst.value()});
  return static_cast<std::uint32_t>(cables_.size() - 1);
}

Bytes TokenBuckets::start(std::uint32_t source, std::uint32_t target,
                          std::span<const std::uint32_t> cables, Bytes size, double now) {
  double at_once = size.value();
  for (Bucket* bucket : way(source, target, cables)) {
    refill(*bucket, now);
    at_once = std::min(at_once, bucket->tokens);
  }
  const double rest = size.value() - at_once;
  for (Bucket* bucket : way_) {
    bucket->tokens -= at_once;
    if (rest > 0) begin(*bucket, rest);
  }
  return Bytes(rest);
}

// Capping what came back only now is exact: no port or cable passes more than its rate, so that
// since the first of the flows began tokens came back and never went.
void TokenBuckets::end(Bucket& bucket, double now) {
  check(bucket.flows > 0, "a flow ends where none is");
  --bucket.flows;
  refill(bucket, now);
}

void TokenBuckets::end(std::uint32_t source, std::uint32_t target,
                       std::span<const std::uint32_t> cables, double now) {
  for (Bucket* bucket : way(source, target, cables)) end(*bucket, now);
}

}  // namespace rehearse::inline engine
