#include "launch/rank_environment.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cstdlib>
#include <string_view>

#include "base/error.hpp"

namespace rehearse::inline calibrate {
namespace {

/// The names under which one launcher tells a process who it is.
struct Launcher {
  const char* name;
  const char* rank;
  const char* world_size;
  const char* local_rank;
  const char* local_world_size;
};

// In this order, because mpirun inside a Slurm job sees Slurm's variables too. srun alone sets the
// number of tasks of a step: a batch script has SLURM_PROCID without being a rank.
constexpr std::array<Launcher, 4> kLaunchers = {{
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"},
    {"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", nullptr},
    {"mpiexec", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
}};

constexpr int kFirstSlurmPort = 20000;
constexpr int kSlurmPorts = 20000;
constexpr int kLastPort = 65535;

/// Reads the environment of one process on behalf of one launcher.
class Variables {
 public:
  Variables(const EnvironmentLookup& lookup, const char* launcher)
      : lookup_(lookup), launcher_(launcher) {}

  std::string text(const char* name) const {
    const char* value = name == nullptr ? nullptr : lookup_(name);
    return value == nullptr ? std::string() : std::string(value);
  }

  int required_number(const char* name) const {
    if (text(name).empty()) {
      throw InputError(
          fmt::format("error: {} started this process, but {} is not set", launcher_, name));
    }
    return number(name, 0);
  }

  int number(const char* name, int fallback) const {
    const std::string value = text(name);
    if (value.empty()) return fallback;
    int result = 0;
    const char* end = value.data() + value.size();
    const auto [stop, error] = std::from_chars(value.data(), end, result);
    if (error != std::errc() || stop != end || result < 0) {
      throw InputError(fmt::format("error: {}: expected a number from 0; got \"{}\"", name, value));
    }
    return result;
  }

 private:
  const EnvironmentLookup& lookup_;
  const char* launcher_;
};

std::string master_address(const Variables& variables, const RankEnvironment& ranks) {
  if (const auto given = variables.text("MASTER_ADDR"); !given.empty()) return given;
  if (ranks.local_world_size == ranks.world_size) return "127.0.0.1";
  const auto nodes = variables.text("SLURM_STEP_NODELIST");
  if (!nodes.empty()) return first_host(nodes);
  throw InputError(
      "error: the ranks are on several nodes and MASTER_ADDR is not set; export the address of "
      "rank "
      "0's node, for example mpirun -x MASTER_ADDR=node1");
}

int master_port(const Variables& variables, int fallback) {
  // Ranks of one job agree on a port from its number, and two jobs on a node rarely collide.
  const int job = variables.number("SLURM_JOB_ID", 0);
  if (job > 0) fallback = kFirstSlurmPort + job % kSlurmPorts;
  int port = variables.number("MASTER_PORT", fallback);
  if (variables.text("TORCHELASTIC_USE_AGENT_STORE") == "True") ++port;
  if (port < 1 || port > kLastPort) {
    throw InputError(fmt::format("error: MASTER_PORT: expected 1 to {}; got {}", kLastPort, port));
  }
  return port;
}

RankEnvironment read(const Variables& variables, const Launcher& launcher) {
  RankEnvironment ranks;
  ranks.rank = variables.required_number(launcher.rank);
  ranks.world_size = variables.required_number(launcher.world_size);
  ranks.local_rank = variables.number(launcher.local_rank, ranks.rank);
  const int on_node = tasks_on_node(variables.text("SLURM_STEP_TASKS_PER_NODE"),
                                    variables.number("SLURM_NODEID", 0));
  ranks.local_world_size =
      variables.number(launcher.local_world_size, on_node > 0 ? on_node : ranks.world_size);
  if (ranks.rank >= ranks.world_size || ranks.local_rank >= ranks.local_world_size) {
    throw InputError(fmt::format("error: {} says rank {} of {}, {} of {} on this node",
                                 launcher.name, ranks.rank, ranks.world_size, ranks.local_rank,
                                 ranks.local_world_size));
  }
  ranks.master_address = master_address(variables, ranks);
  ranks.master_port = master_port(variables, ranks.master_port);
  return ranks;
}

/// The number that `text` begins with; zero where it begins with none.
int leading_number(std::string_view text) {
  int value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

}  // namespace

std::string first_host(const std::string& slurm_node_list) {
  const auto bracket = slurm_node_list.find('[');
  const auto comma = slurm_node_list.find(',');
  if (comma < bracket || bracket == std::string::npos) return slurm_node_list.substr(0, comma);
  const auto first_end = slurm_node_list.find_first_of("-,]", bracket);
  const auto close = slurm_node_list.find(']', bracket);
  std::string suffix;
  if (close != std::string::npos) {
    const auto after = slurm_node_list.find(',', close);
    suffix =
        slurm_node_list.substr(close + 1, after == std::string::npos ? after : after - close - 1);
  }
  return slurm_node_list.substr(0, bracket) +
         slurm_node_list.substr(bracket + 1, first_end - bracket - 1) + suffix;
}

int tasks_on_node(const std::string& slurm_tasks_per_node, int node) {
  for (std::size_t begin = 0; begin < slurm_tasks_per_node.size();) {
    const auto end = std::min(slurm_tasks_per_node.find(',', begin), slurm_tasks_per_node.size());
    const std::string_view part(slurm_tasks_per_node.data() + begin, end - begin);
    const auto times = part.find("(x");
    const int nodes = times == std::string_view::npos ? 1 : leading_number(part.substr(times + 2));
    if (node < nodes) return leading_number(part);
    node -= nodes;
    begin = end + 1;
  }
  return 0;
}

std::optional<RankEnvironment> rank_environment_of_launcher(const EnvironmentLookup& lookup) {
  for (const Launcher& launcher : kLaunchers) {
    const Variables variables(lookup, launcher.name);
    const bool present =
        !variables.text(launcher.rank).empty() && !variables.text(launcher.world_size).empty();
    // torchrun's names are common words: one of them alone may be a mistake, never another
    // launcher.
    const bool half =
        &launcher == &kLaunchers.front() &&
        variables.text(launcher.rank).empty() != variables.text(launcher.world_size).empty();
    if (present || half) return read(variables, launcher);
  }
  return std::nullopt;
}

std::optional<RankEnvironment> rank_environment_of_launcher() {
  return rank_environment_of_launcher([](const char* name) { return std::getenv(name); });
}

}  // namespace rehearse::inline calibrate
