#include "cli/machine_files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/error.hpp"
#include "base/quoting.hpp"
#include "profile/yaml_text.hpp"

namespace rehearse::inline calibrate {
namespace {

/// The rate of the largest message between two ranks; nothing where none was measured.
std::optional<BytesPerSecond> peer_rate(const MachineCluster& cluster) {
  if (!cluster.comm) return std::nullopt;
  std::optional<BytesPerSecond> rate;
  Bytes largest;
  for (const SweepPoint& point : cluster.comm->points) {
    if (point.kind != CollectiveKind::send_recv || point.size < largest) continue;
    largest = point.size;
    rate = point.size / point.median;
  }
  return rate;
}

/// The best rate of a copy between host and device; nothing on CPUs.
std::optional<BytesPerSecond> copy_rate(const MachineCluster& cluster) {
  std::vector<SweepCopy> copies = cluster.copies;
  if (cluster.comm) {
    copies.insert(copies.end(), cluster.comm->copies.begin(), cluster.comm->copies.end());
  }
  std::optional<BytesPerSecond> best;
  for (const SweepCopy& copy : copies) {
    const BytesPerSecond rate = copy.size / copy.median;
    if (!best || rate > *best) best = rate;
  }
  return best;
}

std::string gpu_text(const MachineCluster& cluster) {
  const DeviceRates& rates = cluster.rates;
  std::string text =
      fmt::format("    name: {}\n    fp32: {}\n", yaml_quoted(cluster.machine.device),
                  yaml_flops_per_second(rates.fp32));
  const std::pair<const char*, FlopsPerSecond> kFormats[] = {
      {"tf32", rates.tf32}, {"fp16", rates.fp16}, {"bf16", rates.bf16}};
  for (const auto& [name, rate] : kFormats) {
    if (rate > FlopsPerSecond(0)) {
      fmt::format_to(std::back_inserter(text), "    {}: {}\n", name, yaml_flops_per_second(rate));
    }
  }
  // Ranks on a CPU share its memory.
  const Bytes memory = cluster.machine.on_gpu ? rates.memory : rates.memory / cluster.machine.ranks;
  fmt::format_to(std::back_inserter(text),
                 "    memory: {}\n    memory_bandwidth: {}\n    source: measured\n"
                 "    profiles: compute\n",
                 yaml_bytes(memory), yaml_bytes_per_second(rates.memory_bandwidth));
  return text;
}

std::string links_text(const MachineCluster& cluster) {
  const auto peers = peer_rate(cluster), copies = copy_rate(cluster);
  std::string text;
  const auto add = [&](const char* key, BytesPerSecond rate) {
    fmt::format_to(std::back_inserter(text), "  {}: {}\n", key, yaml_bytes_per_second(rate));
  };
  if (copies && peers && *peers > *copies) add("nvlink", *peers);
  if (copies || peers) add("pcie", copies ? *copies : *peers);
  // Every byte that is staged is written and read.
  if (!cluster.machine.on_gpu) add("host_bandwidth", cluster.rates.memory_bandwidth / 2);
  return text;
}

}  // namespace

std::string cluster_file(const MachineCluster& cluster) {
  std::string text = fmt::format("source: {}\nnodes: 1\nnode:\n  gpus: {}\n  gpu:\n{}{}",
                                 yaml_quoted(cluster.source), cluster.machine.ranks,
                                 gpu_text(cluster), links_text(cluster));
  text += "fabric: {star: {}}\n";
  if (cluster.comm) text += "comm_profile: comm.yaml\n";
  return text;
}

std::string scenario_file(const ComputeProfile& profile) {
  check(!profile.points.empty(), "a profile that was measured has points");
  std::string model = fmt::format(
      "use: {}, {}: {}, batch_per_gpu: {}", profile.model, profile.image > 0 ? "image" : "sequence",
      profile.image > 0 ? profile.image : profile.sequence, profile.points.back().batch);
  if (profile.precision != Precision::fp32) model += ", precision: " + to_string(profile.precision);
  return fmt::format("model: {{{}}}\ncluster: {{use: cluster.yaml}}\nstrategy: {{ddp: {{}}}}\n",
                     model);
}

}  // namespace rehearse::inline calibrate
