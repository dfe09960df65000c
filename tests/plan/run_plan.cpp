#include "planner/run_plan.hpp"

#include <fmt/format.h>
#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>

#include "../study/fixtures.hpp"
#include "planner/plan_view.hpp"
#include "study/content_key.hpp"
#include "study/take_up.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(run_plan_test)
namespace {

using Json = nlohmann::json;

/// A made-up machine: n nodes at p USD take 100 s / n, and need 60 bytes / n of 40.
struct Fixture {
  Scratch scratch;
  PlanSimulator simulator{
      .simulator = {.program = "p 1", .read = [](const Document&) {}, .predict = predict},
      .bound = bound};

  Fixture() { scratch.write("base.yaml", "nodes: 1\nprice: 1\noption: plain\n"); }

  struct Given {
    double nodes, price;
    std::string option;
  };
  static Given read(const Document& scenario) {
    Map root = scenario.root().as_map();
    Given given{root.require("nodes").as_positive_number(),
                root.require("price").as_positive_number(), root.require("option").as_string()};
    root.finish();
    if (given.option == "broken") throw InputError("it is broken\nhere");
    return given;
  }

  static std::string predict(const Document& scenario) {
    const Given given = read(scenario);
    const double time = 100 / given.nodes * (given.option == "slow" ? 1.05 : 1);
    const double usd = time * given.nodes * given.price;
    return Json({{"train_time_s", time},
                 {"cost", {{"usd", usd}}},
                 {"memory", {{"used_bytes", 60 / given.nodes}}},
                 {"intervals",
                  {{"train_time_s", {time * 0.9, time * 1.1}},
                   {"cost.usd", {usd * 0.9, usd * 1.1}}}}})
        .dump();
  }

  static Bound bound(const Document& scenario) {
    Bound known;
    known.key = content_key("p 1", scenario, {});
    try {
      const Given given = read(scenario);
      const double time = 100 / given.nodes, usd = 100 * given.price;
      known.best[Metric::train_time] = {time, 0.9 * time, 0.9 * time};
      known.best[Metric::usd] = {usd, 0.9 * usd, 0.9 * usd};
      known.best[Metric::memory] = {60 / given.nodes, 60 / given.nodes, 60 / given.nodes};
      known.best[Metric::gpus] = {given.nodes, given.nodes, given.nodes};
      known.capacity = 40;
      const double batch = 8 * given.nodes;
      if (given.option == "batches") known.best[Metric::global_batch] = {batch, batch, batch};
      known.in_pieces = given.option == "pieces";
      known.machine = fmt::format("m{}", given.price);
      known.node_price = given.price;
    } catch (const InputError& error) {
      known.error = error.what();
      known.code = ExitCode::input;
    }
    return known;
  }

  PlanResult run(const std::string& keys, const std::string& name = "r") const {
    const Plan plan = read_plan(scratch.write("p.yaml", "scenario: base.yaml\n" + keys), {});
    PreparedPlan prepared = prepare_plan(plan, simulator, {}, {.jobs = 2}, nullptr);
    ResultStore store(scratch / name);
    store.describe(prepared.study.identity, prepared.study.points);
    return run_plan(std::move(prepared), simulator, store, {.limits = {.jobs = 2}, .shard = {}});
  }
};

const char* const kVary =
    "vary: {nodes: [1, 2, 4, 8], price: [1, 3], option: [plain, slow, broken]}\n";

BOOST_FIXTURE_TEST_CASE(the_cheapest_within_a_deadline, Fixture) {
  // 100 USD whatever the nodes; 25 s with 4 of them, 12.5 s with 8. At 3 USD nothing comes near.
  const PlanResult result =
      run(std::string(kVary) + "objective: cost\nconstraints: {memory: fits, deadline: 30s}\n");
  const Json json = Json::parse(plan_json(result));
  BOOST_TEST(json.at("choice").at("settings") ==
             Json({{"nodes", "4"}, {"price", "1"}, {"option", "plain"}}));
  BOOST_TEST(json.at("choice").at("scenario_overrides") ==
             Json({{"nodes", 4}, {"price", 1}, {"option", "plain"}}));
  BOOST_TEST(json.at("choice").at("metrics").at("usd") == 100);
  BOOST_TEST(json.at("choice").at("metrics").at("accuracy").is_null());
  BOOST_TEST(json.at("choice").at("intervals").at("usd").at(1).get<double>() == 110,
             boost::test_tools::tolerance(1e-9));
  // 24 points: 8 cannot be read, bounds show that 1 and 2 nodes (8) miss memory or the deadline.
  BOOST_TEST(json.at("counts") == Json({{"candidates", 24},
                                        {"pruned", 8},
                                        {"simulated", 8},
                                        {"failed", 8},
                                        {"feasible", 8},
                                        {"duplicates", 0}}));
  BOOST_TEST(json.at("ranking").size() == json.at("counts").at("feasible").get<std::size_t>());
}

BOOST_FIXTURE_TEST_CASE(reasons_name_what_one_setting_changes, Fixture) {
  const PlanResult result =
      run(std::string(kVary) + "objective: cost\nconstraints: {memory: fits, deadline: 30s}\n");
  const std::vector<std::string> expected = {
      "100 USD, 25.0 s",
      "with nodes 1: needs 60 B of 40 B; time to train at least 1 min 40 s; the limit is 30.0 s",
      "with nodes 2: time to train at least 50.0 s; the limit is 30.0 s",
      "with nodes 8: the same cost, 0.5 times the time to train, tied",
      "with price 3: 3 times the cost, the same time to train",
      "with slow: 5 % dearer, 5 % slower, tied",
      "with broken: cannot run: it is broken",
      "of those that are tied with it, the fastest: nodes 8, price 1, plain: the same cost, 0.5 "
      "times the time "
      "to train"};
  BOOST_TEST(reasons(result, *result.choice) == expected, boost::test_tools::per_element());
}

BOOST_FIXTURE_TEST_CASE(that_global_batches_differ_is_said, Fixture) {
  const char* const kBatches = "vary: {nodes: [2, 4], option: [batches]}\nobjective: cost\n";
  const PlanResult result = run(kBatches);
  const std::string warning =
      "global batches of 16 to 32 samples are compared as if every sample trained as much; "
      "`constraints: {global_batch: 16}` compares like with like";
  BOOST_TEST(Json::parse(plan_json(result)).at("warnings") == Json({warning}));
  const std::string table = plan_table(result, {});
  BOOST_TEST(table.find("beware") != std::string::npos, table);
  BOOST_TEST(table.find("32 samples") != std::string::npos, table);
  // What it says to write compares like with like, and says nothing.
  const PlanResult alike =
      run(std::string(kBatches) + "constraints: {global_batch: 16}\n", "alike");
  BOOST_TEST(alike.ranking.size() == 1U);
  BOOST_TEST(Json::parse(plan_json(alike)).at("warnings").empty());
}

BOOST_FIXTURE_TEST_CASE(memory_that_suffices_in_pieces_alone_does_not_fit, Fixture) {
  const PlanResult result = run("vary: {nodes: [4], option: [pieces]}\nobjective: cost\n");
  BOOST_TEST(!result.choice);
  BOOST_TEST(result.prepared.candidates.at(0).misses.at(0).words ==
             "needs 15 B of 40 B, but in pieces that are too small");
}

BOOST_FIXTURE_TEST_CASE(a_price_that_flips_the_choice_makes_both_as_dear, Fixture) {
  const PlanResult result = run("vary: {price: [1, 1.05]}\nobjective: cost\nconstraints: {}\n");
  std::vector<std::string> words;
  for (const Change& change : result.would_change) words.push_back(change.words);
  const std::vector<std::string> expected = {
      "the runner-up, price 1.05, is 5 % dearer, the same time to train; their intervals overlap",
      "if m1 rises above 1.05 USD per node-hour (now 1.00): price 1.05",
      "if m1.05 falls below 1.00 USD per node-hour (now 1.05): price 1.05"};
  BOOST_TEST(words == expected, boost::test_tools::per_element());
}

BOOST_FIXTURE_TEST_CASE(where_nothing_is_feasible_the_nearest_miss_is_told, Fixture) {
  const PlanResult result =
      run("vary: {nodes: [2, 4]}\nobjective: cost\nconstraints: {deadline: 20s}\n");
  BOOST_TEST(!result.choice);
  BOOST_TEST(result.would_change.size() == 1U);
  BOOST_TEST(result.would_change.at(0).words ==
             "time to train of 25.0 s instead of 20.0 s (+25.0 %) would admit nodes 4");
  BOOST_TEST(Json::parse(plan_json(result)).at("choice").is_null());
}

BOOST_FIXTURE_TEST_CASE(a_constraint_says_what_loosening_it_would_bring, Fixture) {
  const PlanResult result =
      run("vary: {nodes: [1, 2, 4, 8]}\nobjective: time\nconstraints: {gpus: 4}\n");
  std::vector<std::string> words;
  for (const Change& change : result.would_change) words.push_back(change.words);
  const std::vector<std::string> expected = {
      "the runner-up, nodes 2, is 2 times the time to train, the same cost",
      "with 8 GPUs instead of 4 GPUs: nodes 8, 0.5 times the time to train, the same cost",
      "with fewer than 4 GPUs: nodes 2, 2 times the time to train, the same cost"};
  BOOST_TEST(words == expected, boost::test_tools::per_element());
}

BOOST_FIXTURE_TEST_CASE(a_network_that_flips_the_choice_is_found_by_bisection, Fixture) {
  // The slow one takes 105 s over the network's factor: 100 s from 1.05 on. Bisected between 1 and
  // 2 three times: 2^(1/8) = 1.09, where it takes 96.3 s.
  simulator.predict_if = [](const Document& scenario, const WhatIf& machine) {
    const bool slow = read(scenario).option == "slow";
    return Json({{"train_time_s", slow ? 105 / machine.network : 100}}).dump();
  };
  const PlanResult result =
      run("vary: {option: [plain, slow]}\nobjective: time\nconstraints: {}\n");
  BOOST_TEST(result.would_change.size() == 2U);
  BOOST_TEST(result.would_change.back().words ==
             "with 1.1 times the network's bandwidth: slow, 4 % faster than the choice then");
  BOOST_TEST(result.would_change.back().to == std::pow(2, 0.125),
             boost::test_tools::tolerance(1e-9));
  const std::vector<std::string> steady = {
      "it stays the choice down to 0.25 times the network's bandwidth",
      "it stays the choice up to 4 times the GPUs' speed",
      "it stays the choice down to 0.25 times the GPUs' speed"};
  BOOST_TEST(result.steady == steady, boost::test_tools::per_element());
}

BOOST_FIXTURE_TEST_CASE(an_objective_that_nobody_tells_is_a_mistake, Fixture) {
  simulator.bound = [](const Document& scenario) {
    Bound silent = bound(scenario);
    silent.unknown[Metric::energy] = "no power is stated";
    return silent;
  };
  const std::string said = error_from([&] { run("vary: {nodes: [1]}\nobjective: energy\n"); });
  BOOST_TEST(
      scratch.anonymous(said) ==
      "SCRATCH/p.yaml:3:12: error: objective: no candidate's energy is known: no power is stated\n"
      "objective: energy\n           ^\n"
      "remedy: complete the scenario, or take another objective, such as throughput");
}

BOOST_FIXTURE_TEST_CASE(points_with_one_content_are_one_candidate, Fixture) {
  simulator.bound = [](const Document& scenario) {
    Bound same = bound(scenario);
    same.key = "all alike";
    return same;
  };
  const PlanResult result =
      run("vary: {option: [plain, slow]}\nobjective: time\nconstraints: {}\n");
  BOOST_TEST(result.prepared.candidates.size() == 1U);
  BOOST_TEST(result.prepared.duplicates == 1U);
}

// 24 candidates are two batches of bounds; the first of them has all with one node.
BOOST_FIXTURE_TEST_CASE(a_plan_that_is_stopped_keeps_its_bounds, Fixture) {
  const auto plan = [&] {
    return read_plan(
        scratch.write("p.yaml", std::string("scenario: base.yaml\n") + kVary + "objective: cost\n"),
        {});
  };
  bool stopped = false;
  const ChildLimits limits{.jobs = 1, .stop = [&] { return stopped; }};
  BOOST_CHECK_EXCEPTION(prepare_plan(plan(), simulator, scratch / "kept", limits,
                                     [&](const SweepProgress&) { stopped = true; }),
                        Error, [](const Error& error) {
                          return std::string(error.what())
                              .ends_with(
                                  "kept holds the bounds of 16 of 24 candidates\n"
                                  "remedy: the same command goes on from there");
                        });
  const auto whole = prepare_plan(plan(), simulator, {}, {.jobs = 1}, nullptr);
  simulator.bound = [](const Document& scenario) {
    const Bound known = Fixture::bound(scenario);
    const auto gpus = known.best.find(Metric::gpus);
    if (gpus != known.best.end() && gpus->second.value == 1) throw InputError("asked again");
    return known;
  };
  const auto again = prepare_plan(plan(), simulator, scratch / "kept", {.jobs = 1}, nullptr);
  ResultStore store(scratch / "kept");
  take_up(store, again.study.identity, again.study.points, true);
  BOOST_TEST(store.points().size() == again.study.points.size());
  BOOST_REQUIRE(again.candidates.size() == whole.candidates.size());
  for (std::size_t i = 0; i < again.candidates.size(); ++i)
    BOOST_TEST(to_json(again.candidates[i].bound) == to_json(whole.candidates[i].bound));
  simulator.simulator.program = "p 2";
  BOOST_CHECK_EXCEPTION(
      prepare_plan(plan(), simulator, scratch / "kept", {.jobs = 1}, nullptr), Error,
      [](const Error& error) { return std::string(error.what()) == "asked again"; });
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
