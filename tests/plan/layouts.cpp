// A search over layouts: which are legal, what holds for all of them, and that nothing better is
// dismissed.
#include <fmt/format.h>

#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <set>

#include "../study/fixtures.hpp"
#include "base/child_process.hpp"
#include "base/random.hpp"
#include "planner/layouts/layout_simulator.hpp"
#include "planner/run_plan.hpp"
#include "study/simulator.hpp"

namespace data = boost::unit_test::data;

namespace rehearse {
namespace {

using Json = nlohmann::json;

struct Fixture {
  Scratch scratch;

  void base(const std::string& more = "", int nodes = 2, int batch = 32) const {
    scratch.write("base.yaml",
                  fmt::format("model: {{transformer: {{layers: 12, hidden_size: 1024, heads: 16, "
                              "kv_heads: 4, intermediate_size: 4096, vocab_size: 32000}}, "
                              "sequence: 1024, batch_per_gpu: 1, precision: bf16_master}}\n"
                              "cluster: {{use: aws_p4d, nodes: {}}}\n"
                              "train: {{global_batch: {{sequences: {}}}}}\n"
                              "strategy: {{zero: {{stage: 1}}{}}}\noptimizer: {{adamw: {{}}}}\n"
                              "run: {{steps: 1, warmup_steps: 1}}\n",
                              nodes, batch, more));
  }
  Plan plan(const std::string& parallelism, const std::string& more = "") const {
    return read_plan(scratch.write("p.yaml", "scenario: base.yaml\nobjective: throughput\n" + more +
                                                 "search: {parallelism: [" + parallelism + "]}\n"),
                     {});
  }
};

/// All candidates have Megatron-LM's code, unless a plan compares frameworks.
std::vector<std::string> labels(const Plan& plan) {
  std::vector<std::string> all;
  for (const Point& point : plan.study.points) {
    std::string text;
    for (const std::string& label : labels_of(plan.study, point))
      if (label != "megatron") text += (text.empty() ? "" : " ") + label;
    all.push_back(text);
  }
  return all;
}

BOOST_FIXTURE_TEST_CASE(degrees_divide_and_the_others_are_counted_by_their_rule, Fixture) {
  base();
  const Plan read = plan("tensor, pipeline");
  const std::vector<std::string> expected = {"1 1", "1 2", "1 4", "2 1", "2 2", "2 4",
                                             "4 1", "4 2", "4 4", "8 1", "8 2"};
  BOOST_TEST(labels(read) == expected, boost::test_tools::per_element());
  const std::map<std::string, std::size_t> illegal = {{"12 blocks make no even stages", 4},
                                                      {"a replica does not divide 16 GPUs", 1}};
  BOOST_TEST((read.illegal == illegal));
}

BOOST_FIXTURE_TEST_CASE(the_global_batch_is_held, Fixture) {
  base("", 2, 24);
  const Plan read = plan("tensor, micro_batch");
  // Of 16, 8, 4 and 2 replicas: 24 samples are whole rounds on 8, 4 and 2 of them.
  const std::vector<std::string> expected = {"2 1", "4 1", "4 2", "8 1", "8 2", "8 4"};
  BOOST_TEST(labels(read) == expected, boost::test_tools::per_element());
  BOOST_TEST(read.illegal.at("the global batch of 24 is no whole number of micro-batches") == 10U);
  for (const Point& point : read.study.points) {
    const Bound bound = layout_simulator(true).bound(*scenario_at(read.study, point));
    BOOST_TEST(bound.error == "");
    BOOST_TEST(bound.best.at(Metric::global_batch).value == 24);
  }
}

BOOST_FIXTURE_TEST_CASE(what_is_not_searched_stays, Fixture) {
  base(", tensor_parallel: 4, sequence_parallel: true, order: tp-cp-ep-pp-dp");
  const Plan read = plan("sharding, pipeline");
  // DDP and ZeRO 1 in one, two and four stages; Megatron-LM has no FSDP2 beside pipelines.
  BOOST_TEST(read.study.points.size() == 7U);
  for (const Point& point : read.study.points) {
    const auto document = scenario_at(read.study, point);
    Map strategy = document->root().as_map().require("strategy").as_map();
    BOOST_TEST(strategy.require("tensor_parallel").as_integer(1, 8) == 4);
    BOOST_TEST(strategy.require("order").as_string() == "tp-cp-ep-pp-dp");
  }
}

BOOST_FIXTURE_TEST_CASE(each_point_of_vary_has_the_layouts_of_its_own_cluster, Fixture) {
  base();
  const Plan read = plan("tensor, pipeline", "vary: {cluster.nodes: [1, 2]}\n");
  // On 8 GPUs tensor 4 x pipeline 4 is too much, and so is all beyond.
  BOOST_TEST(std::ranges::count(labels(read), "2 4 4") == 1);
  BOOST_TEST(std::ranges::count(labels(read), "1 4 4") == 0);
  BOOST_TEST(std::ranges::count(labels(read), "1 4 2") == 1);
}

/// A small space: a transformer, a cluster, a global batch, and some of the axes.
struct RandomSpace {
  std::string scenario, axes;
};

RandomSpace random_space(std::uint64_t seed) {
  RandomStream stream = random_stream(seed, "layouts");
  const auto one_of = [&]<class T>(const std::vector<T>& all) {
    return all[static_cast<std::size_t>(uniform01(stream) * static_cast<double>(all.size()))];
  };
  const int heads = one_of(std::vector<int>{8, 12, 16});
  const bool experts = uniform01(stream) < 0.3;
  RandomSpace space;
  space.scenario = fmt::format(
      "model: {{transformer: {{layers: {}, hidden_size: {}, heads: {}, kv_heads: {}, "
      "intermediate_size: {}, vocab_size: 32000{}}}, sequence: {}, batch_per_gpu: 1, precision: "
      "bf16_master}}\n"
      "cluster: {{use: {}, nodes: {}}}\ntrain: {{global_batch: {{sequences: {}}}}}\n"
      "strategy: {{zero: {{stage: 1}}}}\noptimizer: {{adamw: {{}}}}\n"
      "run: {{steps: {}, warmup_steps: 1{}, seed: {}}}\n",
      one_of(std::vector<int>{4, 8, 12, 40}), heads * 128, heads,
      one_of(std::vector<int>{4, heads}), experts ? heads * 64 : heads * 512,
      experts ? ", experts: {count: 8, active: 2}" : "", one_of(std::vector<int>{512, 1024, 4096}),
      one_of(std::vector<std::string>{"aws_g5_48xlarge", "aws_p4d", "aws_p5"}),
      one_of(std::vector<int>{1, 2, 10}), one_of(std::vector<int>{16, 32, 48, 160}),
      one_of(std::vector<int>{1, 2}),
      one_of(std::vector<std::string>{"", ", jitter: none, speed_spread: 0", ", jitter: none"}),
      seed + 1);
  const std::vector<std::string> axes = {
      "tensor, pipeline",      "pipeline, virtual_stages", "tensor, micro_batch, recompute",
      "pipeline, micro_batch", "sharding, tensor",         "sharding, pipeline, recompute",
      "tensor, context",       "context, pipeline",        "pipeline, virtual_stages, recompute"};
  const std::vector<std::string> of_experts = {"expert, pipeline", "expert, tensor",
                                               "sharding, expert", "expert, micro_batch"};
  space.axes = one_of(experts ? of_experts : axes);
  return space;
}

std::size_t spaces() {
  const char* const asked = std::getenv("REHEARSE_SPACES");
  return asked == nullptr ? 8 : std::stoul(asked);
}

/// All candidates as `run` predicts them, by their place.
std::vector<Simulated> all_of(const PreparedPlan& prepared) {
  std::vector<Simulated> all;
  for (const Point& point : prepared.study.study.points) {
    const auto document = scenario_at(prepared.study.study, point);
    const Json report = Json::parse(
        in_child_process([&] { return layout_simulator(false).simulator.predict(*document); }));
    all.push_back({.figures = figures_of(report),
                   .error = "",
                   .too_large = !report.at("memory").at("fits").get<bool>()});
  }
  return all;
}

BOOST_DATA_TEST_CASE_F(Fixture, a_search_finds_what_all_simulations_find, data::xrange(spaces()),
                       number) {
  const RandomSpace space = random_space(number);
  BOOST_TEST_CONTEXT(space.scenario << space.axes) {
    scratch.write("base.yaml", space.scenario);
    std::optional<Plan> read;
    try {
      read = plan(space.axes);
    } catch (const InputError&) {
      return;  // no layout is legal
    }
    PlanSimulator simulator = layout_simulator(true);
    simulator.predict_if = nullptr;
    simulator.predict_with_errors = nullptr;
    const PreparedPlan prepared = prepare_plan(*read, simulator, {}, {.jobs = 2}, nullptr);
    const std::vector<Simulated> truth = all_of(prepared);
    double best = 0;
    for (std::size_t i = 0; i < truth.size(); ++i) {
      const Bound& bound = prepared.candidates[i].bound;
      BOOST_TEST_CONTEXT(labels(*read)[i]) {
        BOOST_TEST_REQUIRE(bound.error == "");
        const Figures& figures = *truth[i].figures;
        for (const Metric metric : {Metric::step_time, Metric::samples_per_s, Metric::memory})
          BOOST_TEST(badness(metric, bound.best.at(metric).value) <=
                     badness(metric, figures.at(metric).value));
      }
      if (!truth[i].too_large)
        best = std::max(best, truth[i].figures->at(Metric::samples_per_s).value);
    }
    ResultStore store(scratch / "r");
    store.describe(prepared.study.identity, prepared.study.points);
    const PlanResult result =
        run_plan(prepared, simulator, store, {.limits = {.jobs = 2}, .shard = {}});
    BOOST_TEST_MESSAGE(fmt::format("{} of {} candidates were played, {} do not fit",
                                   result.simulated, truth.size(),
                                   std::ranges::count(truth, true, &Simulated::too_large)));
    BOOST_TEST(result.choice.has_value() == (best > 0));
    if (!result.choice) return;
    std::set<std::size_t> ranked(result.ranking.begin(), result.ranking.end());
    const auto value = [&](std::size_t i) {
      return truth[i].figures->at(Metric::samples_per_s).value;
    };
    BOOST_TEST(value(*result.choice) == best);
    for (std::size_t i = 0; i < truth.size(); ++i) {
      const bool near = !truth[i].too_large && value(i) * kNear >= best;
      BOOST_TEST((!near || ranked.contains(i)), labels(*read)[i]);
    }
  }
}

}  // namespace
}  // namespace rehearse
