#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/quantity.hpp"
#include "cli/output.hpp"
#include "study/sweep.hpp"
#include "validation/summary.hpp"

namespace rehearse {

/// `rehearse run SCENARIO`: simulates one scenario and prints its report.
struct RunCommand {
  std::filesystem::path scenario;
  std::vector<std::string> overrides;     ///< "cluster.nodes=8", in order
  std::string format = "table";           ///< table, json or csv
  std::filesystem::path output;           ///< empty: standard output
  std::filesystem::path trace;            ///< Chrome trace; empty: none
  std::filesystem::path updates;          ///< a parameter server's updates; empty: none
  int traces = 1;                         ///< of updates, run.seed and so many less one after it
  std::filesystem::path memory_snapshot;  ///< of rank 0, for PyTorch's memory_viz; empty: none
  bool advice = false;                    ///< single changes that take less memory, even if it fits
  std::string fail_unless;                ///< "fits" or "may_fit"; empty: nothing is asked
  std::filesystem::path html;             ///< a page that shows the run; empty: none
  bool quiet = false;
  bool dry_run = false;
  bool replay = false;  ///< the launcher's: this program refuses it
  ColorChoice color = ColorChoice::automatic;
};
/// An Error (ExitCode::refuted) where what --fail-unless asks for does not hold.
void run_command(const RunCommand& command);

/// `rehearse model NAME | CONFIG`: what a network is made of, without a simulation.
struct ModelCommand {
  std::filesystem::path model;     ///< a built-in one's name, or a Hugging Face config.json
  std::int64_t sequence = 0;       ///< tokens; 0: the network's own
  std::int64_t image = 0;          ///< pixels per side; 0: the network's own
  std::string precision = "bf16_pure";
  std::string format = "table";    ///< table or json
  std::filesystem::path output;    ///< empty: standard output
};
void model_command(const ModelCommand& command);

/// `rehearse check FILE...`: all that is wrong in files, without a simulation.
struct CheckCommand {
  std::vector<std::filesystem::path> files;
  bool quiet = false;  ///< nothing about files without mistakes
};
/// An Error that says what is wrong in any of them: ExitCode::input, or ExitCode::missing where
/// files are missing alone.
void check_command(const CheckCommand& command);

/// `rehearse explain SCENARIO`: what bounds the step, and what would change it.
struct ExplainCommand {
  std::filesystem::path scenario;
  std::vector<std::string> overrides;  ///< "cluster.nodes=8", in order
  std::string format = "table";        ///< table, json or csv
  std::filesystem::path output;        ///< empty: standard output
  std::filesystem::path trace;         ///< Chrome trace with the critical path; empty: none
  std::filesystem::path html;          ///< a page that shows the explanation; empty: none
  double more = 0.1;                   ///< of each resource: 0.1 for 10 %
  int workers = 4;                     ///< slow ones that are asked about, one by one
  int jobs = 0;                        ///< simulations side by side; 0: one per core
  bool quiet = false;
  ColorChoice color = ColorChoice::automatic;
};
void explain_command(const ExplainCommand& command);

/// `rehearse forecast CURVE...`: what staleness does to accuracy, from a few runs.
struct ForecastCommand {
  std::vector<std::filesystem::path> curves;
  std::filesystem::path scenario;      ///< simulated for its pace and staleness; empty: none
  std::vector<std::string> overrides;  ///< of the scenario
  bool whole_run = false;              ///< its steps are all of the training's
  std::string staleness;               ///< "3.5" or "0:10,1:20"; empty: none
  std::optional<double> learning_rate, momentum, samples_per_update;  ///< nothing: most curves'
  std::optional<Seconds> at;                                          ///< when the accuracy is told
  std::optional<double> samples;                                      ///< likewise, in samples
  std::optional<double> accuracy;                                     ///< to be reached, as a share
  std::optional<double> delay_compensation;                           ///< lambda; nothing: none
  bool best_bound = false;                                            ///< compare staleness bounds
  bool mitigations = false;      ///< compare with what may help
  int jobs = 0;                  ///< simulations side by side; 0: one per core
  std::string format = "table";  ///< table, json or csv
  std::filesystem::path output;  ///< empty: standard output
  std::filesystem::path html;    ///< a page that shows the forecast; empty: none
  ColorChoice color = ColorChoice::automatic;
};
void forecast_command(const ForecastCommand& command);

/// `rehearse curves CURVE...`: how runs end that differ by chance alone.
struct CurvesCommand {
  std::vector<std::filesystem::path> curves;
  std::string format = "table";  ///< table, json or csv
  std::filesystem::path output;  ///< empty: standard output
  std::filesystem::path html;    ///< a page that shows them; empty: none
  ColorChoice color = ColorChoice::automatic;
};
void curves_command(const CurvesCommand& command);

/// `rehearse collective`: the table of nccl-tests that is predicted of a cluster.
struct CollectiveCommand {
  std::string kind = "all_reduce";
  std::string cluster;  ///< a shipped one, or a .yaml file
  std::optional<int> nodes, gpus_per_node;
  std::vector<std::string> changes;  ///< "nic: 25Gbps", as beside `use:`
  Bytes smallest{8}, largest{8.0 * 1024 * 1024 * 1024};
  std::string format = "table";  ///< table, json or csv
  std::filesystem::path output;  ///< empty: standard output
};
void collective_command(const CollectiveCommand& command);

/// `rehearse list WHAT`: a name and a line about each; of keys their whole reference.
struct ListCommand {
  std::string what;             ///< one of list_names()
  std::string prefix;           ///< of keys: how they begin
  std::string format = "text";  ///< of keys: text or markdown
};
const std::vector<std::string>& list_names();
void list_command(const ListCommand& command);

/// `rehearse import nccl-tests FILE...` and `rehearse import points FILE...`: a communication
/// profile from measurements.
struct ImportCommand {
  std::string form;  ///< "nccl-tests" or "points"
  std::vector<std::filesystem::path> files;
  std::string name, hardware, source;  ///< empty: as the files say
  std::string links;                   ///< of the machine, a YAML map; empty: not known
  std::string collective;              ///< what an nccl-tests log leaves out; empty: it says so
  std::optional<int> ranks, nodes;
  bool in_place = false;
  std::filesystem::path output;  ///< empty: standard output
};
void import_command(const ImportCommand& command);

/// `rehearse validate [SET...]`: predictions beside measurements, with their errors.
struct ValidateCommand {
  std::vector<std::filesystem::path> files;  ///< sets, as case_files() takes them; none: overview
  std::vector<std::string> metrics;          ///< only these; none: all
  std::string format = "table";              ///< table, json, csv or markdown
  std::filesystem::path output;              ///< empty: standard output
  std::filesystem::path html;                ///< a page that shows the comparison; empty: none
  ErrorBounds bounds;                        ///< an Error (ExitCode::refuted) beyond them
  int jobs = 0;                              ///< child processes side by side; 0: one per core
  bool quiet = false;
  bool live = false;  ///< the launcher's: this program refuses it
  ColorChoice color = ColorChoice::automatic;
};
void validate_command(const ValidateCommand& command);

/// `rehearse sweep STUDY`: simulates every point of a study.
struct SweepCommand {
  std::filesystem::path study;
  std::vector<std::string> overrides;  ///< of its scenario, "train.epochs=3"
  std::string format = "table";        ///< table, json or csv
  std::filesystem::path output;        ///< a folder; empty: STUDY.results, here
  std::filesystem::path html;          ///< a page that shows the study; empty: none
  int jobs = 0;                        ///< simulations side by side; 0: one per core
  std::optional<Seconds> timeout;      ///< of each
  std::optional<Bytes> memory;         ///< likewise
  std::filesystem::path cache;         ///< results that studies share; empty: none
  std::optional<Shard> shard;
  std::string launcher = "local";  ///< or "slurm"
  int tasks = 0;                   ///< of the array job; 0: as many as are sensible
  std::vector<std::string> slurm_options;
  bool wait = true;         ///< for the array job
  bool resume = false;  ///< InputError if nothing is there to go on with
  bool fresh = false;   ///< without what is there
  std::string fail_unless;  ///< of every point: as RunCommand's
  bool quiet = false;
  bool dry_run = false;
  ColorChoice color = ColorChoice::automatic;
};
void sweep_command(const SweepCommand& command);

/// `rehearse plan PLAN`: searches what a study may choose from, and ranks what is feasible.
struct PlanCommand {
  std::filesystem::path plan;
  std::vector<std::string> overrides;  ///< of its scenario, "train.epochs=3"
  std::string format = "table";        ///< table, json or csv
  std::filesystem::path output;        ///< a folder; empty: PLAN.plan, here
  std::filesystem::path html;          ///< a page that shows the plan; empty: none
  int jobs = 0;                        ///< simulations side by side; 0: one per core
  int top = 10;                        ///< of the ranking, in the table
  bool fresh = false;                  ///< without what is there
  bool quiet = false;
  bool dry_run = false;
  ColorChoice color = ColorChoice::automatic;
};
/// An Error (ExitCode::refuted) where nothing is feasible.
void plan_command(const PlanCommand& command);

/// `rehearse collect OUTPUT [INPUT...]`: brings the results of shards together.
struct CollectCommand {
  std::filesystem::path output;               ///< a folder
  std::vector<std::filesystem::path> inputs;  ///< folders or files; none: the shards in `output`
  std::string format = "table";               ///< table, json or csv
  std::filesystem::path html;                 ///< a page that shows the study; empty: none
  bool quiet = false;
  ColorChoice color = ColorChoice::automatic;
};
void collect_command(const CollectCommand& command);

}  // namespace rehearse
