#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cluster/cluster.hpp"

namespace rehearse::inline engine {

/// The token buckets of ports, and of cables that have some: what an idle one lets pass at once
/// before its rate holds.
///
/// A bucket holds at most the burst and is full at first. A flow takes as much as all on its way
/// have: of its source's tokens to send, of its target's to receive, and of each cable's; that
/// passes at once (at the line rate, which counts as infinite), the rest at the rates. Of flows
/// that start together the first takes the tokens. What the rate would have let pass and did not
/// comes back as tokens: always while a port is idle, and when its last flow ends for the time
/// since its first began. That is exact for flows one after another at any rate, and for flows that
/// begin while others are in flight it gives no more than a real bucket.
class TokenBuckets {
 public:
  /// Buckets of these ports of the cluster, which flows name by their index.
  TokenBuckets(const Cluster& cluster, const std::vector<Port>& ports);
  /// The number of one direction of a cable, by which flows name it.
  std::uint32_t add_cable(Bytes burst, BytesPerSecond rate);

  /// False if no port has a burst: then nothing ever passes at once.
  bool any() const { return any_; }
  /// A flow starts now (seconds), over these cables. Returns what does not pass at once; if that is
  /// more than nothing it is in flight until end().
  Bytes start(std::uint32_t source, std::uint32_t target, std::span<const std::uint32_t> cables,
              Bytes size, double now);
  void end(std::uint32_t source, std::uint32_t target, std::span<const std::uint32_t> cables,
           double now);

 private:
  /// One direction of a port or cable.
  struct Bucket {
    double burst = 0, rate = 0;  // bytes, bytes per second
    double tokens = 0, since = 0;
    double passing = 0;  // bytes of the flows that have begun since then
    int flows = 0;
  };

  static void refill(Bucket& bucket, double now);
  static void begin(Bucket& bucket, double rest);
  static void end(Bucket& bucket, double now);

  /// Buckets on a flow's way, in one list that lasts until the next call.
  const std::vector<Bucket*>& way(std::uint32_t source, std::uint32_t target,
                                  std::span<const std::uint32_t> cables);

  std::vector<Bucket> out_, in_, cables_;
  std::vector<Bucket*> way_;
  bool any_ = false;
};

}  // namespace rehearse::inline engine
