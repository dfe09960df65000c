// FSDP's overlap against closed forms: U equal units on n one-GPU nodes. g, r: a unit's all_gather
// and reduce_scatter; f, b: its forward and backward; o: the optimizer's share. All collectives run
// on one stream in the order of issue:
//   forward     G1 G2 ... GU; with the limit, Gj waits for the end of F(j-2)
//   pre, post   GU' G(U-1)' RU G(U-2)' R(U-1) ... G1' R2 R1
//   none        GU' RU G(U-1)' R(U-1) ... G1' R1
// where GU', the first all_gather of backward, waits for the end of F(U-1) alone and so runs beside
// FU.
#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include "memory/replay.hpp"
#include "schedule/host_ahead.hpp"
#include "strategy/jobs.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(fsdp_test)
namespace {

namespace data = boost::unit_test::data;
using Prefetch = TorchFsdp1::Prefetch;

constexpr int kRanks = 4;
constexpr double kOptimizer = 8 * kMs, kO = kOptimizer / kRanks;

const double kG = all_gather_time(kRanks, kMiB);      // 3 steps of 2^18 B and 5 us: 0.8 ms
const double kR = all_gather_time(kRanks, kMiB / 2);  // reduced in 16 bits

TorchFsdp1 fsdp(Prefetch prefetch) {
  return {.backward_prefetch = prefetch,
          .param_dtype = Precision::fp32,
          .reduce_dtype = Precision::bf16_pure};
}

double step(Prefetch prefetch, int units, double f, double b) {
  return step_of(fsdp(prefetch),
                 equal_units(static_cast<std::size_t>(units), {kMiB, f, b}, kOptimizer),
                 star_cluster(kRanks));
}

// g <= f, g + r <= b: only the first all_gather and the last reduce_scatter show.
BOOST_DATA_TEST_CASE(prefetch_hides_all_but_the_first_gather_and_the_last_reduction,
                     data::make({2, 3, 5}) *
                         data::make({Prefetch::backward_pre, Prefetch::backward_post}),
                     units, prefetch) {
  const double f = 2 * kMs, b = 4 * kMs, expected = kG + units * (f + b) + kR + kO;
  BOOST_REQUIRE(kG < f && kG + kR < b);
  BOOST_CHECK_CLOSE(step(prefetch, units, f, b), expected, kPercent);
}

// c: of reading a unit's gradients once and writing them once, into one flat tensor: 8 bytes an
// element. Their conversion to 16 bits moves 6.
BOOST_DATA_TEST_CASE(gradients_are_copied_and_converted, data::make({2, 3, 5}), units) {
  const double f = 2 * kMs, b = 4 * kMs, c = 0.3 * kMs;
  Toy toy = equal_units(static_cast<std::size_t>(units), {kMiB, f, b}, kOptimizer);
  toy.costs.copy_rate = BytesPerSecond(2 * kMiB / c);
  BOOST_CHECK_CLOSE(step_of(fsdp(Prefetch::backward_pre), toy, star_cluster(kRanks)),
                    kG + units * (f + b + c + c * 6 / 8) + kR + kO, kPercent);
}

// c: of copying a unit's parameters once. FSDP2 copies them out of what was gathered, twice a step,
// their shares into it, and their gradients into what is reduced, of half as many bytes.
BOOST_DATA_TEST_CASE(single_parameters_are_copied_out_and_gradients_in, data::make({2, 3, 5}),
                     units) {
  const double f = 2 * kMs, b = 4 * kMs, c = 0.3 * kMs;
  Toy toy = equal_units(static_cast<std::size_t>(units), {kMiB, f, b}, kOptimizer);
  toy.costs.copy_rate = BytesPerSecond(2 * kMiB / c);
  const TorchFsdp2 options{.param_dtype = Precision::fp32, .reduce_dtype = Precision::bf16_pure};
  BOOST_CHECK_CLOSE(step_of(options, toy, star_cluster(kRanks)),
                    kG + units * (f + b + 2 * (c + c / kRanks) + 0.75 * c) + kR + kO, kPercent);
}

// FSDP2's reshard_after_forward: 2. Backward gathers from two ranks, and forward from all.
BOOST_DATA_TEST_CASE(parts_after_forward_are_gathered_from_fewer_ranks, data::make({2, 3, 5}),
                     units) {
  const double f = 2 * kMs, b = 4 * kMs, pair = all_gather_time(2, kMiB);
  const Toy toy = equal_units(static_cast<std::size_t>(units), {kMiB, f, b}, kOptimizer);
  TorchFsdp2 options{.param_dtype = Precision::fp32, .reduce_dtype = Precision::bf16_pure};
  const auto most = [&] {
    const Schedule schedule = schedule_of(options, toy, star_cluster(kRanks));
    MemoryReplay replay(schedule.programs.front(), {});
    std::int64_t peak = 0;
    for (int i = 0; i < 3; ++i)
      replay.iterate(
          [&](std::size_t, const TensorEvent&) { peak = std::max(peak, replay.allocated()); });
    return static_cast<double>(peak);
  };
  const double whole = most();
  options.post_forward_group = 2;
  BOOST_CHECK_CLOSE(step_of(options, toy, star_cluster(kRanks)), kG + units * (f + b) + kR + kO,
                    kPercent);
  BOOST_TEST(kR + pair < b);
  // When the last unit's backward has gathered, the others' halves are held.
  BOOST_CHECK_GE(most(), whole);
  if (units > 3) BOOST_CHECK_GT(most(), whole);  // of fewer, the peak comes later
  BOOST_CHECK_LE(most(), whole + units * kMiB / 2);
}

// h: the host's own time per unit and pass. g, f, b, r <= h: the GPU waits for the host, all the
// way to the last backward.
BOOST_DATA_TEST_CASE(a_slow_host_is_what_the_step_waits_for, data::make({2, 3, 5}), units) {
  const double f = 0.5 * kMs, b = 1 * kMs, h = 3 * kMs;
  TorchFsdp1 slow = fsdp(Prefetch::backward_pre);
  slow.host_overhead = Seconds(h);
  BOOST_REQUIRE(kG + kR + b < h);
  const Toy toy = equal_units(static_cast<std::size_t>(units), {kMiB, f, b}, kOptimizer);
  BOOST_CHECK_CLOSE(step_of(slow, toy, star_cluster(kRanks)), 2 * units * h + b + kR + kO,
                    kPercent);
}

// On CPUs the thread that issues collectives also computes: nothing is gathered while forward
// computes, and backward's first gather waits for forward's end. g + r <= b as above.
BOOST_DATA_TEST_CASE(a_host_that_computes_gathers_nothing_ahead, data::make({2, 3, 5}), units) {
  const double f = 2 * kMs, b = 4 * kMs;
  Toy toy = equal_units(static_cast<std::size_t>(units), {kMiB, f, b}, kOptimizer);
  toy.costs.host_computes = true;
  BOOST_CHECK_CLOSE(step_of(fsdp(Prefetch::backward_pre), toy, star_cluster(kRanks)),
                    units * (kG + f) + kG + units * b + kR + kO, kPercent);
}

// A host that is ahead of the GPU costs nothing.
BOOST_AUTO_TEST_CASE(a_fast_host_hides_behind_compute) {
  const Toy toy = equal_units(3, {kMiB, 2 * kMs, 4 * kMs}, kOptimizer);
  TorchFsdp1 fast = fsdp(Prefetch::backward_pre);
  fast.host_overhead = Seconds(0.2 * kMs);
  BOOST_CHECK_CLOSE(step_of(fast, toy, star_cluster(kRanks)),
                    step(Prefetch::backward_pre, 3, 2 * kMs, 4 * kMs), kPercent);
}

// Whether its lane is played or left out.
BOOST_DATA_TEST_CASE(a_host_that_is_left_out_changes_no_step,
                     data::make({0.1, 1.0, 1.5, 1.9, 2.0, 3.0}) * data::make({false, true}),
                     overhead, limit) {
  const Toy toy = equal_units(5, {kMiB, 2 * kMs, 4 * kMs}, kOptimizer);
  TorchFsdp1 options = fsdp(Prefetch::backward_pre);
  options.limit_all_gathers = limit;
  options.host_overhead = Seconds(overhead * kMs);
  Schedule schedule = schedule_of(options, toy, star_cluster(kRanks), 6);
  const double whole = play(schedule, star_cluster(kRanks)).end.value();
  leave_out_hosts_ahead(schedule);
  BOOST_TEST((schedule.programs[0].lanes[1].kind == LaneKind::host) ==
             (overhead > (limit ? 1 : 2)));
  BOOST_TEST(play(schedule, star_cluster(kRanks)).end.value() == whole,
             boost::test_tools::tolerance(2e-2));
}

// The same without prefetch: between two units' backward passes stand a reduce_scatter and an
// all_gather.
BOOST_DATA_TEST_CASE(without_prefetch_a_reduction_and_a_gather_stand_between_units,
                     data::make({2, 3, 5}), units) {
  const double f = 2 * kMs, b = 4 * kMs,
               expected = kG + units * (f + b) + (units - 1) * (kR + kG) + kR + kO;
  BOOST_CHECK_CLOSE(step(Prefetch::none, units, f, b), expected, kPercent);
}

// f <= g, b <= r <= g: with prefetch the stream never idles, but for nothing: 2U gathers and U
// reductions.
BOOST_DATA_TEST_CASE(with_prefetch_the_stream_of_a_slow_network_is_never_idle,
                     data::make({2, 3, 5}) *
                         data::make({Prefetch::backward_pre, Prefetch::backward_post}),
                     units, prefetch) {
  const double f = 0.1 * kMs, b = 0.2 * kMs, expected = 2 * units * kG + units * kR + kO;
  BOOST_REQUIRE(f < kG && b < kR && kR < kG);
  BOOST_CHECK_CLOSE(step(prefetch, units, f, b), expected, kPercent);
}

// Without prefetch each unit's backward is exposed too.
BOOST_DATA_TEST_CASE(without_prefetch_backward_adds_to_a_slow_network, data::make({2, 3, 5}),
                     units) {
  const double f = 0.1 * kMs, b = 0.2 * kMs, expected = 2 * units * kG + units * (kR + b) + kO;
  BOOST_CHECK_CLOSE(step(Prefetch::none, units, f, b), expected, kPercent);
}

// U = 2, 2g <= f, b <= r < g; forward ends at T = g + 2f.
//   pre   G1' waits for nothing and runs beside F2: B2 to T+b, R2 to T+b+r, R1 to T+b+2r
//   post  G1' waits for the end of F2: G1' to T+g, R2 to T+g+r, R1 to T+g+2r
//   none  B2, R2, G1', B1, R1 one after the other: T+2b+2r+g
BOOST_AUTO_TEST_CASE(the_three_prefetches_differ_where_backward_is_short) {
  const double f = 2 * kMs, b = 0.2 * kMs, forward = kG + 2 * f;
  BOOST_REQUIRE(2 * kG < f && b < kR);
  BOOST_CHECK_CLOSE(step(Prefetch::backward_pre, 2, f, b), forward + b + 2 * kR + kO, kPercent);
  BOOST_CHECK_CLOSE(step(Prefetch::backward_post, 2, f, b), forward + kG + 2 * kR + kO, kPercent);
  BOOST_CHECK_CLOSE(step(Prefetch::none, 2, f, b), forward + 2 * b + 2 * kR + kG + kO, kPercent);
}

BOOST_DATA_TEST_CASE(the_next_iteration_s_first_gather_waits_for_the_optimizer,
                     data::make({Prefetch::backward_pre, Prefetch::backward_post,
                                 Prefetch::none})) {
  const Toy model = equal_units(3, {kMiB, 2 * kMs, 4 * kMs}, kOptimizer);
  const Cluster cluster = star_cluster(kRanks);
  const Schedule schedule = schedule_of(fsdp(sample), model, cluster, 4);
  const Trace trace = play(schedule, cluster);
  const double one = step_of(fsdp(sample), model, cluster);
  for (std::uint32_t k = 0; k < 4; ++k) {
    BOOST_CHECK_CLOSE(trace.iteration_end[0][k].value(), (k + 1) * one, kPercent);
    if (k == 0) continue;
    BOOST_CHECK_EQUAL(span_of(schedule, trace, 0, "all_gather u1", k).start.value(),
                      span_of(schedule, trace, 0, "optimizer", k - 1).end.value());
  }
}

BOOST_AUTO_TEST_CASE(shard_grad_op_gathers_no_unit_twice) {
  // Backward has reduce_scatters only: g + U f + U b + r where r <= b.
  TorchFsdp1 options = fsdp(Prefetch::backward_pre);
  options.sharding = TorchFsdp1::Sharding::shard_grad_op;
  const double f = 2 * kMs, b = 4 * kMs, expected = kG + 3 * (f + b) + kR + kO;
  const Toy model = equal_units(3, {kMiB, f, b}, kOptimizer);
  const Schedule schedule = schedule_of(options, model, star_cluster(kRanks));
  BOOST_TEST(count_of(schedule.programs[0], "all_gather") == 3U);
  BOOST_TEST(count_of(schedule.programs[0], "reduce_scatter") == 3U);
  BOOST_CHECK_CLOSE(play(schedule, star_cluster(kRanks)).end.value(), expected, kPercent);
}

BOOST_AUTO_TEST_CASE(shard_grad_op_saves_the_second_gather_on_a_slow_network) {
  // The stream: G1 G2 G3, then R3 after B3, which F3 precedes: 3g + f + b, then 3r as b <= r.
  TorchFsdp1 options = fsdp(Prefetch::backward_pre);
  options.sharding = TorchFsdp1::Sharding::shard_grad_op;
  const double f = 0.1 * kMs, b = 0.2 * kMs, expected = 3 * kG + f + b + 3 * kR + kO;
  BOOST_CHECK_CLOSE(
      step_of(options, equal_units(3, {kMiB, f, b}, kOptimizer), star_cluster(kRanks)), expected,
      kPercent);
}

BOOST_AUTO_TEST_CASE(gradient_accumulation_gathers_and_reduces_every_micro_batch) {
  // g <= f, g + r <= b: only the first gather and the last reduction show. Between micro-batches R1
  // and then the next G1 follow B1, both exposed.
  TorchFsdp1 options = fsdp(Prefetch::backward_pre);
  options.gradient_accumulation = 2;
  const double f = 2 * kMs, b = 4 * kMs, expected = 2 * (kG + 2 * (f + b) + kR) + kO;
  const Toy model = equal_units(2, {kMiB, f, b}, kOptimizer);
  BOOST_CHECK_CLOSE(step_of(options, model, star_cluster(kRanks)), expected, kPercent);
}

BOOST_AUTO_TEST_CASE(a_world_of_one_only_computes) {
  Toy toy = equal_units(3, {kMiB, kMs, 2 * kMs}, kOptimizer);
  toy.costs.copy_rate = BytesPerSecond(1e9);
  const Trace trace = trace_of(fsdp(Prefetch::backward_pre), toy, star_cluster(1));
  BOOST_CHECK_CLOSE(trace.end.value(), 3 * (kMs + 2 * kMs) + kOptimizer, kPercent);
  BOOST_TEST(trace.traffic.flows == 0U);
}

BOOST_AUTO_TEST_CASE(a_straggler_s_compute_is_everybody_s) {
  // Every collective waits for rank 2, three times slower: g + 3 U (f + b) + r + 3 o.
  const double f = 2 * kMs, b = 4 * kMs, slow = 3,
               expected = kG + 3 * slow * (f + b) + kR + slow * kO;
  Schedule schedule = schedule_of(fsdp(Prefetch::backward_pre),
                                  equal_units(3, {kMiB, f, b}, kOptimizer), star_cluster(kRanks));
  schedule.ranks[2].slowdown *= slow;
  BOOST_CHECK_CLOSE(play(schedule, star_cluster(kRanks)).end.value(), expected, kPercent);
}

BOOST_AUTO_TEST_CASE(nothing_to_shard_leaves_the_compute) {
  const Trace trace =
      trace_of(fsdp(Prefetch::backward_pre), equal_units(3, {0, kMs, 2 * kMs}, kOptimizer),
               star_cluster(kRanks), 2);
  BOOST_CHECK_CLOSE(trace.end.value(), 2 * (3 * (kMs + 2 * kMs) + kO), kPercent);
  BOOST_TEST(trace.traffic.flows == 0U);
}

// ---- The rate limit, from what ran ----

/// The end of the operation that frees what an all_gather of forward unit j took.
double freed_forward(const Schedule& schedule, const Trace& trace, std::size_t j) {
  return span_of(schedule, trace, 0, "forward u" + std::to_string(j)).end.value();
}
double gather_start(const Schedule& schedule, const Trace& trace, std::size_t j,
                    std::size_t nth = 0) {
  return span_of(schedule, trace, 0, "all_gather u" + std::to_string(j) + " ", 0, nth)
      .start.value();
}

BOOST_DATA_TEST_CASE(with_the_limit_a_gather_waits_until_all_but_one_before_it_are_freed,
                     data::make({0.1, 2.0, 20.0}), f_ms) {
  const Toy model = equal_units(6, {kMiB, f_ms * kMs, 2 * f_ms * kMs}, kOptimizer);
  const Schedule schedule = schedule_of(fsdp(Prefetch::none), model, star_cluster(kRanks));
  const Trace trace = play(schedule, star_cluster(kRanks));
  for (std::size_t j = 3; j <= 6; ++j)
    BOOST_TEST(gather_start(schedule, trace, j) >= freed_forward(schedule, trace, j - 2));
  BOOST_TEST(gather_start(schedule, trace, 6, 1) >= freed_forward(schedule, trace, 5));
  for (std::size_t j = 1; j <= 4; ++j)
    BOOST_TEST(gather_start(schedule, trace, j, 1) >=
               span_of(schedule, trace, 0, "backward u" + std::to_string(j + 2)).end.value());
}

BOOST_AUTO_TEST_CASE(without_the_limit_all_gathers_of_forward_run_ahead) {
  // G1..G6 back to back, and G6' behind them, while F1 still runs.
  TorchFsdp1 options = fsdp(Prefetch::none);
  options.limit_all_gathers = false;
  const Toy model = equal_units(6, {kMiB, 20 * kMs, 40 * kMs}, kOptimizer);
  const Schedule schedule = schedule_of(options, model, star_cluster(kRanks));
  const Trace trace = play(schedule, star_cluster(kRanks));
  for (std::size_t j = 1; j <= 6; ++j)
    BOOST_TEST(gather_start(schedule, trace, j) == static_cast<double>(j - 1) * kG,
               boost::test_tools::tolerance(1e-9));
  BOOST_TEST(gather_start(schedule, trace, 6, 1) == 6 * kG, boost::test_tools::tolerance(1e-9));
}

BOOST_AUTO_TEST_CASE(the_limit_holds_the_host_back_too) {
  // The host launches u3's kernels only when F1 has freed its unit; without the limit it is through
  // in six launches.
  Toy model = equal_units(3, {kMiB, 20 * kMs, 40 * kMs}, kOptimizer);
  for (UnitCost& unit : model.costs.units) {
    unit.forward_launch = unit.backward_launch = Seconds(0.1 * kMs);
  }
  TorchFsdp1 options = fsdp(Prefetch::none);
  for (const bool limit : {true, false}) {
    options.limit_all_gathers = limit;
    const Schedule schedule = schedule_of(options, model, star_cluster(kRanks));
    const Trace trace = play(schedule, star_cluster(kRanks));
    const double launched = span_of(schedule, trace, 0, "launch forward u3").start.value();
    BOOST_TEST(launched == (limit ? freed_forward(schedule, trace, 1) : 0.2 * kMs),
               boost::test_tools::tolerance(1e-9));
  }
}

// Fifty operators' time for each group; what is stated stands in their place.
BOOST_AUTO_TEST_CASE(hooks_take_the_host_36_operators_and_fsdp2s_50) {
  Toy model = equal_units(3, {kMiB, 20 * kMs, 40 * kMs}, kOptimizer);
  for (UnitCost& unit : model.costs.units)
    unit.forward_launch = unit.backward_launch = Seconds(0.1 * kMs);
  const auto launch = [&](bool second, double operator_s, std::optional<Seconds> stated = {}) {
    model.costs.host_operator = Seconds(operator_s);
    TorchFsdp1 first = fsdp(Prefetch::none);
    first.host_overhead = stated;
    const Strategy options =
        second ? Strategy(TorchFsdp2{.host_overhead = stated}) : Strategy(first);
    const Schedule schedule = schedule_of(options, model, star_cluster(kRanks));
    const Span span =
        span_of(schedule, play(schedule, star_cluster(kRanks)), 0, "launch forward u2");
    return (span.end - span.start).value();
  };
  const auto near = boost::test_tools::tolerance(1e-9);
  BOOST_TEST(launch(true, 1e-6) == 0.1 * kMs + 50e-6, near);
  BOOST_TEST(launch(true, 0) == 0.1 * kMs, near);
  BOOST_TEST(launch(false, 1e-6) == 0.1 * kMs + 36e-6, near);
  BOOST_TEST(launch(false, 0) == 0.1 * kMs, near);
  for (const bool second : {true, false}) {
    BOOST_TEST(launch(second, 1e-6, Seconds(5e-6)) == 0.1 * kMs + 5e-6, near);
    BOOST_TEST(launch(second, 1e-6, Seconds(0)) == 0.1 * kMs, near);
  }
}

/// The most units that are gathered (from the start of their all_gather until they are freed) at
/// one time.
int most_gathered(const Schedule& schedule, const Trace& trace) {
  std::vector<std::pair<double, int>> changes;
  for (const Span& span : trace.spans) {
    if (span.rank.index() != 0) continue;
    const Program& program = schedule.programs[0];
    for (const TensorEvent& event : program.ops[span.op.index()].memory) {
      const Tensor& tensor = program.tensors[event.tensor.index()];
      if (tensor.kind != MemoryKind::gathered || tensor.size <= Bytes(0)) continue;
      if (event.action == TensorEvent::Action::finish) continue;
      const bool takes = event.action == TensorEvent::Action::take;
      changes.emplace_back(takes ? span.start.value() : span.end.value(), takes ? 1 : -1);
    }
  }
  std::sort(changes.begin(), changes.end());  // at one time what is freed goes first
  int held = 0, most = 0;
  for (const auto& [when, change] : changes) most = std::max(most, held += change);
  return most;
}

BOOST_AUTO_TEST_CASE(the_limit_bounds_the_gathered_units) {
  // none: the unit that computes and the next. pre: G(U-1)' runs beside FU and GU': one more.
  const Toy model = equal_units(8, {kMiB, 20 * kMs, 40 * kMs}, kOptimizer);
  const auto most = [&](Prefetch prefetch, bool limit) {
    TorchFsdp1 options = fsdp(prefetch);
    options.limit_all_gathers = limit;
    const Schedule schedule = schedule_of(options, model, star_cluster(kRanks));
    return most_gathered(schedule, play(schedule, star_cluster(kRanks)));
  };
  BOOST_TEST(most(Prefetch::none, true) == 2);
  BOOST_TEST(most(Prefetch::backward_post, true) == 2);
  BOOST_TEST(most(Prefetch::backward_pre, true) == 3);
  BOOST_TEST(most(Prefetch::none, false) == 8 + 1);
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
