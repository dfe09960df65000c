#include "engine/token_buckets.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace rehearse {

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

Bytes TokenBuckets::start(std::uint32_t source, std::uint32_t target, Bytes size, double now) {
  Bucket &out = out_[source], &in = in_[target];
  refill(out, now);
  refill(in, now);
  const double at_once = std::min({out.tokens, in.tokens, size.value()});
  out.tokens -= at_once;
  in.tokens -= at_once;
  const double rest = size.value() - at_once;
  if (rest > 0) {
    begin(out, rest);
    begin(in, rest);
  }
  return Bytes(rest);
}

// Capping what came back only now is exact: no port passes more than its rate, so that since the
// first of the flows began tokens came back and never went.
void TokenBuckets::end(Bucket& bucket, double now) {
  check(bucket.flows > 0, "a flow ends on a port without one");
  --bucket.flows;
  refill(bucket, now);
}

void TokenBuckets::end(std::uint32_t source, std::uint32_t target, double now) {
  end(out_[source], now);
  end(in_[target], now);
}

}  // namespace rehearse
