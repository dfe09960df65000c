#include "foreign/calibrate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/child_process.hpp"
#include "base/error.hpp"
#include "base/number.hpp"
#include "config/draft.hpp"
#include "predict/intervals/interval_errors.hpp"
#include "predict/measured_job.hpp"
#include "predict/predict.hpp"
#include "report/prediction_interval.hpp"

namespace rehearse::inline foreign {
namespace {

constexpr double kMostChange = 4;  ///< a factor: more is no calibration
constexpr double kProbe = 1.1;     ///< how far a number is moved to see what it does
constexpr double kClose = 1e-3;    ///< of the measured step
constexpr int kMostTrials = 24;
constexpr double kLeastEffect = 0.02;  ///< share of a change that a step must follow

/// A number of a scenario that may be scaled.
struct Knob {
  std::string key, name;
  double base = 0;
  std::string unit;
  double scale = 1;  ///< the number in that unit is base times this

  std::string value(double factor) const {
    return fmt::format("{:.6g}{}", base * factor * scale, unit);
  }
};

Draft drafted(const std::map<std::string, double>& shares) {
  Draft made;
  for (const auto& [name, share] : shares) made.entry(name, fmt::format("{:.4g}", share));
  return made;
}

class Predicted {
 public:
  Predicted(const std::filesystem::path& file, std::vector<std::string> overrides,
            const std::function<void(std::size_t)>& simulated)
      : file_(file), overrides_(std::move(overrides)), simulated_(simulated) {}

  /// Seconds of a step. A child's: SimGrid simulates once in a process.
  double operator()(const Knob* knob, double factor) const {
    const std::vector<std::string> all = with(knob, factor);
    ChildProcess child([&] {
      const Options options{.find_largest_batch = false, .intervals = false};
      const Report report = predict(read_question(file_, all), options).report;
      return fmt::format("{:.17g} {:.17g}", report.step_time.value(), report.mfu.value_or(0));
    });
    const std::string told = child.result();
    const std::size_t gap = told.find(' ');
    if (simulated_) simulated_(++count_);
    mfu_ = decimal_number(told.substr(gap + 1)).value_or(0);
    return decimal_number(told.substr(0, gap)).value_or(0);
  }

  /// It is of the last step asked for; 0 where that has none.
  double mfu() const { return mfu_; }

  /// Tells what the step's interval consists of, and what it is then for others.
  void tell_interval(const Knob& knob, double factor, SolvedNumber& solved) const {
    std::vector<std::string> all = with(&knob, factor);
    auto told = interval_with(all);
    solved.above = told.at(0);
    solved.shares = told.at(1);
    all.push_back("cluster.measured_steps=" + Draft::list({drafted(solved.shares)}).flow());
    solved.above_after = interval_with(all).at(0);
  }

 private:
  /// The end above, over the step, and the shares of its mechanisms.
  nlohmann::json interval_with(const std::vector<std::string>& overrides) const {
    ChildProcess child([&] {
      const Options options{.find_largest_batch = false};
      const Report report = predict(read_question(file_, overrides), options).report;
      nlohmann::json shares = nlohmann::json::object();
      for (const Mechanism& one : report.mechanisms)
        if (interval_errors(IntervalOf::times).contains(one.name)) shares[one.name] = one.share;
      const auto interval = interval_of(report, "step_time_s");
      return nlohmann::json{interval ? interval->high / report.step_time.value() : 1, shares}
          .dump();
    });
    return nlohmann::json::parse(child.result());
  }

  std::vector<std::string> with(const Knob* knob, double factor) const {
    std::vector<std::string> all = overrides_;
    if (knob != nullptr && factor != 1) all.push_back(knob->key + "=" + knob->value(factor));
    return all;
  }

  std::filesystem::path file_;
  std::vector<std::string> overrides_;
  const std::function<void(std::size_t)>& simulated_;
  mutable std::size_t count_ = 0;
  mutable double mfu_ = 0;
};

/// Finds these in a scenario's machines.
std::vector<Knob> knobs_of(const Scenario& scenario, const std::string& cluster) {
  const Node& node = scenario.cluster.groups.front().node;
  std::vector<Knob> knobs = {{cluster + "speed", "the GPUs' speed", node.speed, "", 1}};
  if (scenario.cluster.node_count() > 1 && node.nics > 0)
    knobs.push_back({cluster + "nic", "the rate of the links between nodes",
                     node.nic_bandwidth.value(), "Gbps", 8e-9});
  if (node.nvlink && node.gpus > 1)
    knobs.push_back(
        {cluster + "nvlink", "the rate of NVLink", node.nvlink->bandwidth.value(), "GBps", 1e-9});
  const Seconds launch = scenario.run.efficiency.host_launch.value_or(
      node.host_launch.value_or(scenario.run.efficiency.host_operator()));
  knobs.push_back(
      {"run.efficiency.host_launch", "the host's time for an operator", launch.value(), "us", 1e6});
  return knobs;
}

/// The factor at which the step takes as long: the secant of the logarithms, within a bracket that
/// bisection closes where it does not help. A step gets longer or shorter with a number, and never
/// both. `slope` is what the step follows of a change.
double solved_factor(const Predicted& predicted, const Knob& knob, double step_time, double before,
                     double slope) {
  const auto off = [&](double factor) {
    return std::log(predicted(&knob, std::exp(factor)) / step_time);
  };
  const double most = std::log(kMostChange);
  double low = -most, high = most;
  double last = 0, last_off = std::log(before / step_time);
  double next = std::clamp(-last_off / slope, low, high);
  for (int trial = 0; trial < kMostTrials; ++trial) {
    const double now = off(next);
    if (std::abs(now) < kClose / 4) return std::exp(next);
    if (std::abs(next) >= most && (now > 0) == (last_off > 0)) break;
    ((now > 0) == (slope > 0) ? high : low) = next;
    const double rise = next != last ? (now - last_off) / (next - last) : 0;
    last = next;
    last_off = now;
    next = rise != 0 ? next - now / rise : (low + high) / 2;
    if (next <= low || next >= high) next = std::abs(last) < most ? (low + high) / 2 : last / 2;
    if (high - low < kClose / 4) return std::exp(next);
  }
  throw InputError(fmt::format(
      "rehearse: error: no {} from a quarter to four times the scenario's gives a step of {:.6g} "
      "s\n"
      "remedy: look at what the scenario says of the model, the batch and the software",
      knob.name, step_time));
}

/// A measured step in which the GPUs would compute faster than their datasheet's peak is none of
/// this scenario.
void check_below_peak(const Predicted& predicted, double before, double step_time,
                      const std::string& file) {
  const double mfu = predicted.mfu() * before / step_time;
  if (mfu <= 1) return;
  throw InputError(
      fmt::format("{}: error: a step of {:.6g} s would be {:.0f} % of the GPUs' peak (MFU)\n"
                  "remedy: look at the batch, the number of GPUs, the network and its sequence: "
                  "the log is of less work, or of more GPUs",
                  file, step_time, 100 * mfu));
}

}  // namespace

MeasuredRun measured_run(const TrainingLog& log, const Scenario& scenario) {
  MeasuredRun run;
  run.gpus = scenario.cluster.gpu_count();
  run.tokens = static_cast<double>(scenario.model.tokens_per_sample);
  run.samples = log.global_batch ? static_cast<double>(*log.global_batch) : 0;
  run.allocated_bytes = log.allocated_bytes;
  run.reserved_bytes = log.reserved_bytes;
  if (!log.tflops_per_gpu.empty()) run.tflops_per_gpu = steady_part(log.tflops_per_gpu).median;
  const std::vector<double>& entries = !log.step_times.empty()      ? log.step_times
                                       : !log.samples_per_s.empty() ? log.samples_per_s
                                                                    : log.tokens_per_s_per_gpu;
  if (entries.empty()) return run;
  const SteadyPart steady = steady_part(entries);
  run.steps = steady.count;
  run.spread = steady.spread;
  run.warming_up = steady.first;
  const double own = static_cast<double>(make_schedule(scenario).samples_per_iteration);
  if (run.samples > 0 && own > 0 &&
      std::abs(run.samples - own) > std::max(0.5, log.batch_error * own))
    throw InputError(
        fmt::format("{}: error: the log has {:g} samples in a step, and the scenario {:g}\n"
                    "remedy: --set train.global_batch={{sequences: {:g}}}",
                    scenario.file, run.samples, own, run.samples));
  run.samples = own;
  if (!log.step_times.empty())
    run.step_time = steady.median;
  else if (!log.samples_per_s.empty())
    run.step_time = own / steady.median;
  else if (run.tokens > 0)
    run.step_time = own * run.tokens / static_cast<double>(run.gpus) / steady.median;
  return run;
}

SolvedNumber solve_number(const std::filesystem::path& file,
                          const std::vector<std::string>& overrides, double step_time,
                          const std::function<void(std::size_t)>& simulated) {
  const auto document = Document::load(file)->with_overrides(overrides);
  const Scenario scenario = read_question(*document);
  const Map cluster = document->root().as_map().require("cluster").as_map();
  if (scenario.cluster.groups.size() > 1)
    throw InputError(
        fmt::format("{}: error: one number cannot tell what groups of unlike nodes are off by\n"
                    "remedy: calibrate on machines of one kind",
                    scenario.file));
  const Predicted predicted(file, overrides, simulated);
  const std::vector<Knob> knobs =
      knobs_of(scenario, cluster.has("use") ? "cluster." : "cluster.node.");
  SolvedNumber solved;
  solved.before = predicted(nullptr, 1);
  check_below_peak(predicted, solved.before, step_time, scenario.file);
  const Knob* most = nullptr;
  double effect = kLeastEffect;
  std::string others;
  for (const Knob& knob : knobs) {
    const double change = std::log(predicted(&knob, kProbe) / solved.before) / std::log(kProbe);
    others +=
        fmt::format("{}{} {:.0f} %", others.empty() ? "" : ", ", knob.name, 100 * std::abs(change));
    if (std::abs(change) <= std::abs(effect)) continue;
    effect = change;
    most = &knob;
  }
  if (most == nullptr)
    throw InputError(
        fmt::format("{}: error: a step depends on none of these: {}", scenario.file, others));
  solved.key = most->key;
  solved.factor = solved_factor(predicted, *most, step_time, solved.before, effect);
  solved.value = most->value(solved.factor);
  solved.after = predicted(most, solved.factor);
  predicted.tell_interval(*most, solved.factor, solved);
  solved.why = fmt::format("of a change of each, the step follows: {}", others);
  return solved;
}

std::string used_cluster(const Document& scenario) {
  Map cluster = scenario.root().as_map().require("cluster").as_map();
  const auto use = cluster.optional("use");
  return use ? use->as_string() : "";
}

std::string site_text(const std::string& cluster, const std::string& key, const std::string& value,
                      const std::vector<std::map<std::string, double>>& measured_steps,
                      const std::string& source) {
  std::string text =
      "# What runs tell of these machines: a scenario names this file as its cluster's `use`.\n";
  Draft site;
  site.set("use", cluster).entry(key, value);
  if (!measured_steps.empty()) {
    text +=
        "# measured_steps: shares of the steps' errors, which narrow the intervals of others.\n";
    std::vector<Draft> steps;
    for (const auto& step : measured_steps) steps.push_back(drafted(step));
    site.set("measured_steps", Draft::list(std::move(steps)));
  }
  return fmt::format("{}# {}\n{}", text, source, site.block());
}

}  // namespace rehearse::inline foreign
