#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "cluster/cluster_keys.hpp"
#include "cluster/parts.hpp"
#include "config/fields.hpp"
#include "kernels/kernel_curves.hpp"

namespace rehearse::inline cluster {
namespace {

// Half of a socket's eight channels of DDR4-3200 (204.8 GB/s), for every staged byte is written and
// read.
constexpr BytesPerSecond kHostBandwidth{100e9};

constexpr int kMostGpus = 1024;
constexpr int kMostNics = 128;
constexpr int kMostCores = 100'000;

/// Fails at the first of `keys` that is given.
void refuse(Map& map, std::initializer_list<const char*> keys, const std::string& message,
            const std::string& remedy) {
  for (const char* key : keys) {
    if (map.optional(key)) map.at_key(key).fail(message, remedy);
  }
}

Gpu read_node_gpu(Map& map) {
  const std::optional<Value> value = map.optional("gpu");
  Gpu gpu = value ? read_gpu(*value) : known_gpu(map.string_or("gpu", "generic"));
  if (const std::optional<Value> memory = map.optional("memory")) {
    gpu.memory = read_memory(*memory);
  }
  if (const std::optional<Value> tdp = map.optional("tdp")) gpu.tdp = read_watts(*tdp);
  return gpu;
}

std::optional<NvLink> read_nvlink(Map& map) {
  const std::optional<Value> bandwidth = map.optional("nvlink");
  if (!bandwidth) {
    refuse(map, {"nvlink_latency"}, "a latency of NVLink without NVLink",
           "give its rate per GPU and direction too, such as `nvlink: 300GBps`");
    return std::nullopt;
  }
  return NvLink{.bandwidth = bandwidth->as_bytes_per_second(),
                .latency = map.seconds_or("nvlink_latency", kNvLinkLatency)};
}

/// By default stated only where something is staged.
/// By the host's generation: cards of PCIe 5.0 are in hosts of its time, and so is memory that more
/// than 16 channels of DDR4 would be needed for.
BytesPerSecond usual_staged_rate(Map& map, const Pcie& pcie) {
  constexpr BytesPerSecond kFifthGeneration{40e9}, kMuchMemory{250e9}, kTwoSockets{307e9};
  const std::optional<Value> given = map.optional("host_bandwidth");
  const std::optional<BytesPerSecond> memory =
      given ? std::optional(given->as_bytes_per_second()) : std::nullopt;
  const bool modern = pcie.bandwidth >= kFifthGeneration || (memory && *memory >= kMuchMemory);
  if (modern) return memory.value_or(kTwoSockets) * kStagedShare;
  return std::min(kStagedRate, memory.value_or(kStagedRate));
}

void read_staged_rate(Map& map, Pcie& pcie) {
  const std::optional<Value> given = map.optional("staged_rate");
  if (given && pcie.peer_to_peer)
    map.at_key("staged_rate")
        .fail("nothing is staged between GPUs with peer-to-peer access",
              "remove it, or give `pcie_peer_to_peer: false` too");
  pcie.staged_rate_stated = given.has_value() || pcie.peer_to_peer;
  if (given)
    pcie.staged_rate = given->as_bytes_per_second();
  else if (!pcie.peer_to_peer)
    pcie.staged_rate = map.bytes_per_second_or("staged_rate", usual_staged_rate(map, pcie));
}

/// Over QPI between two Xeons of 2014 to 2016, 6 GB/s, as packets of 64 bytes that take 6/5 of it:
/// NCCL's src/graph/topo.h, BDW_QPI_BW and INTEL_P2P_OVERHEAD.
constexpr BytesPerSecond kRootLink{5e9};

/// GPUs behind several roots, peers of which meet over the CPUs.
void read_roots(Map& map, Node& node) {
  Pcie& pcie = node.pcie;
  if (const std::optional<Value> roots = map.optional("pcie_roots"))
    pcie.roots = static_cast<int>(roots->as_integer(1, kMostGpus));
  if (node.gpus % pcie.roots != 0)
    map.at_key("pcie_roots")
        .fail(fmt::format("{} GPUs cannot be shared out to {} roots alike", node.gpus, pcie.roots),
              "give a divisor of gpus");
  if (pcie.roots == 1 || !pcie.peer_to_peer)
    return refuse(map, {"root_link"}, "no peers meet over the CPUs' link",
                  "give pcie_roots: 2 and peer-to-peer access, or remove it");
  pcie.root_link = map.bytes_per_second_or("root_link", kRootLink);
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
  node.pcie = {.bandwidth = map.bytes_per_second_or("pcie", kPcieBandwidth),
               .latency = map.seconds_or("pcie_latency", kPcieLatency),
               .peer_to_peer = map.bool_or("pcie_peer_to_peer", true),
               .host_bandwidth = {}};
  read_staged_rate(map, node.pcie);
  read_roots(map, node);
  node.speed =
      map.has("speed") ? read_speed(map.require("speed")) : map.positive_number_or("speed", 1);
}

void read_network_side(Map& map, Node& node, bool needs_network) {
  if (!needs_network && !map.optional("nic")) {
    refuse(map, {"nics", "nic_latency", "nic_burst", "nic_vendor", "transport"},
           "describes a NIC without its rate",
           "give its rate per direction too, such as `nic: 25Gbps`");
    node.nics = 0;
    return;
  }
  node.nic_bandwidth = map.require("nic").as_bytes_per_second();
  const std::optional<Value> nics = map.optional("nics");
  node.nics =
      nics ? read_nics(*nics, node.gpus) : static_cast<int>(map.integer_or("nics", 1, 1, 1));
  if (const std::optional<Value> vendor = map.optional("nic_vendor"))
    node.nic_vendor = read_nic_vendor(*vendor);
  node.transport = usual_transport(node.nic_bandwidth);
  if (const std::optional<Value> transport = map.optional("transport")) {
    node.transport = read_nic_transport(*transport);
  } else {
    map.string_or("transport", to_string(node.transport.kind));
  }
  settle_sockets(node.transport, node.nic_vendor, node.nic_bandwidth);
  const bool tcp = node.transport.kind == NicTransport::Kind::tcp;
  node.nic_latency = map.seconds_or("nic_latency", tcp ? kTcpLatency : kRdmaLatency);
  if (const std::optional<Value> burst = map.optional("nic_burst")) {
    node.nic_burst = burst->as_bytes();
  }
}

}  // namespace

NicVendor read_nic_vendor(const Value& value) {
  const std::string vendor = value.as_choice({"amazon", "google", "other"});
  if (vendor == "other") return NicVendor::other;
  return vendor == "amazon" ? NicVendor::amazon : NicVendor::google;
}

Bytes read_memory(const Value& value) { return form::size_above_0().read(value); }

double read_speed(const Value& value) {
  constexpr double kMost = 1000;
  const double speed = value.as_positive_number();
  if (speed < 1 / kMost || speed > kMost)
    value.mistake(
        "GPUs are at least a thousandth and at most a thousand times as fast as their kind",
        "give 1 for GPUs that are as fast");
  return std::clamp(speed, 1 / kMost, kMost);
}

int read_cores(const Value& value) { return static_cast<int>(value.as_integer(1, kMostCores)); }

int read_nics(const Value& value, int gpus) {
  const auto nics = static_cast<int>(value.as_integer(1, kMostNics));
  const int most = std::max(1, gpus);
  if (nics > most) {
    value.fail(fmt::format("{} NICs for {} GPU{}; a GPU sends through one", nics, gpus,
                           gpus == 1 ? "" : "s"),
               fmt::format("nics: {}, and nic stays the rate of one: the others are idle", most));
  }
  return nics;
}

namespace {

/// USD per node and hour.
double read_price(const Value& value) { return form::within(0, 1e6).read(value); }

}  // namespace

NodePrices read_own_prices(const Value& value) {
  NodePrices prices;
  if (!value.is_map()) {
    prices.on_demand = read_price(value);
    return prices;
  }
  Map map = value.as_map();
  prices.on_demand = read_price(map.require("on_demand"));
  if (const auto reserved = map.optional("reserved")) prices.reserved = read_price(*reserved);
  if (const auto spot = map.optional("spot")) prices.spot = read_price(*spot);
  map.finish();
  return prices;
}

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
  node.gpus = static_cast<int>(map.integer_or("gpus", 1, 0, kMostGpus));
  read_gpu_side(map, node);
  // A host's memory lets through at least what the host is taken to stage.
  const BytesPerSecond staged =
      node.pcie.staged_rate_stated ? BytesPerSecond(0) : node.pcie.staged_rate;
  node.pcie.host_bandwidth =
      map.bytes_per_second_or("host_bandwidth", std::max(kHostBandwidth, staged));
  if (const std::optional<Value> cores = map.optional("cores")) node.cores = read_cores(*cores);
  if (const std::optional<Value> launch = map.optional("host_launch"))
    node.host_launch = launch->as_seconds();
  read_network_side(map, node, needs_network);
  if (const std::optional<Value> price = map.optional("usd_per_hour"))
    node.prices = read_own_prices(*price);
  map.finish();
  return node;
}

}  // namespace rehearse::inline cluster
