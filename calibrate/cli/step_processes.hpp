#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "convergence/update_file.hpp"
#include "launch/rank_environment.hpp"
#include "replay/training.hpp"
#include "train/step_run.hpp"

namespace rehearse::inline calibrate {

/// Training steps across processes that end in a report.
struct StepCommand {
  StepRunOptions run;
  std::string precision = "fp32";
  int nproc = 2;
  int servers = 1;
  std::uint64_t staleness = 1;
  int backup_workers = 0;
  bool dedicated_server = false;  ///< rank 0's node is the servers' alone
  double timeout = 300;
  std::string slow;  ///< RANK:MS
  double jitter_ms = 0;
  double weight_decay = 0;
  Mitigation mitigation;
  DatasetOptions data;           ///< its folder empty: random data
  std::filesystem::path curve;   ///< of a run on real data
  std::uint64_t eval_every = 0;  ///< updates between two points of it

  /// Options of the training, as a replay states them.
  TrainingOptions training() const;
  /// Where the server keeps its snapshots until the curve is made of them.
  std::filesystem::path snapshots() const;
  std::filesystem::path output;
  bool dry_run = false, quiet = false;
};

/// Ranks, and how many nodes a launcher started them on.
struct Ranks {
  std::optional<RankEnvironment> self;  ///< this process, where a launcher started it
  int count = 1, nodes = 1;
  bool dedicated_server = false;  ///< rank 0 trains nothing: its node serves

  /// Ranks that train. Where a node serves, the launcher's ranks from 1 count from 0 again.
  int trainers() const { return dedicated_server ? count - 1 : count; }
};

/// Ranks of the launcher that started this process, else the command's own. InputError where
/// servers are to have a node of their own and there is none.
Ranks ranks_of(const StepCommand& command);

/// Trainers, and the servers behind them; the servers are processes of rank 0's node.
class StepProcesses {
 public:
  /// InputError where the command's options do not fit together.
  StepProcesses(const StepCommand& command, const Ranks& placed);

  /// Trains. False where another process of the launcher has the results. Throws as
  /// collect_from_team() does.
  bool run();

  std::vector<RankSteps> ranks;
  std::vector<ServerResult> servers;

  /// Updates that the servers applied, once they have.
  RunUpdates updates() const;

 private:
  std::string listen(const std::string& address);
  std::string work_of(const RankEnvironment& self, const std::string& announced);

  RankSteps train(const RankEnvironment& trainer, const std::string& announced);

  const StepCommand& command_;
  const Ranks& placed_;
  std::optional<ServerMode> mode_;
  int slow_rank_ = -1;
  Seconds delay_;  ///< of the slow rank's steps
  std::vector<Socket> listening_;
};

}  // namespace rehearse::inline calibrate
