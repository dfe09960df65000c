#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "base/data_folder.hpp"
#include "base/error.hpp"
#include "cluster/parts.hpp"
#include "kernels/kernel_curves.hpp"

namespace rehearse::inline cluster {
namespace {

const char* const kGpuFile = "gpus.yaml";

std::shared_ptr<const Document> gpu_document() {
  return Document::load(platforms_folder() / kGpuFile);
}

std::string describe_links(const Node& node) {
  if (node.gpus < 2) return "";
  if (node.nvlink) return fmt::format(", NVLink {}", format(node.nvlink->bandwidth));
  const char* const staged_or_not = node.pcie.peer_to_peer ? "" : " through host memory";
  return fmt::format(", PCIe {}{}", format(node.pcie.bandwidth), staged_or_not);
}

std::string describe(const NodeGroup& group) {
  const Node& node = group.node;
  const std::string gpus =
      node.gpus == 0 ? "CPU node" : fmt::format("{} {}", node.gpus, node.gpu.name);
  std::string text = fmt::format("{} x {}{}", group.nodes, gpus, describe_links(node));
  if (node.nics > 0) text += fmt::format(", {} x NIC {}", node.nics, format(node.nic_bandwidth));
  return text;
}

/// "; 55.04 USD/h"; nothing: no price on demand.
std::string describe_price(const Cluster& cluster) {
  const Node& node = cluster.groups.front().node;
  if (cluster.groups.size() != 1 || !node.prices.on_demand) return "";
  return fmt::format("; {:.2f} USD a node and hour", *node.prices.on_demand);
}

std::vector<std::filesystem::path> cluster_files() {
  const std::filesystem::path folder = platforms_folder() / "clusters";
  if (!std::filesystem::is_directory(folder)) {
    throw MissingError(platforms_folder().string() +
                       ": no folder of platforms there; set REHEARSE_PLATFORMS to where it is");
  }
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().extension() == ".yaml") files.push_back(entry.path());
  std::ranges::sort(files);
  return files;
}

}  // namespace

std::vector<std::string> gpu_names() {
  std::vector<std::string> names = gpu_document()->root().as_map().keys();
  std::sort(names.begin(), names.end());
  return names;
}

std::shared_ptr<const KernelCurves> known_curves(const std::string& name) {
  const std::filesystem::path file = platforms_folder() / "kernels" / (name + ".yaml");
  return std::filesystem::is_regular_file(file) ? read_kernel_curves(file) : nullptr;
}

Gpu known_gpu(const std::string& name) {
  const std::shared_ptr<const Document> document = gpu_document();
  Map gpus = document->root().as_map();
  Gpu gpu = read_gpu(gpus.require(name));
  gpu.name = name;
  if (const auto own = known_curves(name)) gpu.curves = own;
  const std::filesystem::path profiles = compute_profiles_folder() / name;
  if (gpu.profiles.empty() && std::filesystem::is_directory(profiles)) {
    gpu.profiles = profiles.string();
  }
  return gpu;
}

std::vector<std::string> cluster_names() {
  std::vector<std::string> names;
  for (const std::filesystem::path& file : cluster_files())
    std::ranges::move(Document::load(file)->root().as_map().keys(), std::back_inserter(names));
  std::sort(names.begin(), names.end());
  return names;
}

std::optional<Value> shipped_cluster(const std::string& name) {
  std::vector<std::filesystem::path> files = cluster_files();
  // Mostly a name begins with its file's, so that one file is read.
  std::stable_partition(files.begin(), files.end(), [&name](const std::filesystem::path& file) {
    return name.starts_with(file.stem().string());
  });
  for (const std::filesystem::path& file : files)
    if (auto cluster = Document::load(file)->root().as_map().optional(name)) return cluster;
  return std::nullopt;
}

std::string describe_cluster(const std::string& name) {
  const std::optional<Value> shipped = shipped_cluster(name);
  check(shipped.has_value(), "a cluster that is not shipped");
  Cluster cluster = read_cluster(*shipped);
  take_shipped_prices(name, cluster);
  std::string text;
  for (const NodeGroup& group : cluster.groups) {
    text += (text.empty() ? "" : "; ") + describe(group);
  }
  return text + "; " + fabric_name(cluster.fabric) + describe_price(cluster);
}

}  // namespace rehearse::inline cluster
