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
       {{"nvlink", type::data_rate(), "-", "NVLink per GPU and direction."},
        {"nvlink_latency", type::time(), "600 ns", "Its latency.", "NCCL"},
        {"pcie", type::data_rate(), "24.0 GB/s", "PCIe per GPU and direction."},
        {"pcie_latency", type::time(), "1.00 us", "Its latency.", "NCCL"},
        {"pcie_peer_to_peer", type::flag(), "true", "As of a node."},
        {"staged_rate", type::data_rate(), "21.0 GB/s", "As of a node."},
        {"nic", type::data_rate(), "-", "Rate of one NIC."},
        {"nics", type::integer(1), "1", "NICs of a node."},
        {"nic_latency", type::time(), "(5 us or 25 us)", "From NIC to NIC."},
        {"transport", type::like("cluster.node.transport"), "(by the rate)", "As of a node."}}},

      {"compute_profile/", "A compute profile (`calibrate compute`)", "measured", kCompute,
       compute_profile_keys()}};
}

}  // namespace rehearse::inline keys
