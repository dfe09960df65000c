#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "launch/rank_end.hpp"
#include "launch/rank_environment.hpp"

namespace rehearse::inline calibrate {

/// The work of one rank in a process of its own; its text goes to the process that started it.
using RankWork = std::function<std::string(const RankEnvironment&)>;

/// Ranks as child processes of this one. Those that still run when this object goes, or when this
/// process dies, are killed.
class ChildRanks {
 public:
  ChildRanks() = default;
  ~ChildRanks() { kill_running(); }
  ChildRanks(const ChildRanks&) = delete;
  ChildRanks& operator=(const ChildRanks&) = delete;

  /// Forks one more. MissingError where there is no process or pipe for it.
  void start(const RankEnvironment& environment, const RankWork& work);
  /// Until something comes from a child, or for so long.
  void wait(std::chrono::milliseconds limit);
  /// Asks the running ones to stop where their files are whole: SIGUSR1.
  void ask_to_stop();
  void kill_running();

  bool any_running() const;
  bool any_failed() const;
  /// In the order of their starts.
  std::vector<RankEnd> ends() const;

 private:
  struct Child {
    pid_t process = -1;
    int result = -1;  ///< the reading end of its pipe; closed and -1 once it has ended
    RankEnd end;
    bool running() const { return result >= 0; }
  };
  static void receive(Child& child);
  static void reap(Child& child);

  std::vector<Child> children_;
};

}  // namespace rehearse::inline calibrate
