#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/quantity.hpp"
#include "config/document.hpp"
#include "profile/collective_kind.hpp"
#include "profile/comm_links.hpp"

namespace rehearse::inline profile {

/// One regime of a collective (NCCL's LL, LL128 and Simple protocols, or what a fit finds): affine
/// in size.
struct CommSegment {
  Seconds latency;
  BytesPerSecond busbw;  ///< of the slope: size * bus_factor / busbw + latency
};

/// From this size on a collective is bound by its rate; a fit is judged on these sizes separately.
inline constexpr Bytes kLargeMessage(1024.0 * 1024.0);

/// A calibrated cost: what is paid once and what grows with the bytes.
struct CommCost {
  Seconds latency;
  Seconds transfer;

  Seconds total() const { return latency + transfer; }
};

/// Calibrated cost of one collective on one number of ranks and nodes: the cheapest regime at each
/// size.
struct CommCurve {
  CollectiveKind kind = CollectiveKind::all_reduce;
  int ranks = 2;
  int nodes = 1;
  std::vector<CommSegment> segments;
  Bytes smallest, largest;     ///< sizes it was fitted on
  double residual_median = 0;  ///< relative error of the fit on its own points
  double residual_max = 0;
  double held_out_median = 0;  ///< relative error on points left out of the fit (every other one)
  double held_out_max = 0;
  /// Error that 90 % of the points below kLargeMessage stay within, left out or fitted, whichever
  /// is worse; then that of kLargeMessage and more. 0 where nothing could be left out.
  double error_p90_small = 0;
  double error_p90_large = 0;

  /// Cost of `size`, as nccl-tests counts it.
  CommCost cost(Bytes size) const;
  bool holds(Bytes size) const { return size >= smallest && size <= largest; }
  /// Half-width of the 90 % interval of ln(time) of its own collective on its own ranks and links:
  /// 0.1 for about 10 %. Twice that beyond the sizes that it was fitted on.
  double uncertainty(Bytes size) const;
};

/// Slowdown of a collective and computation on the same ranks while both run: how many times longer
/// each takes, 1 being no effect.
struct CommOverlap {
  CollectiveKind kind = CollectiveKind::all_reduce;
  Bytes size;                   ///< of the collective, as nccl-tests counts it
  double compute_slowdown = 1;  ///< of compute beside the collective
  double comm_slowdown = 1;     ///< of the collective beside compute

  bool operator==(const CommOverlap&) const = default;
};

/// How collectives between nodes travel where a back end sends them over sockets (Gloo, over TCP):
/// what it costs apart from the link's own rate, so that what was measured on two nodes at one rate
/// holds for others.
///
/// A ring's chunk goes in segments. For each a rank's thread wakes when the segment before it in
/// the pipeline has come (`wake`), then works (`per_message`, and the bytes at `host_rate`) and
/// hands it to the link, which carries it at `efficiency` of its rate. While the link carries one
/// segment the host works on the next.
struct Transport {
  int segments = 2;          ///< of a ring's chunk, at least
  Bytes largest_segment;     ///< above it a chunk has more of them
  int at_a_time = 1;         ///< collectives that one process runs at once
  double efficiency = 1;     ///< payload over the link's rate
  Seconds wake;              ///< from a segment's arrival until a thread works on the next
  Seconds per_message;       ///< work of one core for each segment, sender's and receiver's
  BytesPerSecond host_rate;  ///< at which that core copies and adds up; 0: at once
  Seconds slice{0};          ///< that a thread computes before another on its core takes its turn
  /// Bytes that a connection may have in its port's queue, behind which the next one's wait: Linux
  /// lets its own pace's worth of a millisecond there (tcp_small_queue_check). In training between
  /// hosts at 155 Mbit/s that pace is 1.3 to 2.2 Gbit/s (`ss -ti`, medians of three connections).
  /// No more than the receiver's window.
  Bytes queued{200e3};
  BytesPerSecond measured_at;  ///< the links' rate; another one is outside the calibration
  /// Relative half-widths of the 90 % intervals of the link's efficiency, and of what hosts take.
  double efficiency_error = 0, host_error = 0;

  /// Time that one segment of `size` asks of a core.
  Seconds host_work(Bytes size) const;
  /// The same somewhere in its intervals: -1 and 1 are their ends, the fast one and the slow one.
  Transport shifted(double shift) const;
  /// Segments that a chunk of a ring is cut into.
  int segments_of(Bytes chunk) const;

  bool operator==(const Transport&) const = default;
};

/// Measured collectives of one kind of machine.
struct CommProfile {
  std::string name;
  std::string hardware;
  std::string source;
  std::vector<CommCurve> curves;
  std::vector<CommOverlap> overlap{};  ///< empty: not measured
  /// Transport that is taken between nodes, where the curves are not.
  std::optional<Transport> transport{};
  /// Links that the curves were measured on; nothing: the file does not say.
  std::optional<CommLinks> links{};
  /// The links are the cluster's, as the file says nothing; never in a file.
  bool links_assumed = false;
  /// Version of NCCL that the curves are of, major and minor; nothing: the file does not say.
  std::optional<std::pair<int, int>> nccl{};
  bool shipped = false;  ///< of platforms/: of another machine than the user's; never in a file

  /// Cost of a collective of `size` (nccl-tests' size) as its own curve has it; nothing where none
  /// was measured over so many ranks on so many nodes.
  std::optional<CommCost> cost(CollectiveKind kind, Bytes size, int ranks, int nodes) const;
  /// The curve of this kind with the most similar placement, on one node for one node and on
  /// several for several; null where there is none.
  const CommCurve* nearest(CollectiveKind kind, int ranks, int nodes) const;

  /// Whether collectives of so many ranks on so many nodes go by the transport: one on each node.
  bool travels(std::size_t ranks, std::size_t nodes) const {
    return transport && nodes > 1 && ranks == nodes;
  }

  /// The measured overlap of this kind whose size is nearest, in ratio (the smaller of two as
  /// near); of any kind where this one was not measured. Nothing where none was.
  std::optional<CommOverlap> overlap_of(CollectiveKind kind, Bytes size) const;
};

/// Reads a profile file (platforms/profiles/comm/*.yaml). InputError where it is not one.
CommProfile read_comm_profile(const Value& value);

/// The text of a profile file, which read_comm_profile reads back (to six significant digits).
std::string to_yaml(const CommProfile& profile);

}  // namespace rehearse::inline profile
