#include "cli/machine_calibration.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <ctime>

#include "base/error.hpp"
#include "base/stop_signal.hpp"
#include "cli/comm_calibration.hpp"
#include "cli/compute_command.hpp"
#include "cli/machine_files.hpp"
#include "config/whole_file.hpp"
#include "launch/run_ranks.hpp"
#include "measure/timed_optimizer.hpp"
#include "models/networks.hpp"

namespace rehearse::inline calibrate {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kDefaultMinutes = 3;
/// Starting processes, filling memory and writing files are not in the estimates.
constexpr double kUsable = 0.85;
/// Of what is usable, where collectives are measured as well.
constexpr double kComputeShare = 0.5;
/// The sweep's repetitions; the rest of its time is for collectives beside compute.
constexpr double kRepetitionShare = 0.6;
const std::vector<Bytes> kOverlapped = {Bytes(1024.0 * 1024), Bytes(16.0 * 1024 * 1024)};

/// The calibration of one machine, from what its folder holds already.
class MachineCalibration {
 public:
  MachineCalibration(const MachineRequest& request, const Invocation& invocation)
      : request_(request), invocation_(invocation), machine_(survey_machine(request.survey)) {
    folder_ = request.output.empty() ? std::filesystem::path("calibrated") / machine_.slug()
                                     : request.output;
    for (const std::string& model : models()) {
      for (const std::string& precision : precisions()) jobs_.push_back(job(model, precision));
    }
    const double minutes = request.minutes > 0
                               ? request.minutes
                               : kDefaultMinutes * static_cast<double>(std::max<std::size_t>(
                                                       1, machine_.on_gpu ? jobs_.size() : 1));
    usable_ = Seconds(60 * minutes * kUsable);
  }

  void run() {
    const auto launcher = rank_environment_of_launcher();
    if (launcher && launcher->world_size > 1) {
      throw InputError(
          "error: a launcher started several processes, and this measures one machine by itself\n"
          "remedy: run it without the launcher; comm and step work under one");
    }
    fmt::print("{}: {} {} of {} host {} each; {} in {}; into {}\n", machine_.device, machine_.ranks,
               machine_.ranks == 1 ? "rank" : "ranks", machine_.threads,
               machine_.threads == 1 ? "thread" : "threads", fmt::join(models(), ", "),
               fmt::join(precisions(), ", "), folder_.string());
    std::fflush(stdout);
    if (request_.dry_run) return print_plan();
    catch_stop_signals();
    try {
      measure();
    } catch (const Error&) {
      if (stop_signal() != 0) fail_as_stopped(folder_.string() + " holds what was measured");
      throw;
    }
    fmt::print("cluster: {}\nNow predict its training:\n./rehearse run {}\n",
               (folder_ / "cluster.yaml").string(), (folder_ / "scenario.yaml").string());
  }

 private:
  std::vector<std::string> models() const {
    if (!request_.models.empty()) return request_.models;
    if (!machine_.on_gpu) return {"small_cnn"};
    return {"vgg16",          "resnet50", "densenet121", "efficientnet_v2_l",
            "convnext_large", "gpt2",     "bert_large"};
  }
  std::vector<std::string> precisions() const {
    if (!request_.precisions.empty()) return request_.precisions;
    return machine_.on_gpu ? std::vector<std::string>{"fp32", "tf32", "bf16"}
                           : std::vector<std::string>{"fp32"};
  }

  ComputeCommand job(const std::string& model, const std::string& precision) const {
    ComputeCommand one;
    one.plan.model = model;
    one.plan.shape = request_.shape;
    one.plan.batches = request_.batches;
    one.plan.optimizers = timed_optimizers();
    one.precision = precision;
    one.threads = machine_.threads;
    one.output = folder_ / "compute" / (model + sample_suffix() + "_" + precision + ".yaml");
    one.cpu = !machine_.on_gpu;
    one.quiet = request_.quiet;
    return one;
  }

  /// Profiles of one model on unlike samples are unlike files.
  std::string sample_suffix() const {
    if (request_.shape.image > 0) return fmt::format("_image{}", request_.shape.image);
    if (request_.shape.sequence > 0) return fmt::format("_seq{}", request_.shape.sequence);
    return "";
  }

  CommRequest sweep() const {
    CommRequest request;
    request.nproc = machine_.ranks;
    request.threads = machine_.threads;
    request.sweep.sizes = default_sweep_sizes();
    request.sweep.overlapped = kOverlapped;
    request.name = machine_.slug();
    request.output = folder_ / "comm.yaml";
    request.cpu = !machine_.on_gpu;
    request.quiet = request_.quiet;
    return request;
  }

  Seconds elapsed() const {
    return Seconds(std::chrono::duration<double>(Clock::now() - begin_).count());
  }
  /// The part of the whole that takes `time`, of `left` that is still to come.
  ProgressSpan span(Seconds time, Seconds left) const {
    const Seconds whole = elapsed() + std::max(time, left);
    return {elapsed() / whole, (elapsed() + time) / whole, begin_};
  }

  void print_plan() {
    for (ComputeCommand one : jobs_) {
      one.dry_run = true;
      one.budget = compute_time();
      in_child(one);
    }
    if (machine_.ranks > 1) print_comm_plan(sweep());
    fmt::print("in all:      within {}, for which repetitions are left out where need be\n",
               format(usable_ / kUsable));
  }

  /// Of each model and precision.
  Seconds compute_time() const {
    const double share = machine_.ranks > 1 ? kComputeShare : 1;
    return usable_ * (share / static_cast<double>(jobs_.size()));
  }

  void in_child(ComputeCommand& one) {
    const RunLimits limits{.stop = [] { return stop_signal() != 0; }};
    collect_from_ranks(
        1,
        [&](const RankEnvironment&) {
          measure_what_fits(one);
          return std::string();
        },
        limits);
  }

  /// A GPU holds only so large a batch.
  void measure_what_fits(ComputeCommand& one) const {
    for (;;) {
      try {
        return run_compute(one, invocation_);
      } catch (const MissingError&) {
        if (!machine_.on_gpu || one.plan.batches.size() < 2) throw;
        one.plan.batches.pop_back();
      }
    }
  }

  void measure() {
    const Seconds each = compute_time();
    for (std::size_t i = 0; i < jobs_.size(); ++i) {
      ComputeCommand& one = jobs_[i];
      one.budget = each;
      one.span = span(each, usable_ - each * static_cast<double>(i));
      in_child(one);
    }
    MachineCluster cluster;
    cluster.machine = machine_;
    if (machine_.ranks > 1) cluster.comm = measure_comm();
    if (machine_.ranks == 1) cluster.copies = survey_copies(machine_);
    cluster.source =
        fmt::format("{}, {:%F}", invocation_.command_line, fmt::gmtime(std::time(nullptr)));
    const ComputeProfile profile =
        read_compute_profile(Document::load(jobs_.front().output)->root());
    cluster.rates = profile.rates;
    write_whole_file(folder_ / "cluster.yaml", cluster_file(cluster));
    write_whole_file(folder_ / "scenario.yaml", scenario_file(profile));
  }

  /// A sweep that was finished once is not measured again, however few repetitions it had time for.
  SweepResult measure_comm() {
    CommRequest request = sweep();
    const std::filesystem::path file = samples_file(request.output);
    if (std::filesystem::exists(file)) {
      const SweepSamples kept = sweep_samples_from_json(read_whole_file(file), file);
      if (kept.finished) {
        request.sweep.repetitions = kLeastSweepRepetitions;
        request.sweep.copies = false;
      }
    }
    const Seconds left = std::max(usable_ - elapsed(), usable_ * 0.1);
    request.sweep.limit = left * kRepetitionShare;
    request.span = span(left, left);
    return *calibrate_comm(request, invocation_);
  }

  const MachineRequest& request_;
  const Invocation& invocation_;
  Clock::time_point begin_ = Clock::now();
  MachineSurvey machine_;
  std::filesystem::path folder_;
  std::vector<ComputeCommand> jobs_;
  Seconds usable_;  ///< of the whole
};

/// Before anything is measured.
void check_models(const MachineRequest& request) {
  for (const std::string& model : request.models) {
    try {
      for (const std::int64_t batch : request.batches)
        check_batch(model, request.shape, batch, "--batches");
    } catch (const std::invalid_argument& error) {
      throw InputError(fmt::format("error: --model: {}", error.what()));
    }
  }
}

}  // namespace

void calibrate_machine(const MachineRequest& request, const Invocation& invocation) {
  check_models(request);
  MachineCalibration(request, invocation).run();
}

}  // namespace rehearse::inline calibrate
