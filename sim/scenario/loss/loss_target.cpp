#include "scenario/loss/loss_target.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "config/fields.hpp"
#include "scenario/loss/loss_method.hpp"
#include "scenario/token_keys.hpp"

namespace rehearse::inline scenario {
namespace {

using Asked = LossCost::Asked;

constexpr double kSameTarget = 0.0015;  ///< of an accuracy or a loss

Form<double> sample_form() {
  return {type::text("a count, such as 1.2M"),
          [](const Value& value) { return static_cast<double>(read_count_of(value)); }};
}

struct OwnRun {
  double batch = 0, samples = 0;
};
struct Target {
  std::optional<double> accuracy, loss;
  std::string workload;
  std::vector<OwnRun> runs;
};

Fields<Target> target_fields() {
  static const Fields<OwnRun> kRun = {
      required("batch", &OwnRun::batch, form::positive().in("samples"), "Of a step, all workers'."),
      required("samples", &OwnRun::samples, sample_form(), "That it took to the target.")};
  return {silent("accuracy", &Target::accuracy, form::within(1e-6, 1),
                 "As a share: of the reference points, or of your runs."),
          silent("loss", &Target::loss, form::positive(), "In nats, likewise."),
          silent("workload", &Target::workload, form_of<std::string>(),
                 "Whose reference points; else those of this network.", "MLPerf"),
          silent("runs", &Target::runs, form::list(form::map(kRun)),
                 "Two runs of your own, or more, to the same target at unlike batches.")};
}

std::string known_names() {
  std::string names;
  for (const Workload& one : known_workloads().workloads)
    names += (names.empty() ? "" : ", ") + one.name;
  return names;
}

const Workload* workload_named(const std::string& name) {
  for (const Workload& one : known_workloads().workloads)
    if (one.name == name) return &one;
  return nullptr;
}

void check_is_synchronous(const Value& value, const Scenario& scenario) {
  const bool plain =
      !scenario.strategy.local_sgd &&
      (server_in(scenario.strategy) == nullptr || server_in(scenario.strategy)->staleness == 0U);
  if (!plain)
    value.fail("reference points are of synchronous training alone",
               "curves of your own: convergence, or rehearse forecast");
}

LossCost cost_by_law(const Value& value, const std::vector<ReferencePoint>& points, double batch,
                     const std::string& whose, const std::string& unit) {
  const BatchLaw law(points, known_workloads().prior);
  if (!law.holds_at(batch))
    value.fail(
        fmt::format("{} reach from batches of {:.0f} to {:.0f}, twice beyond them, and a step "
                    "has {:.0f} samples",
                    whose, law.range().low, law.range().high, batch),
        "another batch, or `runs` of your own at this one");
  const Estimate<double> amount = law.amount(batch);
  return {.asked = Asked::target,
          .method = "synchronous",
          .unit = unit,
          .amount = amount,
          .parts = {},
          .line = fmt::format("{} take {:.3g} {} ({:.3g} to {:.3g}) to the target at this batch.",
                              whose, amount.value, unit, amount.low, amount.high)};
}

void check_target(const Value& value, const Target& target, const Workload& workload) {
  const bool same =
      (target.accuracy && workload.accuracy &&
       std::abs(*target.accuracy - *workload.accuracy) < kSameTarget) ||
      (target.loss && workload.loss && std::abs(*target.loss - *workload.loss) < kSameTarget) ||
      (!target.accuracy && !target.loss);
  if (!same)
    value.fail(
        fmt::format("the reference points of {} are to {}, and say nothing of another target",
                    workload.name, workload.target),
        "leave the number out, or give `runs` of your own to it");
}

/// Runs of one length, which say whether a batch gets there, not how soon.
LossCost cost_by_length(const Value& value, const FixedLength& length, double accuracy,
                        double batch, Scenario& scenario) {
  const std::optional<bool> reaches = length.reaches(batch, accuracy);
  const EndByBatch& near = end_near(length, batch);
  const std::string seen = fmt::format("{:.1f} % after {:.0f} epochs at batch {:.0f}",
                                       100 * near.accuracy, length.epochs, near.batch);
  if (!reaches)
    value.fail(fmt::format("nobody tells whether SGD comes to {:.1f} % at batch {:.0f} (it came to "
                           "{})",
                           100 * accuracy, batch, seen),
               "a batch that was tried, or LARS: train.to.workload: resnet50_lars");
  if (!*reaches)
    value.fail(
        fmt::format("SGD needs more than {:.0f} epochs for {:.1f} % at batch {:.0f}, or never "
                    "comes to it ({})",
                    length.epochs, 100 * accuracy, batch, seen),
        "a smaller batch, or LARS: train.to.workload: resnet50_lars");
  const Workload* const faster = workload_of(scenario.model.name);
  const double least =
      faster != nullptr ? BatchLaw(faster->points, known_workloads().prior).amount(batch).low : 0;
  set_samples(length.epochs * length.samples_per_epoch, scenario);
  return {
      .asked = Asked::target,
      .method = "synchronous",
      .unit = "epochs",
      .amount = Estimate<double>{length.epochs, std::min(length.epochs, std::max(1.0, least)),
                                 length.epochs},
      .parts = {},
      .line = fmt::format("SGD comes to {:.1f} % in {:.0f} epochs at this batch ({}); fewer may "
                          "do.",
                          100 * accuracy, length.epochs, seen)};
}

}  // namespace

const Workload* workload_of(const std::string& network) {
  for (const Workload& one : known_workloads().workloads)
    if (std::ranges::find(one.networks, network) != one.networks.end()) return &one;
  return nullptr;
}

const FixedLength* length_of(const Scenario& scenario) {
  const OptimizerKind kind = scenario.optimizer.kind;
  if (kind != OptimizerKind::sgd && kind != OptimizerKind::sgd_momentum) return nullptr;
  for (const FixedLength& one : known_workloads().lengths)
    if (std::ranges::find(one.networks, scenario.model.name) != one.networks.end()) return &one;
  return nullptr;
}

const EndByBatch& end_near(const FixedLength& length, double batch) {
  return *std::ranges::min_element(length.ends, {}, [&](const EndByBatch& end) {
    return std::abs(std::log(end.batch / batch));
  });
}

void set_samples(double samples, Scenario& scenario) {
  scenario.train.samples_per_epoch = static_cast<std::int64_t>(std::ceil(samples));
  scenario.train.epochs = 1;
  scenario.train.steps = std::nullopt;
}

LossCost cost_to(const Value& value, Scenario& scenario) {
  const Target target = read_fields(value, target_fields());
  const double batch = samples_per_step(scenario);
  check_is_synchronous(value, scenario);
  if (!target.runs.empty()) {
    std::vector<ReferencePoint> points;
    for (const OwnRun& run : target.runs)
      points.push_back({.batch = run.batch, .amount = run.samples});
    const auto [least, most] = std::ranges::minmax(points, {}, &ReferencePoint::batch);
    if (points.size() < 2 || least.batch == most.batch)
      value.fail("one batch says nothing of another", "two runs or more, at unlike batches");
    LossCost cost = cost_by_law(value, points, batch, "your runs", "samples");
    set_samples(cost.amount->value, scenario);
    return cost;
  }
  if (target.workload.empty() && target.accuracy)
    if (const FixedLength* const length = length_of(scenario))
      return cost_by_length(value, *length, *target.accuracy, batch, scenario);
  const Workload* const workload =
      target.workload.empty() ? workload_of(scenario.model.name) : workload_named(target.workload);
  if (workload == nullptr)
    value.fail(target.workload.empty() ? "no reference points are known of " + scenario.model.name
                                       : "no reference points are called " + target.workload,
               "`runs` of your own: two batches with the samples that each took; or one of " +
                   known_names());
  check_target(value, target, *workload);
  const auto each = workload->samples_of_unit();
  if (!each && !scenario.train.samples_per_epoch)
    value.fail("epochs of how many samples?", "add train.samples_per_epoch");
  LossCost cost = cost_by_law(value, workload->points, batch,
                              fmt::format("MLPerf's points of {} ({}, {})", workload->name,
                                          workload->optimizer, workload->target),
                              workload->unit);
  set_samples(cost.amount->value *
                  each.value_or(static_cast<double>(scenario.train.samples_per_epoch.value_or(1))),
              scenario);
  return cost;
}

std::vector<Key> target_keys(const std::string& prefix) { return keys_of(target_fields(), prefix); }

}  // namespace rehearse::inline scenario
