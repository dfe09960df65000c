#include "profile/nccl_devices.hpp"

#include <algorithm>
#include <cctype>

namespace rehearse::inline profile {
namespace {

struct Program {
  const char* name;
  std::optional<CollectiveKind> kind;
};

/// A name that ends in another one stands before it (all_gather, gather).
const Program kPrograms[] = {{"all_reduce", CollectiveKind::all_reduce},
                             {"all_gather", CollectiveKind::all_gather},
                             {"reduce_scatter", CollectiveKind::reduce_scatter},
                             {"broadcast", CollectiveKind::broadcast},
                             {"sendrecv", CollectiveKind::send_recv},
                             {"alltoall", CollectiveKind::all_to_all},
                             {"alltoallv", {}},
                             {"gather", {}},
                             {"scatter", {}},
                             {"reduce", CollectiveKind::reduce},
                             {"hypercube", {}}};

}  // namespace

bool NcclDevices::add(const Device& device) {
  if (!listed_.insert(device.rank).second) return false;
  if (device.group != 0) {
    split_ = true;
    return true;
  }
  ++in_first_group_;
  ++hosts_[device.host][device.device];
  processes_.insert({device.host, device.pid});
  if (model_.empty()) model_ = device.model;
  return true;
}

int NcclDevices::ranks() const {
  const int of_processes = static_cast<int>(processes_.size()) * per_process_;
  return split_ ? in_first_group_ : std::max(in_first_group_, of_processes);
}

int NcclDevices::nodes() const {
  int nodes = 0;
  for (const auto& [host, devices] : hosts_) {
    int times = 1;
    for (const auto& [device, listed] : devices) times = std::max(times, listed);
    nodes += times;
  }
  return nodes;
}

bool NcclDevices::nodes_are_open() const {
  return std::any_of(hosts_.begin(), hosts_.end(), [](const auto& host) {
    return host.second.size() == 1 && host.second.begin()->second > 1;
  });
}

std::string program_in(const std::string& text) {
  for (std::size_t end = text.find("_perf"); end != std::string::npos;
       end = text.find("_perf", end + 1)) {
    for (const Program& program : kPrograms) {
      const std::string name = program.name;
      if (end < name.size() || text.compare(end - name.size(), name.size(), name) != 0) continue;
      const bool whole = end == name.size() ||
                         !std::isalpha(static_cast<unsigned char>(text[end - name.size() - 1]));
      if (whole) return name + "_perf";
    }
  }
  return {};
}

std::optional<CollectiveKind> collective_of_program(const std::string& program) {
  for (const Program& known : kPrograms) {
    if (program == std::string(known.name) + "_perf") return known.kind;
  }
  return std::nullopt;
}

}  // namespace rehearse::inline profile
