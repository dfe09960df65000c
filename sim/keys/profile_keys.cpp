#include "keys/keys.hpp"
#include "profile/profile_keys.hpp"

namespace rehearse::inline keys {
namespace {

constexpr const char* kCompute = "src/profile/read_compute_profile.cpp";
constexpr const char* kComm = "src/profile/comm_profile_file.cpp";

}  // namespace

std::vector<KeySection> profile_keys() {
  return {
      {"comm_profile/", "A profile of collectives (`calibrate comm`, `import`)", "measured", kComm,
       comm_profile_keys()},

      {"comm_profile/links.", "Links of a profile", "datasheets", "src/profile/comm_links.cpp",
       {{"nvlink", "data rate", "-", "NVLink per GPU and direction."},
        {"nvlink_latency", "time", "600 ns", "Its latency.", "NCCL"},
        {"pcie", "data rate", "24.0 GB/s", "PCIe per GPU and direction."},
        {"pcie_latency", "time", "1.00 us", "Its latency.", "NCCL"},
        {"pcie_peer_to_peer", "true or false", "true", "As of a node."},
        {"staged_rate", "data rate", "21.0 GB/s", "As of a node."},
        {"nic", "data rate", "-", "Rate of one NIC."},
        {"nics", "integer >= 1", "1", "NICs of a node."},
        {"nic_latency", "time", "(5 us or 25 us)", "From NIC to NIC."},
        {"transport", "as cluster.node.transport", "(by the rate)", "As of a node."}}},

      {"compute_profile/", "A compute profile (`calibrate compute`)", "measured", kCompute,
       compute_profile_keys()}};
}

}  // namespace rehearse::inline keys
