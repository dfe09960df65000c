#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include <cmath>

#include "base/percentile.hpp"
#include "report/measures.hpp"
#include "report/run_facts.hpp"
#include "toy.hpp"

BOOST_AUTO_TEST_SUITE(summary_test)

using namespace toy;
namespace data = boost::unit_test::data;

namespace {

const auto kExact = boost::test_tools::tolerance(1e-12);

RunFacts facts_of(const Scenario& scenario, const Schedule& schedule, const Trace& trace) {
  return {.scenario = scenario,
          .schedule = schedule,
          .trace = trace,
          .fidelity = "flow",
          .provenance = "compute: fitted kernels; communication: links",
          .assumptions = {"an assumption"},
          .outside_calibration = {},
          .schedule_at_batch = {},
          .versions = {{"simgrid", "3.32.0"}}};
}

/// Warm-up 6 ms, then steps of 6, 7, 6 and 8 ms.
Report ddp_report(const Scenario& scenario) {
  const Schedule schedule = ddp_schedule(5);
  const Trace trace = ddp_trace({6, 12, 19, 25, 33});
  return summarize(facts_of(scenario, schedule, trace));
}

ParameterServer server(std::optional<std::uint32_t> staleness, int backup_workers = 0) {
  ParameterServer options;
  options.staleness = staleness;
  options.backup_workers = backup_workers;
  return options;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_percentile_lies_between_its_neighbours) {
  const std::vector<Seconds> values{Seconds(4), Seconds(1), Seconds(2)};
  BOOST_TEST(percentile(values, 0).value() == 1);
  BOOST_TEST(percentile(values, 0.5).value() == 2);
  BOOST_TEST(percentile(values, 0.75).value() == 3);
  BOOST_TEST(percentile(values, 1).value() == 4);
}

BOOST_AUTO_TEST_CASE(the_step_time_is_the_mean_of_the_measured_steps) {
  // 6, 6, 7, 8: mean 6.75, so that a thousand take 6.75 s; the 5th percentile stands at position
  // 0.15, the 95th at 2.85: 7.85.
  const Report report = ddp_report(scenario_with(TorchDdp{}));
  BOOST_TEST(report.step_time.value() == 6.75e-3, kExact);
  BOOST_TEST(report.step_time_spread.low.value() == 6e-3, kExact);
  BOOST_TEST(report.step_time_spread.high.value() == 7.85e-3, kExact);
}

BOOST_AUTO_TEST_CASE(a_step_ends_when_the_slowest_rank_does) {
  const Schedule schedule = ddp_schedule(2);
  Trace trace = ddp_trace({6, 12});
  trace.iteration_end[1][1] = ms(13);
  const Scenario toy_scenario = scenario_with(TorchDdp{});
  BOOST_TEST(summarize(facts_of(toy_scenario, schedule, trace)).step_time.value() == 7e-3, kExact);
}

BOOST_AUTO_TEST_CASE(throughput_is_of_the_samples_of_a_schedule) {
  // 2 ranks of 8 samples, 3 micro-batches: 48 samples in 6.75 ms.
  Schedule schedule = ddp_schedule(5);
  schedule.samples_per_iteration = 48;
  const Scenario toy_scenario = scenario_with(TorchDdp{.gradient_accumulation = 3});
  const Report report = summarize(facts_of(toy_scenario, schedule, ddp_trace({6, 12, 19, 25, 33})));
  BOOST_TEST(report.ranks == 2u);
  BOOST_TEST(report.global_batch == 48);
  BOOST_TEST(report.samples_per_s == 48 / 6.75e-3, kExact);
}

BOOST_AUTO_TEST_CASE(training_time_and_cost_follow_from_the_throughput) {
  // 16 samples in 6.75 ms: an epoch of 1.6e6 samples takes 675 s, 36 epochs 24,300 s = 6.75 h: 13.5
  // GPU hours, and 2 nodes at 10 USD an hour cost 135 USD.
  Scenario with_train = scenario_with(TorchDdp{});
  with_train.train = {.samples_per_epoch = 1'600'000, .epochs = 36, .steps = {}};
  const Report report = ddp_report(with_train);
  BOOST_TEST(report.epoch_time->value() == 675, kExact);
  BOOST_TEST(report.train_time->value() == 24300, kExact);
  BOOST_TEST(report.cost->gpu_hours == 13.5, kExact);
  BOOST_TEST(*report.cost->usd == 135, kExact);
}

BOOST_AUTO_TEST_CASE(steps_of_the_optimizer_are_a_length_too) {
  Scenario with_steps = scenario_with(TorchDdp{});
  with_steps.train = {.samples_per_epoch = {}, .epochs = {}, .steps = 1000};
  const Report report = ddp_report(with_steps);
  BOOST_TEST(!report.epoch_time.has_value());
  BOOST_TEST(report.train_time->value() == 6.75, kExact);
  BOOST_TEST(report.cost->gpu_hours == 2 * 6.75 / 3600, kExact);
}

BOOST_AUTO_TEST_CASE(a_breakdown_sums_to_its_step_and_samples_over_it_are_the_rate) {
  const Report report = ddp_report(scenario_with(TorchDdp{}));
  const Breakdown& parts = report.breakdown;
  BOOST_TEST((parts.compute + parts.exposed_communication + parts.idle).value() == 6.75e-3, kExact);
  BOOST_TEST(report.samples_per_s * report.step_time.value() == 16, kExact);
}

BOOST_AUTO_TEST_CASE(without_a_training_there_is_no_cost_and_without_a_price_no_sum) {
  Scenario toy_scenario = scenario_with(TorchDdp{});
  BOOST_TEST(!ddp_report(toy_scenario).cost.has_value());
  toy_scenario.train = {.samples_per_epoch = 1'600'000, .epochs = 36, .steps = {}};
  toy_scenario.cluster.groups[0].node.prices = {};
  const Report report = ddp_report(toy_scenario);
  BOOST_REQUIRE(report.cost.has_value());
  BOOST_TEST(!report.cost->usd.has_value());
}

BOOST_AUTO_TEST_CASE(mfu_is_the_models_flops_over_the_gpus_peak) {
  // 3 GFLOP a sample, 16 samples in 6.75 ms on 2 GPUs of 100 TFLOP/s.
  const Report report = ddp_report(scenario_with(TorchDdp{}));
  BOOST_TEST(*report.mfu == 3e9 * 16 / 6.75e-3 / 200e12, kExact);
}

BOOST_AUTO_TEST_CASE(mfu_of_convolutions_under_fp32_counts_against_tf32) {
  Scenario toy_scenario = scenario_with(TorchDdp{});
  toy_scenario.cluster.groups[0].node.gpu.tf32 = FlopsPerSecond(800e12);
  BOOST_TEST(*ddp_report(toy_scenario).mfu == 3e9 * 16 / 6.75e-3 / 200e12, kExact);
  toy_scenario.model.units[0].operators[0].kind = OperatorKind::convolution;
  BOOST_TEST(*ddp_report(toy_scenario).mfu == 3e9 * 16 / 6.75e-3 / 1600e12, kExact);
}

// The datasheet's peak, whatever a run told of these GPUs.
BOOST_AUTO_TEST_CASE(mfu_counts_against_the_datasheet_at_any_speed) {
  Scenario fast = scenario_with(TorchDdp{});
  fast.cluster.groups[0].node.speed = 1.5;
  BOOST_TEST(*ddp_report(fast).mfu == 3e9 * 16 / 6.75e-3 / 200e12, kExact);
}

BOOST_AUTO_TEST_CASE(mfu_counts_the_pairs_that_a_causal_mask_leaves) {
  // Of 4 x 4 pairs 10 are left. Megatron-LM's logs count all.
  Scenario causal = scenario_with(TorchDdp{});
  Operator& op = causal.model.units[0].operators[0];
  op.kind = OperatorKind::attention;
  op.product.rows = 4;
  op.masked = true;
  const Report report = ddp_report(causal);
  BOOST_TEST(*report.mfu_all_pairs == 3e9 * 16 / 6.75e-3 / 200e12, kExact);
  BOOST_TEST(*report.mfu == *report.mfu_all_pairs * 10 / 16, kExact);
  op.masked = false;
  op.tokens = 4;
  op.heads.causal = true;
  BOOST_TEST(*ddp_report(causal).mfu == *report.mfu, kExact);
  // A window of two keys: 2 of each query's, 1 of the first, where 4 x 2 were counted.
  op.heads.window = 2;
  BOOST_TEST(*ddp_report(causal).mfu == *report.mfu_all_pairs * 7 / 8, kExact);
}

BOOST_AUTO_TEST_CASE(given_times_have_no_mfu) {
  Scenario toy_scenario = scenario_with(TorchDdp{});
  toy_scenario.model.units[0].forward = Seconds(1e-3);
  BOOST_TEST(!ddp_report(toy_scenario).mfu.has_value());
}

BOOST_AUTO_TEST_CASE(utilization_is_the_computing_share_of_the_measured_steps) {
  // 2.75 ms of compute in each of the four steps, which take 27 ms together.
  BOOST_TEST(ddp_report(scenario_with(TorchDdp{})).gpu_utilization == 4 * 2.75 / 27, kExact);
}

BOOST_AUTO_TEST_CASE(memory_is_the_programs_peak_beside_the_cuda_context) {
  // 2 GB of parameters, 6 GB of activations and 2 GB of gradients at once, in backward. In segments
  // of whole 2 MiB: 2,000,683,008 B, whose rest is too small to be split off, twice, and
  // 6,002,049,024 B, whose rest of 2,049,024 B is.
  const Report report = ddp_report(scenario_with(TorchDdp{}));
  BOOST_REQUIRE(report.memory.has_value());
  BOOST_TEST(report.memory->allocated_peak.value() == 2 * 2'000'683'008.0 + 6e9);
  BOOST_TEST(report.memory->reserved_peak->value() == 10'003'415'040.0);
  BOOST_TEST(report.memory->fragmentation().value() == 2'049'024);
  BOOST_TEST(report.memory->shares.size() == 3u);
  BOOST_TEST((report.memory->shares[0].kind == MemoryKind::activations));
  BOOST_TEST(report.memory->peak_at == "backward");
  BOOST_TEST(report.memory->context.value() == 524288000);
  BOOST_TEST(report.memory->communicators.value() == 125829120);  // one, over the network
  BOOST_TEST(report.memory->fits);
  BOOST_TEST(report.assumptions.end()[-2] ==
             "CUDA context and libraries outside the allocator = 500 MiB");
  BOOST_TEST(report.assumptions.back() == "NCCL's buffers outside the allocator = 120 MiB");
}

constexpr double kNeeded = 10'003'415'040.0 + 524288000 + 125829120;

BOOST_DATA_TEST_CASE(it_fits_exactly_if_the_context_and_nccl_fit_too,
                     data::make({kNeeded - 1, kNeeded}) ^ data::make({false, true}), capacity,
                     fits) {
  Scenario toy_scenario = scenario_with(TorchDdp{});
  toy_scenario.cluster.groups[0].node.gpu.memory = Bytes(capacity);
  const MemoryReport memory = *ddp_report(toy_scenario).memory;
  BOOST_TEST(memory.fits == fits);
  BOOST_TEST(memory.out_of_memory.has_value() == !fits);
  if (!fits) BOOST_TEST(memory.out_of_memory->at == "backward");
}

BOOST_AUTO_TEST_CASE(of_unlike_gpus_the_one_with_the_least_room_is_reported) {
  Scenario toy_scenario = scenario_with(TorchDdp{});
  NodeGroup small = toy_scenario.cluster.groups[0];
  small.node.gpu.memory = Bytes(9e9);
  small.nodes = toy_scenario.cluster.groups[0].nodes = 1;
  toy_scenario.cluster.groups.push_back(small);
  const Report report = ddp_report(toy_scenario);
  BOOST_TEST(report.memory->capacity.value() == 9e9);
  BOOST_TEST(!report.memory->fits);
}

BOOST_AUTO_TEST_CASE(the_largest_batch_is_the_last_that_fits) {
  // 4.0014 GB and 0.75 GB a sample in 80 GB - 620 MiB: (80 - 0.6501 - 4.0014) / 0.75 = 100.5
  // samples.
  const Scenario toy_scenario = scenario_with(TorchDdp{});
  const Schedule schedule = ddp_schedule(2);
  const Trace trace = ddp_trace({6, 12});
  RunFacts facts = facts_of(toy_scenario, schedule, trace);
  facts.schedule_at_batch = [](std::int64_t batch) {
    Schedule other = ddp_schedule(2);
    const Bytes activations(0.75e9 * static_cast<double>(batch));
    other.programs[0].tensors[1].size = activations;
    return other;
  };
  BOOST_TEST(*summarize(facts).memory->largest_batch_per_gpu == 100);
}

namespace {

/// The answer by trying every batch.
std::optional<std::int64_t> by_trying(const std::function<Bytes(std::int64_t)>& room) {
  std::int64_t batch = 0;
  while (room(batch + 1) >= Bytes(0)) ++batch;
  return batch == 0 ? std::nullopt : std::optional(batch);
}

}  // namespace

BOOST_DATA_TEST_CASE(the_search_agrees_with_trying_every_batch_from_any_start,
                     data::make({1, 7, 64, 1000, 100000}) * data::make({-1.0, 3.0, 500.0, 5000.0}),
                     start, free) {
  // Linear, bent at 100 samples (another kernel's workspace), and in stairs of 8 samples.
  const auto linear = [=](std::int64_t b) { return Bytes(free - 3.5 * static_cast<double>(b)); };
  const auto bent = [=](std::int64_t b) {
    return Bytes(free - static_cast<double>(b) -
                 (b > 100 ? 2.0 * static_cast<double>(b - 100) : 0));
  };
  const auto stairs = [=](std::int64_t b) {
    return Bytes(free - 20 * static_cast<double>((b + 7) / 8));
  };
  BOOST_TEST((largest_batch(linear, start) == by_trying(linear)));
  BOOST_TEST((largest_batch(bent, start) == by_trying(bent)));
  BOOST_TEST((largest_batch(stairs, start) == by_trying(stairs)));
}

BOOST_AUTO_TEST_CASE(where_memory_is_linear_four_probes_find_the_largest_batch) {
  int probes = 0;
  const auto room = [&](std::int64_t batch) {
    ++probes;
    return Bytes(1e6 - 10.0 * static_cast<double>(batch));
  };
  BOOST_TEST(*largest_batch(room, 64) == 100000);
  BOOST_TEST(probes == 4);
}

BOOST_AUTO_TEST_CASE(a_parameter_servers_step_is_one_workers_iteration_and_all_workers_count) {
  // Two workers, saturated: an iteration every 2 ms each, so 8 samples a millisecond.
  const Scenario toy_scenario = scenario_with(server(std::nullopt));
  const Schedule schedule = server_schedule(2, 6);
  const Trace trace = saturated_trace(2, 6);
  const Report report = summarize(facts_of(toy_scenario, schedule, trace));
  BOOST_TEST(report.step_time.value() == 2e-3, kExact);
  BOOST_TEST(report.samples_per_s == 8e3, kExact);
  BOOST_TEST(report.strategy == "ps asp");
  BOOST_TEST(report.staleness->mean == 1);
  BOOST_TEST(
      (report.breakdown.compute + report.breakdown.exposed_communication + report.breakdown.idle)
              .value() == 2e-3,
      kExact);
}

BOOST_AUTO_TEST_CASE(unlike_workers_add_up_their_own_rates) {
  // Worker 0 takes 10 ms an iteration and ends at 60; worker 1 takes 30 ms while worker 0 runs
  // (ends 30, 60), then 20 alone: the lonely iterations do not count. 8 samples * (1/10 + 1/30) per
  // ms.
  const Schedule schedule = server_schedule(2, 6);
  Trace trace;
  trace.recorded_ranks = 3;
  trace.iteration_end.resize(3);
  for (std::uint32_t k = 0; k < 6; ++k) {
    add_iteration(trace, 0, k, 10 * k, 10 * k + 8, 10 * k + 9, 10 * k + 10);
    const double begin = k < 2 ? 30 * k : 60 + 20 * (k - 2.0);
    const double end = k < 2 ? begin + 30 : begin + 20;
    add_iteration(trace, 1, k, begin, end - 2, end - 1, end);
  }
  const Scenario toy_scenario = scenario_with(server(std::nullopt));
  const Report report = summarize(facts_of(toy_scenario, schedule, trace));
  BOOST_TEST(report.samples_per_s == 8e3 * (1.0 / 10 + 1.0 / 30), kExact);
  // What a global batch of 16 takes at that rate; a worker's own steps stand beside it.
  BOOST_TEST(report.step_time.value() == 15e-3, kExact);
  BOOST_TEST(report.worker_step_time->value() == 20e-3, kExact);
  BOOST_TEST(report.worker_step_times[0].value() == 10e-3, kExact);
  BOOST_TEST(report.worker_step_times[1].value() == 30e-3, kExact);
  BOOST_TEST(!report.steady.has_value());
}

BOOST_AUTO_TEST_CASE(backup_workers_gradients_are_not_samples) {
  // The synchronous form with 2 workers, one of them backup: one update of 8 samples every 5 ms.
  Schedule schedule = server_schedule(2, 4);
  schedule.samples_per_iteration = 8;
  Op apply = schedule.programs[0].ops[3];
  apply.queue.reset();
  schedule.programs[0].ops.pop_back();
  schedule.programs[1].ops = {apply};
  Trace trace;
  trace.recorded_ranks = 3;
  trace.iteration_end.resize(3);
  for (std::uint32_t k = 0; k < 4; ++k) {
    for (std::size_t w = 0; w < 2; ++w) {
      trace.spans.push_back(span(w, 0, k, 5 * k, 5 * k, 5 * k + 1));
      trace.spans.push_back(span(w, 1, k, 5 * k + 1, 5 * k + 1, 5 * k + 3));
      trace.iteration_end[w].push_back(ms(5 * k + 4));
    }
    trace.spans.push_back(span(2, 0, k, 5 * k + 4, 5 * k + 4, 5 * k + 5));
    trace.iteration_end[2].push_back(ms(5 * k + 5));
  }
  const Scenario toy_scenario = scenario_with(server(0, 1));
  const Report report = summarize(facts_of(toy_scenario, schedule, trace));
  BOOST_TEST(report.global_batch == 8);
  BOOST_TEST(report.samples_per_s == 8 / 5e-3, kExact);
  BOOST_TEST(report.staleness->max == 0u);
}

BOOST_AUTO_TEST_CASE(the_report_says_what_it_is_about_and_what_it_assumed_once) {
  Scenario toy_scenario = scenario_with(TorchDdp{});
  toy_scenario.assumptions = {"strategy.ddp.bucket_cap_mb = 25", "an assumption"};
  const Report report = ddp_report(toy_scenario);
  BOOST_TEST(report.scenario == "toy.yaml");
  BOOST_TEST(report.model == "toy");
  BOOST_TEST(report.cluster == "pair");
  BOOST_TEST(report.strategy == "ddp");
  BOOST_TEST(report.precision == "fp32");
  BOOST_TEST(report.nodes == 2u);
  BOOST_TEST(report.fidelity == "flow");
  BOOST_TEST(report.assumptions.size() == 4u);  // with the CUDA context and NCCL
  BOOST_TEST(report.versions.at("simgrid") == "3.32.0");
  BOOST_TEST(report.versions.at("rehearse") == REHEARSE_VERSION);
}

// Two groups issue alike; a rank is in one of them. busbw = 7/4 of 1 MB in 1 ms.
BOOST_AUTO_TEST_CASE(collectives_that_are_alike_are_one_line_with_their_algorithm_and_busbw) {
  CollectiveAnswer one{.kind = CollectiveKind::all_reduce,
                       .size = Bytes(1e6),
                       .group = GroupId(0),
                       .ranks = 8,
                       .nodes = 2,
                       .played = CollectiveAlgorithm::tree,
                       .cost = {.latency = Seconds(4e-4),
                                .transfer = Seconds(6e-4),
                                .basis = CostBasis::model,
                                .uncertainty = std::log(2),
                                .estimate = NcclEstimate{.algorithm = NcclAlgorithm::nvls_tree}}};
  CollectiveAnswer other = one;
  other.group = GroupId(1);
  CollectiveAnswer links = one;
  links.cost = {.transfer = Seconds(1e-3), .basis = CostBasis::links};
  const auto rows = collective_reports({one, one, other, other, links});
  BOOST_REQUIRE(rows.size() == 2U);
  BOOST_TEST(rows[0].count == 2U);
  BOOST_TEST(rows[0].algorithm == "NVLSTree");
  BOOST_TEST(rows[0].protocol == "Simple");
  BOOST_TEST(rows[0].answered_by == "NCCL model");
  BOOST_TEST(rows[0].busbw.value() == 1.75e9, kExact);
  BOOST_TEST(rows[0].interval.high.value() == 2e-3, kExact);
  BOOST_TEST(rows[1].algorithm == "tree");
  BOOST_TEST(rows[1].protocol == "");
}

BOOST_AUTO_TEST_SUITE_END()
