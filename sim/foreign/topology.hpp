#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rehearse::inline foreign {

/// One node, as a file describes it.
struct NodeTopology {
  std::string what;  ///< "an output of `nvidia-smi topo -m`"
  int gpus = 0;
  std::optional<int> nvlinks{};  ///< of each GPU; 0: none, or not as many of each
  /// The same to all others together. Behind a switch it is more than a GPU has.
  int nvlinks_to_all = 0;
  std::optional<int> nics{};
  std::optional<double> nic_gbps{};     ///< of one NIC
  std::optional<double> pcie_gbytes{};  ///< of a GPU's link, in one direction
  std::optional<int> cores{};
  std::string pci_device{};           ///< of the GPUs: "0x10de:0x2330"; empty: it is not told
  std::vector<std::string> paths{};   ///< what joins GPUs without links, one sentence each
  std::vector<std::string> untold{};  ///< what could not be told, one sentence each
};

/// Reads an output of `nvidia-smi topo -m`, NCCL_TOPO_DUMP_FILE's XML, or lstopo's XML. InputError
/// where the text is none of these or has no GPU; `name` stands for the file.
NodeTopology read_topology(std::string_view text, const std::string& name);

/// A cluster file of one such node, whose GPUs are `gpu` of `list gpus`: links at that GPU's rate
/// each.
std::string cluster_text(const NodeTopology& node, const std::string& gpu, const std::string& name);

/// The GPU of a PCI device (platforms/devices.yaml); empty: it is not known.
std::string gpu_of_pci_device(const std::string& device);

}  // namespace rehearse::inline foreign
