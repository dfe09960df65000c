// A whole job's measured figure, solved for the rate of one GPU.
#include "predict/measured_job.hpp"

#include <boost/test/unit_test.hpp>
#include <cmath>

#include "predict/headline_run.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(measured_job_test)
namespace {

Scenario question(const std::string& measured, int nodes, const std::string& more = "") {
  const auto document =
      Document::parse("model: {use: gpt2, batch_per_gpu: 8, precision: bf16, measured: {" +
                          measured + "}" + more + "}\ncluster: {nodes: " + std::to_string(nodes) +
                          ", node: {gpus: 4, gpu: A100-SXM-80, pcie: 24GBps, nic: 100Gbps}}\n"
                          "strategy: {ddp: {}}\nrun: {steps: 4}\n",
                      "job");
  return read_question(*document);
}

double simulated(const Scenario& scenario) {
  HeadlineRun run([&scenario] { return simulated_headline(scenario, machine_of(scenario)); });
  return run.result().samples_per_s;
}

BOOST_AUTO_TEST_CASE(the_job_that_was_measured_is_predicted_as_it_was) {
  const Scenario scenario = question("samples_per_s: 300, gpus: 4", 1);
  BOOST_TEST(scenario.whole_step->gpus == 1);
  BOOST_TEST(scenario.whole_step->samples_per_s > 300.0 / 4);
  BOOST_TEST(std::abs(simulated(scenario) / 300 - 1) < 1e-4);
}

// A node's figure says what two nodes do, less what their network costs.
BOOST_AUTO_TEST_CASE(a_nodes_figure_speaks_for_more_nodes) {
  const Scenario one = question("samples_per_s: 300, gpus: 4", 1);
  const Scenario two = question("samples_per_s: 300, gpus: 4", 2);
  BOOST_TEST(two.whole_step->samples_per_s == one.whole_step->samples_per_s);
  BOOST_TEST(simulated(two) < 600);
}

// 4 GPUs of 8 sequences of 1024 tokens.
BOOST_AUTO_TEST_CASE(tokens_and_step_times_say_the_same_as_samples) {
  const double samples = question("samples_per_s: 320, gpus: 4", 1).whole_step->samples_per_s;
  const double tokens = question("tokens_per_s: 327680, gpus: 4", 1).whole_step->samples_per_s;
  const double step = question("step_time: 100ms, gpus: 4", 1).whole_step->samples_per_s;
  BOOST_TEST(tokens == samples);
  BOOST_TEST(std::abs(step / samples - 1) < 1e-12);
}

// A log's figure is that of the GPUs which wrote it.
BOOST_AUTO_TEST_CASE(a_figure_is_of_the_clusters_gpus_unless_it_says_of_how_many) {
  const auto alone = [](const std::string& measured) {
    return question(measured, 2).whole_step->samples_per_s;
  };
  const double said = alone("samples_per_s: 320, gpus: 8");
  BOOST_TEST(alone("samples_per_s: 320") == said);
  BOOST_TEST(alone("tokens_per_s: 327680") == said);
  BOOST_TEST(alone("tokens_per_s_per_gpu: 40960") == said);
  BOOST_TEST(alone("tokens_per_s_per_gpu: 40960, gpus: 8") == said);
  BOOST_TEST(std::abs(alone("step_time: 200ms") / said - 1) < 1e-12);
}

BOOST_AUTO_TEST_CASE(recomputation_counts_once) {
  const std::string checkpointing = ", activation_checkpointing: per_unit";
  const Scenario scenario = question("samples_per_s: 70, gpus: 1", 1, checkpointing);
  Scenario alone = scenario;
  alone.cluster.groups[0].node.gpus = 1;
  BOOST_TEST(std::abs(simulated(alone) / 70 - 1) < 1e-2);
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
