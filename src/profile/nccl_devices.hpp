#pragma once

#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "profile/collective_kind.hpp"

namespace rehearse {

/// The ranks of one run of nccl-tests, as its `# Rank` lines or its JSON `devices` list them.
class NcclDevices {
 public:
  struct Device {
    int rank = 0;
    int group = 0;
    long pid = 0;
    std::string host;
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
  int nodes() const { return static_cast<int>(hosts_.size()); }
  const std::string& model() const { return model_; }

 private:
  std::set<int> listed_;
  std::set<std::string> hosts_;
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
/// (alltoall_perf, gather_perf, ...) and for other words.
std::optional<CollectiveKind> collective_of_program(const std::string& program);

}  // namespace rehearse
