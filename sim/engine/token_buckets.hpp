#pragma once

#include <cstdint>
#include <vector>

#include "cluster/cluster.hpp"

namespace rehearse {

/// The token buckets of ports: what an idle port lets pass at once before its rate holds.
///
/// A bucket holds at most the port's burst and is full at first. A flow takes as much as both its
/// ports have, of its source's tokens to send and of its target's to receive; that passes at once
/// (at the line rate, which counts as infinite), the rest at the ports' rates. Of flows that start
/// together the first takes the tokens. What the rate would have let pass and did not comes back
/// as tokens: always while a port is idle, and when its last flow ends for the time since its
/// first began. That is exact for flows one after another at any rate, and for flows that begin
/// while others are in flight it gives no more than a real bucket.
class TokenBuckets {
 public:
  /// Of these ports of the cluster, which flows name by their index.
  TokenBuckets(const Cluster& cluster, const std::vector<Port>& ports);

  /// False if no port has a burst: then nothing ever passes at once.
  bool any() const { return any_; }
  /// A flow starts now (seconds). Returns what does not pass at once; if that is more than nothing
  /// it is in flight until end().
  Bytes start(std::uint32_t source, std::uint32_t target, Bytes size, double now);
  void end(std::uint32_t source, std::uint32_t target, double now);

 private:
  /// One direction of a port.
  struct Bucket {
    double burst = 0, rate = 0;  // bytes, bytes per second
    double tokens = 0, since = 0;
    double passing = 0;  // bytes of the flows that have begun since then
    int flows = 0;
  };

  static void refill(Bucket& bucket, double now);
  static void begin(Bucket& bucket, double rest);
  static void end(Bucket& bucket, double now);

  std::vector<Bucket> out_, in_;
  bool any_ = false;
};

}  // namespace rehearse
