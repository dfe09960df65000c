#include "collective/nccl_model.hpp"

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "collective/nccl_constants.hpp"

namespace rehearse::inline collective {
namespace {

using namespace nccl;  // NOLINT: the model's own constants

/// Whether what a GPU receives, adds or copies of its own limits few ranks: all_reduce...
double own_share(CollectiveKind kind, const NcclGeneration& generation) {
  switch (kind) {
    case CollectiveKind::all_reduce:
      return kOwnAllReduce;
    case CollectiveKind::all_gather:
      return kOwnGather;
    case CollectiveKind::reduce_scatter:
      return kOwnScatter;
    case CollectiveKind::all_to_all:
      return generation.all_to_all_own;
    case CollectiveKind::broadcast:
    case CollectiveKind::reduce:
    case CollectiveKind::send_recv:
      return 0;
  }
  throw InternalError("internal error: a collective without a kind");
}

bool adds(CollectiveKind kind) { return kind == CollectiveKind::all_reduce; }

/// Bytes over rates, inside nodes and between them; they go at the same time.
struct Moved {
  Seconds inside{0}, between{0};
  Seconds most() const { return std::max(inside, between); }
};

/// One question put to the model: what is used of all candidates.
class Question {
 public:
  Question(const NcclMachine& machine, CollectiveKind kind, Bytes size)
      : machine_(machine),
        kind_(kind),
        size_(size),
        generation_(machine.inner == InnerLink::nvlink ? machine.architecture->nccl : kCards),
        bounds_(machine.architecture->bounds),
        ranks_(machine.ranks),
        nodes_(machine.nodes),
        local_(machine.local()) {
    step_ = generation_.step - usual_latency() + machine.inside_latency;
  }

  std::vector<NcclEstimate> candidates() {
    if (kind_ == CollectiveKind::all_to_all) {
      add_all_to_all();
    } else if (kind_ == CollectiveKind::send_recv) {
      add_send();
    } else {
      add_collectives();
    }
    return std::move(all_);
  }

 private:
  bool between() const { return machine_.nodes > 1; }
  Seconds usual_latency() const {
    return machine_.inner == InnerLink::nvlink ? kNvLinkLatency : kPcieLatency;
  }
  double size() const { return size_.value(); }
  double volume() const { return size() * bus_factor(kind_, ranks_); }
  /// All NICs of a node that the group owns; without bound where there is one node.
  double network() const { return machine_.nics * machine_.nic.value(); }
  double inside() const {
    double rate = machine_.inside.value();
    if (machine_.inner == InnerLink::peer_to_peer) rate *= kPeerToPeer;
    return rate;
  }
  double few_ranks() const {
    if (machine_.inner != InnerLink::nvlink) return 1;
    const double q = own_share(kind_, generation_);
    return (1 - q / ranks_) / (1 - q / 8);
  }
  /// Seconds for `bytes` at the least of the shares of both links.
  Moved slowest(double bytes, double of_inside, double of_network) const {
    return {local_ > 1 ? Seconds(bytes / (of_inside * inside())) : Seconds(0),
            between() ? Seconds(bytes / (of_network * network())) : Seconds(0)};
  }
  static Seconds filled(Fill fill, Seconds latency, Seconds volume) {
    const double l = latency.value(), v = volume.value();
    if (v <= 0 || l <= 0) return Seconds(0);
    return Seconds(fill.k * std::sqrt(l * v) / (1 + std::sqrt(v / (fill.h * l))));
  }

  bool may(NcclAlgorithm algorithm, NcclProtocol protocol) const {
    return machine_.options.allows(algorithm) && machine_.options.allows(protocol);
  }
  bool may_ll() const { return !between() || machine_.low_latency; }
  /// LL128 needs stores that arrive in order, which staging through the host does not keep.
  bool may_ll128() const {
    return may_ll() && machine_.options.at_least(kLl128Versions) &&
           (machine_.inner != InnerLink::staged || local_ == 1);
  }
  void add(NcclAlgorithm algorithm, NcclProtocol protocol, Seconds latency, Moved moved) {
    all_.push_back(
        {algorithm, protocol, generation_.launch + latency, moved.inside, moved.between});
  }
  /// NCCL's own limits lengthen the time inside nodes, whose links nobody else uses. Where a node
  /// has one rank, they lengthen the time between nodes.
  void limit(Moved& moved, Seconds least) const {
    Seconds& one = local_ > 1 ? moved.inside : moved.between;
    one = std::max(one, least);
  }

  void add_collectives() {
    add_rings();
    if (adds(kind_) && !between()) add_nvls();
    if (adds(kind_) && between()) add_trees();
    const bool scatters =
        kind_ == CollectiveKind::all_gather || kind_ == CollectiveKind::reduce_scatter;
    if (scatters && between() && local_ == 1) add_pat();
    if (all_.empty()) add_ring(NcclProtocol::simple);  // NCCL_ALGO names what this kind lacks
  }

  // --- rings

  double steps() const { return (adds(kind_) ? 2 : 1) * (ranks_ - 1); }
  double steps_between() const { return (adds(kind_) ? 2 : 1) * (nodes_ - 1); }
  double steps_inside() const { return steps() - steps_between(); }

  void add_rings() {
    for (const NcclProtocol protocol :
         {NcclProtocol::ll, NcclProtocol::ll128, NcclProtocol::simple}) {
      const bool possible = protocol == NcclProtocol::simple ||
                            (protocol == NcclProtocol::ll ? may_ll() : may_ll128());
      if (possible && may(NcclAlgorithm::ring, protocol)) add_ring(protocol);
    }
  }

  void add_ring(NcclProtocol protocol) {
    const Seconds steps = step_ * steps_inside();
    const Seconds across = machine_.between * steps_between();
    if (protocol == NcclProtocol::ll) {
      Moved moved = slowest(volume(), generation_.ll, kNetworkLl);
      limit(moved, capped());
      add(NcclAlgorithm::ring, protocol, steps + across, moved);
    } else if (protocol == NcclProtocol::ll128) {
      add(NcclAlgorithm::ring, protocol,
          kLl128Launch + steps * kLl128Step + across + kLl128Between * steps_between(),
          slowest(volume(), generation_.ll128, kNetworkLl128));
    } else {
      add_simple_ring();
    }
  }

  /// NCCL's own limit of LL between nodes.
  Seconds capped() const {
    if (!between()) return Seconds(0);
    return Seconds(volume() / ll_cap().value());
  }
  BytesPerSecond ll_cap() const {
    return machine_.nodes == 2 ? bounds_.ll_cap : bounds_.ll_cap_beyond;
  }

  void add_simple_ring() {
    const Moved moved = slowest(volume(), generation_.simple * few_ranks(), kNetworkSimple);
    if (!between()) {
      const Seconds latency = kSimpleLaunch + step_ * (kSimpleStep * steps());
      return add(NcclAlgorithm::ring, NcclProtocol::simple,
                 latency + filled(kFillInside, latency, moved.most()), moved);
    }
    const Seconds latency = simple_steps() + chunk_step() * steps_between();
    add(NcclAlgorithm::ring, NcclProtocol::simple,
        latency + filled(kFillBetween, generation_.launch + latency, moved.most()), moved);
  }
  Seconds simple_steps() const {
    return kSimpleLaunchBetween + step_ * (kSimpleStepBetween * steps_inside());
  }
  Seconds chunk_step() const { return machine_.between + machine_.chunk_between; }

  // --- the switch adds up

  bool has_nvls() const {
    return bounds_.nvls_channels > 0 && machine_.inner == InnerLink::nvlink &&
           local_ > kNvlsAbove && machine_.options.at_least(between() ? kNvlsTrees : kNvls);
  }

  /// To the switch and back, twice.
  Seconds nvls_begin() const {
    return kNvlsBegin + 4 * (machine_.inside_latency - usual_latency());
  }

  void add_nvls() {
    if (!has_nvls() || !may(NcclAlgorithm::nvls, NcclProtocol::simple)) return;
    const Seconds moved(volume() / (generation_.nvls * inside()));
    const Seconds fill(kNvlsFill * std::sqrt(nvls_begin().value() * moved.value()));
    add(NcclAlgorithm::nvls, NcclProtocol::simple, nvls_begin() + fill, {.inside = moved});
  }

  // --- trees between nodes

  double depth() const { return std::ceil(std::log2(nodes_)); }
  /// How often the bytes cross a node's NICs, in each direction.
  double crossings() const {
    if (machine_.nodes > 2) return 2;
    return machine_.options.at_least(kTwoNodeTrees) ? 1 : bus_factor(kind_, ranks_);
  }
  double channels() const { return 2 * std::min(machine_.nics, machine_.local()); }
  /// Chunks through `stages`, each a share of what the NICs carry at a time; all of it is paid once
  /// the buffers are full.
  Seconds tree_fill(double chunk, double half) const {
    const double buffers = channels() * kChannelBuffer.value();
    const double rate = kNetworkSimple * network();
    return Seconds(chunk / rate * size() / (size() + half * buffers));
  }

  void add_trees() {
    if (!machine_.options.at_least(kTrees)) return;
    if (machine_.low_latency) {
      add_tree(NcclProtocol::ll, Seconds(0), 1, kChainLl);
      if (may_ll128()) add_tree(NcclProtocol::ll128, kLl128Launch, kLl128Step, kChainLl128);
    }
    add_tree(NcclProtocol::simple, kSimpleLaunchBetween, kSimpleStepBetween, kChainSimple);
    if (has_nvls() && may(NcclAlgorithm::nvls_tree, NcclProtocol::simple)) add_nvls_tree();
    if (machine_.options.sharp && may(NcclAlgorithm::collnet, NcclProtocol::simple)) add_collnet();
  }

  double network_share(NcclProtocol protocol) const {
    if (protocol == NcclProtocol::ll) return kNetworkLl;
    return protocol == NcclProtocol::ll128 ? kNetworkLl128 : kNetworkSimple;
  }
  double chain_share(NcclProtocol protocol, double of_nvlink) const {
    if (machine_.inner == InnerLink::nvlink) return of_nvlink;
    if (protocol == NcclProtocol::ll) return kChainPcie * generation_.ll;
    return kChainPcie * (protocol == NcclProtocol::ll128 ? generation_.ll128 : 1);
  }

  void add_tree(NcclProtocol protocol, Seconds begin, double step, double of_nvlink) {
    if (!may(NcclAlgorithm::tree, protocol)) return;
    const bool simple = protocol == NcclProtocol::simple;
    Seconds across = simple ? chunk_step() : machine_.between;
    if (protocol == NcclProtocol::ll128) across += kLl128Between;
    const Seconds chain = step_ * (kChainStep * step * (local_ - 1));
    Seconds latency = begin + 2 * (chain + across * depth());
    Moved moved{.between = Seconds(crossings() * size() / (network_share(protocol) * network()))};
    if (local_ > 1) moved.inside = Seconds(size() / (chain_share(protocol, of_nvlink) * inside()));
    if (protocol == NcclProtocol::ll) {
      limit(moved, Seconds(crossings() * size() / ll_cap().value()));
    }
    if (simple) {
      const double stages = 2 * (local_ - 1 + depth());
      latency += tree_fill(stages * channels() * kTreeChunk.value(), kTreeHalf);
    }
    add(NcclAlgorithm::tree, protocol, latency, moved);
  }

  void add_nvls_tree() {
    const Moved moved{.inside = Seconds(volume() / (generation_.nvls * inside())),
                      .between = Seconds(crossings() * size() / (kNetworkSimple * network()))};
    const double buffers = channels() * kChannelBuffer.value();
    add(NcclAlgorithm::nvls_tree, NcclProtocol::simple,
        nvls_begin() + 2 * depth() * chunk_step() +
            tree_fill(kNvlsTreeFill * buffers, kNvlsTreeHalf),
        moved);
  }

  /// Bytes leave each node once and come back added up; no open curve.
  void add_collnet() {
    Moved moved{.between = Seconds(size() / (kNetworkSimple * network()))};
    if (local_ > 1) moved.inside = Seconds(size() / (kChainSimple * inside()));
    const Seconds chain = step_ * (kChainStep * kSimpleStepBetween * (local_ - 1));
    add(NcclAlgorithm::collnet, NcclProtocol::simple,
        kSimpleLaunchBetween + 2 * (chain + chunk_step()), moved);
  }

  /// One rank to a node: log2(N) rounds, each with twice the blocks of the one before; no open
  /// curve.
  void add_pat() {
    if (!machine_.options.at_least(kPat) || !may(NcclAlgorithm::pat, NcclProtocol::simple)) return;
    const Moved moved = slowest(volume(), 1, kNetworkSimple);
    const Seconds latency = kSimpleLaunchBetween + chunk_step() * depth();
    add(NcclAlgorithm::pat, NcclProtocol::simple,
        latency + filled(kFillBetween, generation_.launch + latency, moved.most()), moved);
  }

  // --- sends and receives

  void add_all_to_all() {
    const Seconds peers = kPeer * (ranks_ - 1) + machine_.inside_latency - usual_latency();
    Moved moved;
    if (local_ > 1)
      moved.inside = Seconds(volume() / (generation_.all_to_all * inside() * few_ranks()));
    if (machine_.unlinked > 0)
      moved.inside = std::max(moved.inside, Seconds(size() / ranks_ * machine_.unlinked /
                                                    machine_.through_host.value()));
    if (between()) {
      const double leaves = local_ * size() * (nodes_ - 1) / nodes_;
      moved.between = Seconds(leaves / (kNetworkSimple * network()));
    }
    const Seconds fill = between()
                             ? filled(kFillBetween, chunk_step(), moved.most())
                             : filled(kFillInside, kSimpleLaunchBetween + peers, moved.most());
    add(NcclAlgorithm::direct, NcclProtocol::simple,
        peers + (between() ? chunk_step() : Seconds(0)) + fill, moved);
  }

  /// From one GPU to one other, over the NIC of each.
  void add_send() {
    const double rate = between() ? kNetworkSimple * machine_.nic.value() : kSend * inside();
    const Seconds moved(size() / rate);
    const Seconds path = between() ? chunk_step() : machine_.inside_latency;
    add(NcclAlgorithm::direct, NcclProtocol::simple,
        kPeer + path + filled(kFillInside, kSimpleLaunchBetween, moved),
        between() ? Moved{.between = moved} : Moved{.inside = moved});
  }

  const NcclMachine& machine_;
  CollectiveKind kind_;
  Bytes size_;
  const NcclGeneration& generation_;
  const NcclBounds& bounds_;
  double ranks_, nodes_, local_;
  Seconds step_;
  std::vector<NcclEstimate> all_;
};

// Half-widths by band: below 64 KiB, 1 MiB, 64 MiB, and above.
struct Bands {
  double tiny, small, middle, large;
  double of(Bytes size) const {
    constexpr double kKiB = 1024;
    if (size.value() < 64 * kKiB) return tiny;
    if (size.value() < kKiB * kKiB) return small;
    return size.value() < 64 * kKiB * kKiB ? middle : large;
  }
};
constexpr Bands kNvlinkError{0.16, 0.29, 0.23, 0.10};
constexpr Bands kPcieError{0.29, 0.43, 0.30, 0.31};
constexpr Bands kNetworkError{0.33, 0.62, 0.40, 0.115};
/// Kinds that no open curve has between nodes, RCCL, and domains of NVLink beyond a node of eight.
constexpr double kNoCurve = 0.5;
constexpr int kMostOpenRanks = 8;

}  // namespace

std::vector<NcclEstimate> nccl_candidates(const NcclMachine& machine, CollectiveKind kind,
                                          Bytes size) {
  check(machine.ranks >= 2 && machine.nodes >= 1 && machine.nodes <= machine.ranks,
        "NCCL has at least two ranks, one on each node");
  return Question(machine, kind, size).candidates();
}

NcclEstimate nccl_estimate(const NcclMachine& machine, CollectiveKind kind, Bytes size) {
  return std::ranges::min(nccl_candidates(machine, kind, size), {}, &NcclEstimate::total);
}

double nccl_uncertainty(const NcclMachine& machine, CollectiveKind kind, Bytes size,
                        const NcclEstimate& estimate) {
  if (machine.nodes == 1) {
    const bool nvlink = machine.inner == InnerLink::nvlink;
    const double known = (nvlink ? kNvlinkError : kPcieError).of(size);
    const bool open = machine.architecture->bounds.measured && machine.ranks <= kMostOpenRanks;
    return open ? known : std::max(known, kNoCurve);
  }
  const double known = kNetworkError.of(size);
  const bool tree =
      estimate.algorithm == NcclAlgorithm::tree || estimate.algorithm == NcclAlgorithm::nvls_tree;
  if (tree && machine.nodes == 2 && !machine.options.version)
    return std::max(known, kTwoNodeTreeError);
  return kind == CollectiveKind::all_reduce ? known : std::max(known, kNoCurve);
}

}  // namespace rehearse::inline collective
