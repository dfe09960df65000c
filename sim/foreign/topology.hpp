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
  std::optional<int> nvlinks{};  ///< of each GPU; 0: none
  std::optional<int> nics{};
  std::optional<double> nic_gbps{};     ///< of one NIC
  std::optional<double> pcie_gbytes{};  ///< of a GPU's link, in one direction
  std::optional<int> cores{};
  std::vector<std::string> untold{};  ///< what could not be told, one sentence each
};

/// Reads an output of `nvidia-smi topo -m`, NCCL_TOPO_DUMP_FILE's XML, or lstopo's XML. InputError
/// where the text is none of these or has no GPU; `name` stands for the file.
NodeTopology read_topology(std::string_view text, const std::string& name);

/// A cluster file of one such node, whose GPUs are `gpu` of `list gpus`.
std::string cluster_text(const NodeTopology& node, const std::string& gpu, const std::string& name);

}  // namespace rehearse::inline foreign
