// What FSDP's options gather, reduce, copy and wrap.
#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <numeric>

#include "model/adaptation.hpp"
#include "model/shares.hpp"
#include "strategy/jobs.hpp"
#include "strategy/sync/flat_parameters.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(fsdp_options_test)
namespace {

namespace data = boost::unit_test::data;
using boost::test_tools::per_element;

/// Units of these many parameters.
Model model_of(const std::vector<std::int64_t>& parameters) {
  Model model;
  for (const std::int64_t count : parameters) {
    model.units.emplace_back();
    if (count > 0) model.units.back().tensors = {count};
  }
  return model;
}

/// "first-last:elements" of every flat parameter.
std::string wrapped(const std::vector<std::int64_t>& parameters, const TorchFsdp1& options,
                    std::int64_t shards) {
  std::string text;
  for (const FlatParameter& run : wrap(model_of(parameters), options, Precision::fp32, shards))
    text += (text.empty() ? "" : " ") + std::to_string(run.first) + "-" + std::to_string(run.last) +
            ":" + std::to_string(run.elements);
  return text;
}

BOOST_AUTO_TEST_CASE(wrapping_by_unit_makes_a_flat_parameter_of_each) {
  BOOST_TEST(wrapped({8, 16, 24}, {}, 8) == "0-0:8 1-1:16 2-2:24");
}

BOOST_AUTO_TEST_CASE(wrapping_the_model_makes_one_flat_parameter) {
  BOOST_TEST(wrapped({8, 16, 24}, {.wrap = TorchFsdp1::Wrap::model}, 8) == "0-2:48");
}

BOOST_AUTO_TEST_CASE(wrapping_by_size_closes_a_run_at_min_num_params) {
  // 8 + 16 = 24 >= 20; 24 >= 20; 8 + 8 is left over.
  const TorchFsdp1 options{.wrap = TorchFsdp1::Wrap::size, .min_num_params = 20};
  BOOST_TEST(wrapped({8, 16, 24, 8, 8}, options, 8) == "0-1:24 2-2:24 3-4:16");
  // Exactly the minimum closes it, as size_based_auto_wrap_policy does.
  BOOST_TEST(wrapped({10, 10, 20, 20}, options, 1) == "0-1:20 2-2:20 3-3:20");
}

BOOST_AUTO_TEST_CASE(flat_parameters_are_padded_to_a_multiple_of_the_shards) {
  BOOST_TEST(wrapped({1, 7, 8, 9}, {}, 8) == "0-0:8 1-1:8 2-2:8 3-3:16");
  // Padded once, as a whole: 25 to 32, not 8 + 8 + 8 + 16.
  BOOST_TEST(wrapped({1, 7, 8, 9}, {.wrap = TorchFsdp1::Wrap::model}, 8) == "0-3:32");
}

BOOST_AUTO_TEST_CASE(units_without_parameters_go_with_the_one_before_them) {
  BOOST_TEST(wrapped({0, 8, 0, 0, 8, 0}, {}, 8) == "0-3:8 4-5:8");
}

BOOST_AUTO_TEST_CASE(padding_is_gathered_and_reduced_too) {
  // 5 elements over 4 ranks: 8 elements of 4 B.
  const Schedule schedule = schedule_of(TorchFsdp1{}, toy({{20, kMs, kMs}}, kMs), star_cluster(4));
  BOOST_TEST(
      sizes_of(schedule.programs[0], CollectiveKind::all_gather) == (std::vector<double>{32}),
      per_element());
  BOOST_TEST(
      sizes_of(schedule.programs[0], CollectiveKind::reduce_scatter) == (std::vector<double>{32}),
      per_element());
}

// transformer_auto_wrap_policy: the root has embeddings, the last norm and the logits, and stays
// gathered (_runtime_utils.py: _post_forward_reshard). Of two blocks each is gathered twice.
BOOST_AUTO_TEST_CASE(around_wrapped_blocks_the_root_holds_all_else) {
  const Model model = transformer_model(llama(), {.sequence = 16});
  const auto blocks = static_cast<std::size_t>(model.layers), units = model.units.size();
  const std::vector<FlatParameter> runs =
      wrap(model, TorchFsdp1{.wrap = TorchFsdp1::Wrap::blocks}, Precision::fp32, 4);
  BOOST_REQUIRE(runs.size() == blocks + 1);
  BOOST_TEST(runs.front().root);
  BOOST_TEST(runs.front().apart.size() == units - blocks - 1);
  std::int64_t elements = 0, around = 0;
  for (std::size_t unit = 0; unit < units; ++unit) {
    elements += model.units[unit].parameters();
    if (unit == 0 || unit > blocks) around += model.units[unit].parameters();
  }
  BOOST_TEST(runs.front().elements == around);
  Toy toy{.model = model, .costs = {}};
  toy.costs.units.resize(units);
  const Program program =
      schedule_of(TorchFsdp1{.wrap = TorchFsdp1::Wrap::blocks}, toy, star_cluster(4)).programs[0];
  BOOST_TEST(sizes_of(program, CollectiveKind::all_gather).size() == 2 * blocks + 1);
  const std::vector<double> reduced = sizes_of(program, CollectiveKind::reduce_scatter);
  BOOST_TEST(reduced.size() == blocks + 1);
  BOOST_TEST(reduced.back() == 4.0 * static_cast<double>(around));
  BOOST_TEST(std::accumulate(reduced.begin(), reduced.end(), 0.0) ==
             4.0 * static_cast<double>(elements));
}

// bitsandbytes' QuantState is no parameter: an fp32 scale per 64 weights is whole on each rank.
BOOST_AUTO_TEST_CASE(scales_of_quantized_weights_are_not_sharded) {
  const Model model = adapt(transformer_model(llama(), {.sequence = 16}),
                            {.lora = Lora{.rank = 8, .targets = {"q"}}, .linear = StoredAs::nf4});
  const auto block = [&](const ShardedParameters& fsdp) {
    return wrap(model, fsdp, Precision::bf16_pure, 4)[1];
  };
  const FlatParameter flat = block(TorchFsdp1{.flat_gradients = false});
  const FlatParameter torchao = block(TorchFsdp2{});
  BOOST_TEST(flat.scales.value() == flat.others.value() / 0.5 * 4 / 64);
  BOOST_TEST(flat.others.value() > 0);
  BOOST_TEST(torchao.scales.value() == 0);
  BOOST_TEST(torchao.others.value() == flat.others.value() + flat.scales.value());
}

// Wrapped as a whole a model is FSDP's root, whose parameters stay gathered from forward to
// backward.
BOOST_AUTO_TEST_CASE(a_model_that_is_wrapped_whole_is_gathered_once_a_step) {
  const Toy two = toy({{4096, kMs, kMs}, {4096, kMs, kMs}}, kMs);
  const auto gathers = [&](TorchFsdp1::Wrap wrap) {
    const Schedule schedule = schedule_of(TorchFsdp1{.wrap = wrap}, two, star_cluster(4));
    return sizes_of(schedule.programs[0], CollectiveKind::all_gather).size();
  };
  BOOST_CHECK_EQUAL(gathers(TorchFsdp1::Wrap::model), 1);
  BOOST_CHECK_EQUAL(gathers(TorchFsdp1::Wrap::unit), 4);
}

struct Types {
  std::optional<Precision> param, reduce;
  double gathered, reduced;  // bytes of an element
};
std::ostream& operator<<(std::ostream& out, const Types& types) {
  return out << types.gathered << " B gathered, " << types.reduced << " B reduced";
}

// MixedPrecision: reduce_dtype is param_dtype's unless given.
const std::vector<Types> kTypes = {{{}, {}, 4, 4},
                                   {Precision::bf16_pure, {}, 2, 2},
                                   {Precision::bf16_pure, Precision::fp32, 2, 4},
                                   {{}, Precision::bf16_pure, 4, 2},
                                   {Precision::fp32, Precision::fp32, 4, 4}};

BOOST_DATA_TEST_CASE(mixed_precision_scales_what_is_gathered_and_reduced, data::make(kTypes)) {
  const TorchFsdp1 options{.param_dtype = sample.param, .reduce_dtype = sample.reduce};
  const Schedule schedule = schedule_of(options, toy({{4 * 1024, kMs, kMs}}, kMs), star_cluster(4));
  const double gathered = 1024 * sample.gathered, reduced = 1024 * sample.reduced;
  BOOST_TEST(
      sizes_of(schedule.programs[0], CollectiveKind::all_gather) == (std::vector<double>{gathered}),
      per_element());
  BOOST_TEST(sizes_of(schedule.programs[0], CollectiveKind::reduce_scatter) ==
                 (std::vector<double>{reduced}),
             per_element());
}

struct Computes {
  Precision model;
  std::optional<Precision> param;
  Precision units;
};
std::ostream& operator<<(std::ostream& out, const Computes& one) {
  return out << to_string(one.model) << " under "
             << (one.param ? to_string(*one.param) : std::string("no")) << " param_dtype";
}
using enum Precision;
const std::vector<Computes> kComputes = {{fp32, {}, fp32},
                                         {fp32, bf16_pure, bf16_pure},
                                         {tf32, fp16_pure, fp16_pure},
                                         {bf16, {}, bf16},
                                         {bf16, fp32, bf16},
                                         {bf16, bf16_pure, bf16_pure_autocast},
                                         {fp16, fp16_pure, fp16_pure_autocast},
                                         {bf16_pure, {}, bf16_pure},
                                         {bf16_pure, fp32, fp32},
                                         {bf16_master, {}, bf16_pure},
                                         {bf16_pure_autocast, fp32, bf16}};

BOOST_DATA_TEST_CASE(units_compute_in_param_dtype_and_keep_their_autocast, data::make(kComputes)) {
  const Strategy strategy = TorchFsdp1{.param_dtype = sample.param};
  BOOST_TEST((computes_in(strategy, sample.model) == sample.units));
  BOOST_TEST((computes_in(Strategy{TorchDdp{}}, sample.model) == computed_in(sample.model)));
}

BOOST_AUTO_TEST_CASE(cpu_offload_copies_shards_in_and_gradients_out) {
  // One unit on n nodes: copy in (c), g, f, b, r, copy out (c), optimizer on the host. The second
  // copy and all_gather run beside F1. The optimizer's share moves at the host's 100 GB/s, not the
  // GPU's 2 TB/s.
  const int n = 4;
  Cluster cluster = star_cluster(n);
  cluster.groups[0].node.gpu.memory_bandwidth = BytesPerSecond(2e12);
  const double f = 5 * kMs, b = 7 * kMs, o = 8 * kMs;
  const double c = 2e-6 + kMiB / n / 2e10, g = all_gather_time(n, kMiB), r = g;
  const double expected = c + g + f + b + r + c + o / n * (2e12 / 1e11);
  const Trace trace = trace_of(TorchFsdp1{.cpu_offload = true}, toy({{kMiB, f, b}}, o), cluster, 2);
  BOOST_CHECK_CLOSE(trace.iteration_end[0][0].value(), expected, kPercent);
  BOOST_CHECK_CLOSE(trace.end.value(), 2 * expected, kPercent);
}

// ---- hybrid_shard: two nodes of two GPUs with NVLink and a NIC each ----

constexpr double kF = 2 * kMs, kB = 9 * kMs, kO = 8 * kMs;

/// Inside a node, two ranks: one step of half the bytes.
double inside(double size) { return size / 2 / kNvlink + kNvlinkLatency; }
/// Across, two ranks with half the bytes each: two steps of a quarter of them, `sharing` rings on
/// one NIC.
double across(double size, int sharing) { return 2 * (sharing * size / 4 / kNic + kNicLatency); }

BOOST_DATA_TEST_CASE(hybrid_shard_reduces_its_share_across_the_nodes, data::make({1, 2, 3}),
                     units) {
  // All but the first gather and the last reduction hide: g + U (f + b) + r + a + o/2, each ring
  // across on its own NIC.
  const double a = across(kMiB, 1),
               expected = inside(kMiB) + units * (kF + kB) + inside(kMiB) + a + kO / 2;
  BOOST_REQUIRE_LT(a + 2 * inside(kMiB), kB);
  const TorchFsdp1 options{.sharding = TorchFsdp1::Sharding::hybrid_shard,
                           .algorithm = CollectiveAlgorithm::ring};
  const Toy model = equal_units(static_cast<std::size_t>(units), {kMiB, kF, kB}, kO);
  BOOST_CHECK_CLOSE(step_of(options, model, star_cluster(2, 2, 2)), expected, kPercent);
}

BOOST_AUTO_TEST_CASE(hybrid_shard_gathers_every_unit_again_in_backward) {
  const TorchFsdp1 options{.sharding = TorchFsdp1::Sharding::hybrid_shard};
  const Schedule schedule =
      schedule_of(options, equal_units(3, {kMiB, kF, kB}, kO), star_cluster(2, 2));
  BOOST_TEST(count_of(schedule.programs[0], "all_gather") == 6U);
}

BOOST_AUTO_TEST_CASE(hybrid_shard_s_rings_across_share_a_single_nic) {
  const double expected = inside(kMiB) + kF + kB + inside(kMiB) + across(kMiB, 2) + kO / 2;
  const TorchFsdp1 options{.sharding = TorchFsdp1::Sharding::hybrid_shard,
                           .algorithm = CollectiveAlgorithm::ring};
  BOOST_CHECK_CLOSE(step_of(options, toy({{kMiB, kF, kB}}, kO), star_cluster(2, 2, 1)), expected,
                    kPercent);
}

BOOST_AUTO_TEST_CASE(hybrid_shard_all_reduces_one_shard_of_the_bytes) {
  const TorchFsdp1 options{.sharding = TorchFsdp1::Sharding::hybrid_shard};
  const Schedule schedule = schedule_of(options, toy({{kMiB, kF, kB}}, kO), star_cluster(2, 4));
  BOOST_TEST(
      sizes_of(schedule.programs[0], CollectiveKind::reduce_scatter) == (std::vector<double>{kMiB}),
      per_element());
  BOOST_TEST(
      sizes_of(schedule.programs[0], CollectiveKind::all_reduce) == (std::vector<double>{kMiB / 4}),
      per_element());
  BOOST_TEST(schedule.groups.size() == 2U + 4U);
}

BOOST_AUTO_TEST_CASE(a_hybrid_group_of_all_ranks_takes_as_long_as_full_shard) {
  const Cluster cluster = star_cluster(4);
  const Toy model = equal_units(3, {kMiB, kF, kB}, kO);
  const TorchFsdp1 hybrid{.sharding = TorchFsdp1::Sharding::hybrid_shard, .shard_group = 4};
  BOOST_CHECK_CLOSE(step_of(hybrid, model, cluster), step_of(TorchFsdp1{}, model, cluster),
                    kPercent);
}

BOOST_AUTO_TEST_CASE(a_layout_of_replicas_alone_shards_in_groups_as_without_one) {
  const Cluster cluster = star_cluster(3, 4, 4);
  const Toy model = equal_units(3, {kMiB, kF, kB}, kO);
  for (const int group : {0, 2, 6}) {
    const TorchFsdp1 hybrid{.sharding = TorchFsdp1::Sharding::hybrid_shard,
                            .shard_group = group,
                            .algorithm = CollectiveAlgorithm::ring};
    BOOST_CHECK_CLOSE(step_of({hybrid, Layout{}}, model, cluster), step_of(hybrid, model, cluster),
                      kPercent);
  }
}

BOOST_AUTO_TEST_CASE(groups_of_a_layout_are_of_ranks_with_the_same_layers) {
  const Cluster cluster = star_cluster(4, 4, 4);
  const TorchFsdp1 hybrid{.sharding = TorchFsdp1::Sharding::hybrid_shard, .shard_group = 2};
  Layout layout;
  layout.mesh.pipeline = 2;
  layout.micro_batches = 2;
  const Schedule schedule =
      schedule_of({hybrid, layout}, equal_units(4, {kMiB, kF, kB}, kO), cluster);
  std::vector<std::vector<std::size_t>> shards, replicas;
  for (const Group& group : schedule.groups) {
    std::vector<std::size_t> members;
    for (const RankId member : group.members) members.push_back(member.index());
    if (group.name == "shards") shards.push_back(members);
    if (group.name == "replicas") replicas.push_back(members);
  }
  const std::vector<std::vector<std::size_t>> pairs = {{0, 1}, {2, 3},   {4, 5},   {6, 7},
                                                       {8, 9}, {10, 11}, {12, 13}, {14, 15}};
  const std::vector<std::vector<std::size_t>> across = {
      {0, 2, 4, 6}, {1, 3, 5, 7}, {8, 10, 12, 14}, {9, 11, 13, 15}};
  BOOST_TEST((shards == pairs));
  BOOST_TEST((replicas == across));
  for (const Program& program : schedule.programs)
    BOOST_TEST(
        sizes_of(program, CollectiveKind::all_reduce) == (std::vector<double>{kMiB / 2, kMiB / 2}),
        per_element());
}

BOOST_AUTO_TEST_CASE(a_shard_group_that_does_not_divide_the_ranks_is_an_input_error) {
  const Cluster cluster = star_cluster(4);
  const Toy model = toy({{kMiB, kF, kB}}, kO);
  const TorchFsdp1 hybrid{.sharding = TorchFsdp1::Sharding::hybrid_shard, .shard_group = 3};
  BOOST_CHECK_EXCEPTION(
      build_schedule(hybrid, job_of(model, cluster)), InputError, [](const InputError& error) {
        BOOST_TEST(
            error.what() ==
            "error: strategy.fsdp.shard_group: 3 ranks do not divide the 4 ranks of the cluster\n"
            "remedy: choose a divisor of 4");
        return true;
      });
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
