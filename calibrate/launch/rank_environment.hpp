#pragma once

#include <functional>
#include <optional>
#include <string>

namespace rehearse::inline calibrate {

/// Where ranks of one node reach each other, and nobody else does.
inline constexpr const char* kLoopback = "127.0.0.1";

/// Who a training process is among all that train together, and where they meet.
struct RankEnvironment {
  int rank = 0;
  int world_size = 1;
  int local_rank = 0;  ///< among the ranks of this node: which GPU is its own
  int local_world_size = 1;
  std::string master_address = "127.0.0.1";  ///< where rank 0 listens
  int master_port = 29500;
  std::string store_file = {};  ///< where ranks of one node meet instead; empty: at the master
  /// Where LibTorch's store listens on rank 0; empty: at every address of the node.
  std::string store_address = {};
  /// This node's address as the others reach it; empty: whatever its name resolves to.
  std::string own_address = {};
};

/// Looks up an environment variable; null where it is not set. `getenv` but for tests.
using EnvironmentLookup = std::function<const char*(const char*)>;

/// Rank that torchrun, mpirun, srun or MPICH's mpiexec states in the environment; none where no
/// launcher started this process. Throws InputError where a launcher's variables are incomplete or
/// wrong.
std::optional<RankEnvironment> rank_environment_of_launcher(const EnvironmentLookup& lookup);

/// The same from this process's own environment. Where torchrun's own agent holds the port that it
/// names (TORCHELASTIC_USE_AGENT_STORE), the ranks meet at the next one.
std::optional<RankEnvironment> rank_environment_of_launcher();

/// The first host of a Slurm list of nodes: "gpu[003-007,9],cpu1" begins with "gpu003".
std::string first_host(const std::string& slurm_node_list);

/// How many tasks the node of that index has in Slurm's "4(x2),3": 4, 4 and 3. Zero where unknown.
int tasks_on_node(const std::string& slurm_tasks_per_node, int node);

}  // namespace rehearse::inline calibrate
