#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "report/economy.hpp"
#include "report/run_facts.hpp"
#include "scenario/sections.hpp"

namespace rehearse::inline report {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

/// Nodes that can be taken away: those with a spot price, or all where there are no prices.
double spot_nodes(const Cluster& cluster) {
  double priced = 0, spot = 0, all = 0;
  for (const NodeGroup& group : cluster.groups) {
    all += group.nodes;
    if (group.node.prices.any()) priced += group.nodes;
    if (group.node.prices.spot) spot += group.nodes;
  }
  return priced > 0 ? spot : all;
}

/// Of one node, on average over the cluster: the rates of failures and of preemptions add up.
Seconds mean_life(const Scenario& scenario) {
  const FailureOptions& failures = *scenario.failures;
  const auto nodes = static_cast<double>(scenario.cluster.node_count());
  double rate = failures.mtbf_per_node ? nodes / failures.mtbf_per_node->value() : 0;
  if (scenario.train.market == Market::spot && failures.mean_time_to_preemption) {
    rate += spot_nodes(scenario.cluster) / failures.mean_time_to_preemption->value();
  }
  return Seconds(rate > 0 ? nodes / rate : kNever);
}

Seconds time_of(Bytes size, int nodes, const CheckpointOptions& options) {
  double rate = kNever;
  if (options.storage) rate = options.storage->value();
  if (options.storage_per_node) rate = std::min(rate, options.storage_per_node->value() * nodes);
  return Seconds(size.value() / rate);
}

std::string checkpoint_line(const Checkpoint& checkpoint) {
  return fmt::format(
      "a checkpoint = {} of parameters and optimizer state, written by {} node{} in "
      "{}, read in {}",
      format(checkpoint.size), checkpoint.writers, checkpoint.writers == 1 ? "" : "s",
      format(checkpoint.write), format(checkpoint.read));
}

std::string speed_line(const economy::Interruptions& job, bool simulated) {
  return fmt::format("failures: {} of {} nodes are {:.4g} times as fast as all ({})", job.nodes - 1,
                     job.nodes, job.speed_without_one, simulated ? "simulated" : "by their number");
}

}  // namespace

Checkpoint checkpoint_of(const Scenario& scenario) {
  const CheckpointOptions& options = scenario.failures->checkpoint;
  const auto nodes = static_cast<int>(scenario.cluster.node_count());
  Checkpoint checkpoint;
  checkpoint.size = parameter_element(scenario.precision) *
                        static_cast<double>(scenario.model.trainable_parameters()) +
                    kept_of(scenario.optimizer, scenario.model);
  if (shards_parameters(scenario.strategy)) {
    checkpoint.writers = nodes;
    checkpoint.read_by_all = false;
  } else if (const auto* ps = server_in(scenario.strategy)) {
    checkpoint.writers = std::min(ps->servers, nodes);
    checkpoint.read_by_all = false;
  }
  const int readers = checkpoint.read_by_all ? nodes : checkpoint.writers;
  const Bytes all_read = checkpoint.size * (checkpoint.read_by_all ? nodes : 1);
  const bool rated = options.storage || options.storage_per_node;
  checkpoint.write =
      options.write ? *options.write : time_of(checkpoint.size, checkpoint.writers, options);
  checkpoint.read = options.read ? *options.read
                    : rated      ? time_of(all_read, readers, options)
                                 : checkpoint.write;
  return checkpoint;
}

economy::Interruptions interruptions_of(const Scenario& scenario, const Report& report,
                                        std::optional<double> speed_without_one) {
  const FailureOptions& failures = *scenario.failures;
  const Checkpoint checkpoint = checkpoint_of(scenario);
  const auto nodes = static_cast<int>(scenario.cluster.node_count());
  const bool asynchronous = failures.checkpoint.asynchronous;
  return {.work = *report.train_time,
          .nodes = nodes,
          .mean_life = mean_life(scenario),
          .shape = failures.weibull_shape,
          .detect = failures.detect,
          .restart = failures.restart,
          .read = checkpoint.read,
          .write = checkpoint.write,
          .asynchronous = asynchronous,
          .on_failure = failures.on_failure,
          .spares = failures.spares,
          .repair = failures.repair,
          .speed_without_one = nodes == 1 ? 1 : speed_without_one.value_or((nodes - 1.0) / nodes),
          .shortest_interval =
              asynchronous ? std::max(report.step_time, checkpoint.write) : report.step_time};
}

Course course_of_run(const RunFacts& facts, const Report& report) {
  const Scenario& scenario = facts.scenario;
  Course course;
  if (scenario.start) {
    course.start = forecast_start(*scenario.start, nodes_with_gpus(scenario.cluster));
  }
  const Seconds work = report.train_time.value_or(Seconds(0));
  if (!scenario.failures) {
    course.goodput = {
        .mean = {.total = work, .node_time = work * static_cast<double>(report.nodes)},
        .spread = {work, work},
        .exact = true};
    return course;
  }
  course.job = interruptions_of(scenario, report, facts.speed_without_one);
  const std::int64_t trainings = scenario.failures->trainings;
  const auto& asked = scenario.failures->checkpoint.interval;
  course.interval = asked ? std::max(*asked, course.job->shortest_interval)
                          : best_interval(*course.job, trainings, scenario.run.seed);
  course.goodput = expect_goodput(*course.job, course.interval, trainings, scenario.run.seed);
  return course;
}

std::optional<GoodputReport> goodput_report(const RunFacts& facts, const Report& report,
                                            const Course& course, std::vector<std::string>& lines) {
  if (!report.train_time || (!course.job && !course.start)) return std::nullopt;
  const TrainingTimes& mean = course.goodput.mean;
  const Seconds start = course.start ? course.start->delay : Seconds(0);
  GoodputReport goodput{.expected_time = mean.total + start,
                        .expected_time_spread = {course.goodput.spread.low + start,
                                                 course.goodput.spread.high + start},
                        .failures = mean.failures,
                        .checkpoints = mean.written,
                        .checkpoint_time = mean.checkpoints,
                        .lost = mean.lost,
                        .recovery = mean.recovery,
                        .waiting = mean.waiting,
                        .slower = mean.slower,
                        .start = start,
                        .exact = course.goodput.exact};
  goodput.share = *report.train_time / goodput.expected_time;
  if (!course.job) return goodput;
  const economy::Interruptions& job = *course.job;
  const FailureOptions& options = *facts.scenario.failures;
  goodput.trainings = options.trainings;
  goodput.checkpoint_interval = course.interval;
  goodput.checkpoint_write = job.write;
  goodput.job_mtbf = job.mean_time_between_failures();
  goodput.young = young_interval(job.write, goodput.job_mtbf);
  goodput.daly = daly_interval(job.write, goodput.job_mtbf);
  lines.push_back(checkpoint_line(checkpoint_of(facts.scenario)));
  if (options.checkpoint.interval && course.interval > *options.checkpoint.interval) {
    lines.push_back(
        fmt::format("failures.checkpoint.interval = {}: a step and a checkpoint in the "
                    "background take as long",
                    format(course.interval)));
  }
  if (job.on_failure == OnFailure::continue_with_fewer) {
    lines.push_back(speed_line(job, facts.speed_without_one.has_value()));
  }
  return goodput;
}

std::optional<StartReport> start_report(const Scenario& scenario, const Report& report,
                                        const Course& course) {
  if (!course.start) return std::nullopt;
  const StartForecast& start = *course.start;
  return StartReport{.elastic = scenario.start->elastic,
                     .first_step = start.first_step,
                     .all_there = start.all_there,
                     .all_there_spread = start.all_there_spread,
                     .delay = start.delay,
                     .samples_meanwhile = report.samples_per_s * start.done_meanwhile.value()};
}

}  // namespace rehearse::inline report
