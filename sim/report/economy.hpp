#pragma once

#include <optional>
#include <string>
#include <vector>

#include "economy/goodput.hpp"
#include "economy/start.hpp"
#include "report/anatomy.hpp"
#include "report/basis.hpp"
#include "report/run_facts.hpp"

namespace rehearse::inline report {

/// Size of a checkpoint, and how long the job takes to write and read one.
struct Checkpoint {
  Bytes size{};  ///< parameters and the optimizer's state
  int writers = 1;
  bool read_by_all = true;  ///< every node reads all of it
  Seconds write{}, read{};
};
/// Times that are given, else bytes over what the storage and the nodes that use it reach. Sharded
/// parameters (FSDP) are written by all nodes, those of a parameter server by its servers, and
/// replicated ones by rank 0; these are read whole by every node.
Checkpoint checkpoint_of(const Scenario& scenario);

/// The training that a scenario with `failures` describes.
economy::Interruptions interruptions_of(const Scenario& scenario, const Report& report,
                                        std::optional<double> speed_without_one);

/// The whole training in expectation: with neither failures nor a start, `train_time` and no more.
struct Course {
  std::optional<StartForecast> start{};
  std::optional<economy::Interruptions> job{};
  Seconds interval{};  ///< between checkpoints, where there is a job
  Goodput goodput{};
};
/// Needs the report's times.
Course course_of_run(const RunFacts& facts, const Report& report);

/// The report's parts; `lines` takes what they rest on.
std::optional<GoodputReport> goodput_report(const RunFacts& facts, const Report& report,
                                            const Course& course, std::vector<std::string>& lines);
std::optional<StartReport> start_report(const Scenario& scenario, const Report& report,
                                        const Course& course);
/// Mean power over a step, from what each rank does.
std::optional<EnergyReport> energy_report(const Basis& basis, const Report& report,
                                          std::vector<std::string>& lines);
/// Nothing where the length of the training is not known.
std::optional<CostReport> cost_report(const Scenario& scenario, const Report& report,
                                      const Course& course, std::vector<std::string>& lines);

}  // namespace rehearse::inline report
