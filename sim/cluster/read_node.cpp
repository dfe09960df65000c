#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "cluster/cluster_keys.hpp"
#include "cluster/parts.hpp"
#include "config/key_list.hpp"
#include "kernels/kernel_curves.hpp"

namespace rehearse::inline cluster {
namespace {

// Half of a socket's eight channels of DDR4-3200 (204.8 GB/s), for every staged byte is written and
// read.
constexpr BytesPerSecond kHostBandwidth{100e9};

constexpr int kMostGpus = 1024;
constexpr int kMostNics = 128;
constexpr int kMostCores = 100'000;

constexpr Choices<NicVendor> kVendors = {
    {"amazon", NicVendor::amazon}, {"google", NicVendor::google}, {"other", NicVendor::other}};

NodePrices read_prices(const Value& value);

Form<double> price() { return form::within(0, 1e6).in("USD"); }

Form<double> speed_form() {
  Form<double> speed = form::positive();
  speed.read = read_speed;
  return speed;
}

struct PriceKeys : KeyList {
  KeyOf<double> on_demand = add("on_demand", price(), "required", "Price on demand.");
  KeyOf<double> reserved = add("reserved", price(), "-", "Price of a node that is reserved.");
  KeyOf<double> spot = add("spot", price(), "-", "Price of a spot node.");
};

struct NodeKeys : KeyList {
  KeyOf<int> gpus =
      add("gpus", form::count(0, kMostGpus), "1", "GPUs of the node; 0: a node of CPUs alone.");
  KeyOf<Gpu> gpu = add("gpu", Form<Gpu>{type::name_of("list gpus") | type::map(), read_gpu},
                       "generic", "The kind of GPU.");
  KeyOf<Bytes> memory = add("memory", form::size_above_0(), "(the GPU's)", "Memory of each GPU.");
  KeyOf<Watts> tdp = add("tdp", Form<Watts>{type::text("W, kW"), read_watts}, "(the GPU's)",
                         "Board power of each GPU.");
  KeyOf<double> speed =
      add("speed", speed_form(), "1", "Speed of the GPUs, times that of their kind.");
  KeyOf<BytesPerSecond> nvlink =
      add<BytesPerSecond>("nvlink", "-", "NVLink per GPU and direction.");
  KeyOf<Seconds> nvlink_latency =
      add<Seconds>("nvlink_latency", "600 ns", "Latency of NVLink.", "NCCL");
  KeyOf<BytesPerSecond> pcie =
      add<BytesPerSecond>("pcie", "24.0 GB/s", "PCIe per GPU and direction.");
  KeyOf<Seconds> pcie_latency = add<Seconds>("pcie_latency", "1.00 us", "Latency of PCIe.", "NCCL");
  KeyOf<bool> pcie_peer_to_peer =
      add<bool>("pcie_peer_to_peer", "true", "GPUs reach each other without the host's memory.");
  KeyOf<int> pcie_roots =
      add("pcie_roots", form::count(1, kMostGpus), "(1)",
          "Root complexes of its GPUs, in their order; with peer-to-peer access.");
  KeyOf<BytesPerSecond> root_link = add<BytesPerSecond>(
      "root_link", "(5 GB/s where pcie_roots is above 1)",
      "Copies between peers behind unlike roots, over the CPUs' link.", "NCCL topo.h");
  KeyOf<BytesPerSecond> staged_rate =
      add<BytesPerSecond>("staged_rate", "(21 GB/s; with PCIe 5.0 or DDR5 0.73 of host_bandwidth)",
                          "What the host passes on of all copies between its GPUs.", "nccl-tests");
  KeyOf<BytesPerSecond> host_bandwidth = add<BytesPerSecond>(
      "host_bandwidth", "100 GB/s", "What the host's memory lets through of copies.");
  KeyOf<BytesPerSecond> nvme = add<BytesPerSecond>(
      "nvme", "-", "All NVMe drives of the node, each way; for optimizer.NAME.offload: nvme.");
  KeyOf<int> cores = add("cores", form::count(1, kMostCores), "-",
                         "Cores of the host's CPUs, without hyper-threads.");
  KeyOf<Seconds> host_launch =
      add<Seconds>("host_launch", "-", "Host time of an eager operator there.");
  KeyOf<int> nics = add("nics", form::count(1, kMostNics), "1", "Network cards, as sold.");
  KeyOf<BytesPerSecond> nic =
      add<BytesPerSecond>("nic", "(required with several nodes)", "Rate of one NIC per direction.");
  KeyOf<Seconds> nic_latency =
      add<Seconds>("nic_latency", "5.00 us or 25.0 us", "From NIC to NIC: rdma, tcp.");
  KeyOf<Bytes> nic_burst =
      add<Bytes>("nic_burst", "-", "Bytes that a shaped NIC lets pass at once.");
  KeyOf<NicVendor> nic_vendor =
      add("nic_vendor", form::choice(kVendors), "(other)",
          "Whose NIC: NCCL opens more sockets on Amazon's and Google's.", "NCCL");
  KeyOf<NicTransport> transport =
      add("transport",
          Form<NicTransport>{type::choice({"rdma", "tcp"}) | type::map(), read_nic_transport},
          "rdma or tcp", "What carries bytes between NICs: tcp below 100 Gbit/s.");
  KeyOf<NodePrices> usd_per_hour =
      add("usd_per_hour",
          Form<NodePrices>{price().type | type::map(), read_prices, {}, PriceKeys().below()}, "-",
          "Price of a node.");
};

const NodeKeys& of_node() {
  static const NodeKeys kKeys;
  return kKeys;
}

/// Fails at the first of `keys` that is given.
void refuse(Map& map, std::initializer_list<const char*> keys, const std::string& message,
            const std::string& remedy) {
  for (const char* key : keys) {
    if (map.optional(key)) map.at_key(key).fail(message, remedy);
  }
}

Gpu read_node_gpu(Map& map) {
  const std::optional<Gpu> said = of_node().gpu.in(map);
  Gpu gpu = said ? *said : known_gpu(map.string_or(of_node().gpu.name, "generic"));
  gpu.memory = of_node().memory.in(map).value_or(gpu.memory);
  if (const auto tdp = of_node().tdp.in(map)) gpu.tdp = tdp;
  return gpu;
}

std::optional<NvLink> read_nvlink(Map& map) {
  const std::optional<BytesPerSecond> bandwidth = of_node().nvlink.in(map);
  if (!bandwidth) {
    refuse(map, {"nvlink_latency"}, "a latency of NVLink without NVLink",
           "give its rate per GPU and direction too, such as `nvlink: 300GBps`");
    return std::nullopt;
  }
  return NvLink{.bandwidth = *bandwidth,
                .latency = of_node().nvlink_latency.in(map, kNvLinkLatency)};
}

/// By default stated only where something is staged.
/// By the host's generation: cards of PCIe 5.0 are in hosts of its time, and so is memory that more
/// than 16 channels of DDR4 would be needed for.
BytesPerSecond usual_staged_rate(Map& map, const Pcie& pcie) {
  constexpr BytesPerSecond kFifthGeneration{40e9}, kMuchMemory{250e9}, kTwoSockets{307e9};
  const std::optional<BytesPerSecond> memory = of_node().host_bandwidth.in(map);
  const bool modern = pcie.bandwidth >= kFifthGeneration || (memory && *memory >= kMuchMemory);
  if (modern) return memory.value_or(kTwoSockets) * kStagedShare;
  return std::min(kStagedRate, memory.value_or(kStagedRate));
}

void read_staged_rate(Map& map, Pcie& pcie) {
  const std::optional<BytesPerSecond> given = of_node().staged_rate.in(map);
  if (given && pcie.peer_to_peer)
    map.at_key("staged_rate")
        .fail("nothing is staged between GPUs with peer-to-peer access",
              "remove it, or give `pcie_peer_to_peer: false` too");
  pcie.staged_rate_stated = given.has_value() || pcie.peer_to_peer;
  if (given)
    pcie.staged_rate = *given;
  else if (!pcie.peer_to_peer)
    pcie.staged_rate = of_node().staged_rate.in(map, usual_staged_rate(map, pcie));
}

/// Over QPI between two Xeons of 2014 to 2016, 6 GB/s, as packets of 64 bytes that take 6/5 of it:
/// NCCL's src/graph/topo.h, BDW_QPI_BW and INTEL_P2P_OVERHEAD.
constexpr BytesPerSecond kRootLink{5e9};

/// GPUs behind several roots, peers of which meet over the CPUs.
void read_roots(Map& map, Node& node) {
  Pcie& pcie = node.pcie;
  pcie.roots = of_node().pcie_roots.in(map).value_or(pcie.roots);
  if (node.gpus % pcie.roots != 0)
    map.at_key("pcie_roots")
        .fail(fmt::format("{} GPUs cannot be shared out to {} roots alike", node.gpus, pcie.roots),
              "give a divisor of gpus");
  if (pcie.roots == 1 || !pcie.peer_to_peer)
    return refuse(map, {"root_link"}, "no peers meet over the CPUs' link",
                  "give pcie_roots: 2 and peer-to-peer access, or remove it");
  pcie.root_link = of_node().root_link.in(map, kRootLink);
}

void read_gpu_side(Map& map, Node& node) {
  if (node.gpus == 0) {
    refuse(map,
           {"gpu", "memory", "tdp", "nvlink", "nvlink_latency", "pcie", "pcie_latency",
            "pcie_peer_to_peer", "staged_rate", "pcie_roots", "root_link", "speed"},
           "describes a GPU, but the node has none (gpus: 0)",
           "remove it, or set gpus to 1 or more");
    node.pcie = {.bandwidth = kPcieBandwidth, .latency = kPcieLatency, .host_bandwidth = {}};
    return;
  }
  node.gpu = read_node_gpu(map);
  node.nvlink = read_nvlink(map);
  node.pcie = {.bandwidth = of_node().pcie.in(map, kPcieBandwidth),
               .latency = of_node().pcie_latency.in(map, kPcieLatency),
               .peer_to_peer = of_node().pcie_peer_to_peer.in(map, true),
               .host_bandwidth = {}};
  read_staged_rate(map, node.pcie);
  read_roots(map, node);
  node.speed = of_node().speed.in(map, 1);
}

void read_network_side(Map& map, Node& node, bool needs_network) {
  if (!needs_network && !map.optional("nic")) {
    refuse(map, {"nics", "nic_latency", "nic_burst", "nic_vendor", "transport"},
           "describes a NIC without its rate",
           "give its rate per direction too, such as `nic: 25Gbps`");
    node.nics = 0;
    return;
  }
  node.nic_bandwidth = of_node().nic.required_in(map);
  const std::optional<Value> nics = map.optional(of_node().nics.name);
  node.nics = nics ? read_nics(*nics, node.gpus) : of_node().nics.in(map, 1);
  node.nic_vendor = of_node().nic_vendor.in(map).value_or(node.nic_vendor);
  node.transport = usual_transport(node.nic_bandwidth);
  if (const auto transport = of_node().transport.in(map))
    node.transport = *transport;
  else
    map.string_or(of_node().transport.name, to_string(node.transport.kind));
  settle_sockets(node.transport, node.nic_vendor, node.nic_bandwidth);
  const bool tcp = node.transport.kind == NicTransport::Kind::tcp;
  node.nic_latency = of_node().nic_latency.in(map, tcp ? kTcpLatency : kRdmaLatency);
  node.nic_burst = of_node().nic_burst.in(map).value_or(node.nic_burst);
}

}  // namespace

std::vector<Key> node_keys() { return of_node().lines(); }

NicVendor read_nic_vendor(const Value& value) { return of_node().nic_vendor.form.read(value); }

double read_speed(const Value& value) {
  constexpr double kMost = 1000;
  const double speed = value.as_positive_number();
  if (speed < 1 / kMost || speed > kMost)
    value.mistake(
        "GPUs are at least a thousandth and at most a thousand times as fast as their kind",
        "give 1 for GPUs that are as fast");
  return std::clamp(speed, 1 / kMost, kMost);
}

int read_cores(const Value& value) { return of_node().cores.form.read(value); }

int read_nics(const Value& value, int gpus) {
  const int nics = of_node().nics.form.read(value);
  const int most = std::max(1, gpus);
  if (nics > most) {
    value.fail(fmt::format("{} NICs for {} GPU{}; a GPU sends through one", nics, gpus,
                           gpus == 1 ? "" : "s"),
               fmt::format("nics: {}, and nic stays the rate of one: the others are idle", most));
  }
  return nics;
}

namespace {

NodePrices read_prices(const Value& value) {
  NodePrices prices;
  if (!value.is_map()) {
    prices.on_demand = price().read(value);
    return prices;
  }
  static const PriceKeys kKeys;
  Map map = value.as_map();
  prices.on_demand = kKeys.on_demand.required_in(map);
  prices.reserved = kKeys.reserved.in(map);
  prices.spot = kKeys.spot.in(map);
  map.finish();
  return prices;
}

}  // namespace

NodePrices read_own_prices(const Value& value) { return read_prices(value); }

namespace {

/// A card's clocks under lasting load over a relative's of its architecture, by the board power for
/// each FLOP/s of the peak. Theory has exponents from 1/3 (voltage follows the clock) to 1 (voltage
/// is at its least); 1/2 was chosen with five published steps of A10s in view.
double clock_share(const Gpu& gpu, const Gpu& relative) {
  if (gpu.architecture->name != relative.architecture->name || !gpu.tdp || !relative.tdp) return 1;
  const auto power = [](const Gpu& one) {
    return *one.tdp / Watts(1) / one.matrix_peak(Precision::fp16).value();
  };
  return std::sqrt(power(gpu) / power(relative));
}

/// A relative's kernels on a card with more power reach what shorter loads do at the most; with
/// less they compute slower, whatever their load.
void carry_power(Gpu& gpu) {
  const double share = clock_share(gpu, known_gpu(gpu.kernels->relative));
  if (share < 1) {
    gpu.kernels->matrix *= share;
    gpu.kernels->matrix_fp32 *= share;
    gpu.kernels->attention *= share;
  }
  if (!gpu.curves) return;
  auto curves = std::make_shared<KernelCurves>(*gpu.curves);
  if (share > 1) curves->sustained = std::min(1.0, share * curves->sustained);
  if (share < 1) {
    for (auto& [format, curve] : curves->products) curve.share *= share;
    for (AttentionCurve& curve : curves->attention)
      for (AttentionPass* pass : {&curve.forward, &curve.backward}) pass->share *= share;
  }
  gpu.curves = std::move(curves);
}

/// Takes the share of a relative's products that lasting load was measured to leave on this card.
void sustain(const Value& share, Gpu& gpu) {
  if (!gpu.curves)
    share.fail("no relative's kernels are taken", "name the relative by `kernels`, or remove it");
  auto curves = std::make_shared<KernelCurves>(*gpu.curves);
  curves->sustained = share.as_positive_number();
  curves->sustained_source = gpu.source;
  gpu.curves = std::move(curves);
}

void read_kernels(const Value& kernels, Gpu& gpu) {
  gpu.kernels = read_kernel_shares(kernels);
  if (!kernels.is_scalar()) return;
  gpu.curves = known_curves(gpu.kernels->relative);
  carry_power(gpu);
}

/// A key with a reader of its own.
Field<Gpu> gpu_key(const Key& key, void (*read)(const Value&, Gpu&)) {
  return {{key}, [name = key.name, read](Map& map, Gpu& gpu) {
            if (const auto value = map.optional(name)) read(*value, gpu);
          }};
}

Fields<Gpu> gpu_fields() {
  using G = Gpu;
  return {
      silent("name", &G::name, "Its name in reports.").otherwise("custom"),
      required("fp32", &G::fp32, "Peak of fp32."),
      silent("tf32", &G::tf32, "Peak of tf32 without sparsity.").otherwise("(fp32)"),
      silent("fp16", &G::fp16, "Peak of fp16 without sparsity.").otherwise("(fp32)"),
      gpu_key({"architecture", type::name_of("list architectures") | type::map(), "other",
               "Its generation, which NCCL and other libraries go by."},
              [](const Value& value, G& gpu) { gpu.architecture = read_gpu_architecture(value); }),
      silent("bf16", &G::bf16, "Peak of bf16 without sparsity.").otherwise("(fp32)"),
      silent("fp8", &G::fp8, "Peak of FP8 without sparsity; none: it has no such units."),
      silent("fp4", &G::fp4, "The same of FP4."),
      required("memory", &G::memory, form::size_above_0(), "Memory."),
      required("memory_bandwidth", &G::memory_bandwidth, "Rate of the memory."),
      silent("nvlink", &G::nvlink, "What its NVLinks carry in one direction."),
      field("tdp", &G::tdp, Form<Watts>{type::text("W, kW"), read_watts}, "Board power."),
      silent("source", &G::source, "Where the figures come from.").otherwise("given"),
      gpu_key(
          {"profiles", type::text("folder"), "(platforms/profiles/compute/NAME)",
           "Compute profiles of this GPU."},
          [](const Value& value, G& gpu) { gpu.profiles = read_compute_profiles_folder(value); }),
      gpu_key({"kernels", type::name_of("list gpus") | type::map(), "(general shares)",
               "What kernels reach of the peaks; a name: as of that GPU."},
              read_kernels),
      silent("sms", &G::sms, form::integer(1, 10000),
             "Multiprocessors, where a relative's kernels are taken."),
      gpu_key({"sustained", type::above(0), "(by board power, of the relative's)",
               "Share of a relative's products that lasting load leaves."},
              sustain)};
}

}  // namespace

std::vector<Key> gpu_keys() { return keys_of(gpu_fields()); }

Gpu read_gpu(const Value& value) {
  if (value.is_scalar()) return known_gpu(value.as_choice(gpu_names()));
  Map map = value.as_map();
  Gpu gpu;
  gpu.name = "custom";
  gpu.source = "given";
  read_fields(map, gpu_fields(), gpu);
  map.finish();
  return gpu;
}

Node read_node(const Value& value, bool needs_network) {
  Map map = value.as_map();
  Node node;
  node.gpus = of_node().gpus.in(map, 1);
  read_gpu_side(map, node);
  // A host's memory lets through at least what the host is taken to stage.
  const BytesPerSecond staged =
      node.pcie.staged_rate_stated ? BytesPerSecond(0) : node.pcie.staged_rate;
  node.pcie.host_bandwidth = of_node().host_bandwidth.in(map, std::max(kHostBandwidth, staged));
  node.nvme = of_node().nvme.in(map);
  if (const auto cores = of_node().cores.in(map)) node.cores = *cores;
  if (const auto launch = of_node().host_launch.in(map)) node.host_launch = *launch;
  read_network_side(map, node, needs_network);
  if (const auto prices = of_node().usd_per_hour.in(map)) node.prices = *prices;
  map.finish();
  return node;
}

}  // namespace rehearse::inline cluster
