#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include "../study/fixtures.hpp"
#include "planner/plan.hpp"
#include "planner/search.hpp"
#include "strategy/strategy.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(read_plan_test)
namespace {

namespace data = boost::unit_test::data;

struct Fixture {
  Scratch scratch;
  Fixture() { scratch.write("base.yaml", "cluster: {nodes: 4}\nstrategy: {ddp: {}}\n"); }

  Plan plan(const std::string& keys) const {
    return read_plan(scratch.write("p.yaml", "scenario: base.yaml\n" + keys), {});
  }
  std::vector<std::string> labels(const std::string& search) const {
    std::vector<std::string> labels;
    for (const Axis& axis : plan("objective: time\nsearch: " + search).study.axes) {
      for (const Axis::Choice& choice : axis.choices) labels.push_back(choice.label);
    }
    return labels;
  }
};

BOOST_FIXTURE_TEST_CASE(constraints_are_read_with_their_units, Fixture) {
  const Plan read = plan(
      "vary: {cluster.nodes: [1, 2]}\nobjective: cost\n"
      "constraints: {memory: 70GiB, deadline: 12h, budget_usd: 500, accuracy: 0.92, gpus: 64,\n"
      "  energy_kwh: 5, co2_kg: 2, samples_per_s: 100, global_batch: {min: 256, max: 512}}\n");
  std::vector<std::string> words;
  for (const Constraint& constraint : read.constraints) words.push_back(constraint.words());
  const std::vector<std::string> expected = {"memory at most 70.0 GiB",
                                             "at most 64 GPUs",
                                             "global batch at least 256 samples",
                                             "global batch at most 512 samples",
                                             "time to train at most 12 h 00 min",
                                             "cost at most 500 USD",
                                             "energy at most 5 kWh",
                                             "CO2 at most 2 kg",
                                             "throughput at least 100 samples/s",
                                             "accuracy at least 92.00 %"};
  BOOST_TEST(words == expected, boost::test_tools::per_element());
  BOOST_TEST(read.objective.words() == "the least cost");
}

BOOST_FIXTURE_TEST_CASE(memory_must_fit_where_nothing_is_asked_for, Fixture) {
  const Plan read = plan("vary: {cluster.nodes: [1]}\nobjective: {pareto: [time, cost]}\n");
  BOOST_TEST(read.constraints.at(0).words() == "memory fits the GPU");
  BOOST_TEST(read.objective.words() == "the Pareto front of time to train and cost");
}

BOOST_FIXTURE_TEST_CASE(a_search_tries_the_options_of_each_strategy, Fixture) {
  const std::vector<std::string> expected = {
      "ddp",
      "zero {stage: 1}",
      "fsdp",
      "fsdp {forward_prefetch: true}",
      "fsdp {backward_prefetch: backward_post}",
      "fsdp {sharding: shard_grad_op}",
      "fsdp {sharding: shard_grad_op, forward_prefetch: true}",
      "fsdp {sharding: shard_grad_op, backward_prefetch: backward_post}",
      "fsdp {sharding: hybrid_shard}",
      "fsdp {sharding: hybrid_shard, forward_prefetch: true}",
      "fsdp {sharding: hybrid_shard, backward_prefetch: backward_post}",
      "none",
      "per_unit"};
  BOOST_TEST(
      labels("{strategies: [ddp, zero, fsdp], options: [sharding, prefetch, checkpointing]}") ==
          expected,
      boost::test_tools::per_element());
}

/// Every strategy that is tried can be read.
BOOST_FIXTURE_TEST_CASE(all_options_of_all_strategies_are_the_simulator_s, Fixture) {
  const Plan all = plan("objective: time\nsearch: {strategies: all, options: all}\n");
  for (const Axis::Choice& choice : all.study.axes.at(0).choices) {
    Framework framework = Framework::of_strategy(choice.values.at(0));
    BOOST_TEST_CONTEXT(choice.label) {
      BOOST_CHECK_NO_THROW(read_strategy(choice.values.at(0), framework));
    }
  }
  // ddp and zero: 2 x 2 x 2 x 4; fsdp: 3 x 3 x 2 x 4; fsdp2: 2 x 2 x 4;
  // ps: 3 x 3 x 2; local_sgd: 3.
  BOOST_TEST(all.study.axes.at(0).choices.size() == 32 + 32 + 72 + 16 + 18 + 3);
}

struct Wrong {
  std::string keys, message;
};
std::ostream& operator<<(std::ostream& out, const Wrong& wrong) { return out << wrong.keys; }

const std::vector<Wrong> kWrong = {
    {"vary: {a: [1]}\n", "SCRATCH/p.yaml:1:1: error: the key \"objective\" "},
    {"vary: {a: [1]}\nobjective: speed\n",
     "SCRATCH/p.yaml:3:12: error: objective: expected one of time, cost, throughput, energy, co2; "
     "got "
     "\"speed\""},
    {"vary: {a: [1]}\nobjective: {pareto: [time]}\n",
     "SCRATCH/p.yaml:3:21: error: objective.pareto: a Pareto front needs at least two objectives"},
    {"objective: time\n", "SCRATCH/p.yaml:1:1: error: the key \"vary\" "},
    {"vary: {a: [1]}\nobjective: time\nconstraints: {deadlin: 12h}\n",
     "SCRATCH/p.yaml:4:15: error: constraints.deadlin: unknown key"},
    {"vary: {a: [1]}\nobjective: time\nconstraints: {deadline: 12}\n",
     "SCRATCH/p.yaml:4:25: error: constraints.deadline: expected a time with its unit"},
    {"vary: {a: [1]}\nobjective: time\nconstraints: {accuracy: 92}\n",
     "SCRATCH/p.yaml:4:25: error: constraints.accuracy: expected a share between 0 and 1"},
    {"vary: {strategy: [{ddp: {}}]}\nobjective: time\nsearch: {strategies: all}\n",
     "SCRATCH/p.yaml:2:8: error: vary.strategy: search tries this already"},
    {"objective: time\nsearch: {strategies: [ddp, fspd]}\n",
     "SCRATCH/p.yaml:3:28: error: search.strategies.1: expected one of ddp, fsdp, fsdp2, zero, ps"},
    {"vary: {a: [1]}\nobjective: time\nseeds: 3\n",
     "SCRATCH/p.yaml:4:1: error: seeds: a plan chooses among its points, and a seed is no choice"}};

BOOST_DATA_TEST_CASE_F(Fixture, a_wrong_plan_is_shown_where_it_is_wrong, data::make(kWrong),
                       wrong) {
  const std::string said = scratch.anonymous(error_from([&] { plan(wrong.keys); }));
  BOOST_TEST(said.substr(0, wrong.message.size()) == wrong.message);
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
