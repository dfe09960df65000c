#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "profile/collective_kind.hpp"

namespace rehearse::inline profile {

/// The ranks of one run of nccl-tests, as its `# Rank` lines or its JSON `devices` list them.
class NcclDevices {
 public:
  struct Device {
    int rank = 0;
    int group = 0;
    long pid = 0;
    std::string host;
    std::string device;  ///< number and bus: two ranks of one host have unlike ones
    std::string model;
  };

  /// False if this rank is listed already: processes that do not know of one another.
  bool add(const Device& device);
  void set_ranks_per_process(int ranks) { per_process_ = ranks; }

  bool empty() const { return hosts_.empty(); }
  /// Ranks of the first group (NCCL_TESTS_SPLIT makes several, whose collectives run beside one
  /// another). Versions up to 2.17 list only the first rank of each process in JSON: the processes
  /// count too.
  int ranks() const;
  /// Hosts by name, each as often as one of its devices is listed: machines that call themselves
  /// alike (containers, "localhost") list the same devices again.
  int nodes() const;
  /// Whether every rank of a host that lists a device again calls its own device number 0: then
  /// nothing tells ranks of one node from nodes of one rank.
  bool nodes_are_open() const;
  /// One more than the highest rank listed: more than ranks() where the list was shortened.
  int highest() const { return listed_.empty() ? 0 : *listed_.rbegin() + 1; }
  const std::string& model() const { return model_; }

 private:
  std::set<int> listed_;
  std::map<std::string, std::map<std::string, int>> hosts_;  ///< host -> device -> times listed
  std::set<std::pair<std::string, long>> processes_;
  int in_first_group_ = 0;
  int per_process_ = 1;
  bool split_ = false;
  std::string model_;
};

/// The first program of nccl-tests that `text` names: "all_reduce_perf" in
/// "mpirun -np 8 /opt/nccl-tests/build/all_reduce_perf_mpi -b 8". Empty if there is none.
std::string program_in(const std::string& text);

/// The collective that a program of nccl-tests measures. Nothing for those that no profile holds
/// (alltoallv_perf, gather_perf, scatter_perf, hypercube_perf) and for other words.
std::optional<CollectiveKind> collective_of_program(const std::string& program);

}  // namespace rehearse::inline profile
