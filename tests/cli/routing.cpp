// Where nobody says how routers spread tokens, the interval's upper end does.
#include <fmt/format.h>
#include <boost/test/unit_test.hpp>
#include <cmath>

#include "base/child_process.hpp"
#include "model/token_histogram.hpp"
#include "predict/predict.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(routing_test)
namespace {

Scenario with_experts(const std::string& experts, const std::string& capacity = "dropless") {
  const auto text = fmt::format(
      "model: {{transformer: {{layers: 2, hidden_size: 1024, heads: 8, intermediate_size: 2048, "
      "vocab_size: 32000, experts: {{count: 16, active: 2, intermediate_size: 2048, capacity: "
      "{}}}}}, sequence: 1024, batch_per_gpu: 4, precision: bf16_master}}\n"
      "cluster: {{use: aws_p5, nodes: 1}}\n"
      "strategy: {{zero: {{stage: 1}}, expert_parallel: 8{}}}\n"
      "run: {{steps: 2, warmup_steps: 1, speed_spread: 0, jitter: none, efficiency: "
      "{{host_launch: 1us}}}}\n",
      capacity, experts);
  return read_scenario(*Document::parse(text, "routing.yaml"));
}

/// Step times in seconds; ends of the source "routing" where there is one.
struct Answer {
  double step = 0;
  std::optional<Ends<double>> routing;
};

/// In a process of its own, as each can simulate once.
Answer answer(const Scenario& scenario) {
  ChildProcess child([&] {
    const Prediction prediction = predict(scenario, {.find_largest_batch = false});
    nlohmann::json json = {{"step", prediction.report.step_time.value()}};
    for (const ErrorSource& source : prediction.error_sources)
      if (source.name == "routing")
        json["routing"] = {source.low.step_time / source.best.step_time,
                           source.high.step_time / source.best.step_time};
    return json.dump();
  });
  const nlohmann::json json = nlohmann::json::parse(child.result());
  Answer answer{.step = json.at("step"), .routing = {}};
  if (json.contains("routing"))
    answer.routing = Ends<double>{json["routing"][0], json["routing"][1]};
  return answer;
}

BOOST_AUTO_TEST_CASE(the_fullest_of_64_experts_is_as_published) {
  BOOST_TEST(natural_imbalance(64, 64) == 1.72, boost::test_tools::tolerance(1e-12));
  BOOST_TEST(natural_imbalance(64, 1) == 1);
  // Of as many ranks each with four times the experts, half as much above the mean.
  BOOST_TEST(natural_imbalance(256, 64) == 1.36, boost::test_tools::tolerance(1e-12));
  BOOST_TEST(natural_imbalance(64, 8) < natural_imbalance(64, 16));
}

BOOST_AUTO_TEST_CASE(a_capacity_below_1_drops_tokens_and_one_above_pads) {
  const double fair = answer(with_experts("", "1")).step;
  BOOST_TEST(answer(with_experts("")).step == fair, boost::test_tools::tolerance(1e-9));
  BOOST_TEST(answer(with_experts("", "0.5")).step < 0.9 * fair);
  BOOST_TEST(answer(with_experts("", "2")).step > 1.2 * fair);
}

BOOST_AUTO_TEST_CASE(the_upper_end_is_a_run_of_natural_routing) {
  const Answer unsaid = answer(with_experts(""));
  BOOST_REQUIRE(unsaid.routing.has_value());
  BOOST_TEST(unsaid.routing->low == 1);
  const Answer natural = answer(
      with_experts(fmt::format(", experts: {{imbalance: {:.17g}}}", natural_imbalance(16, 8))));
  BOOST_TEST(unsaid.routing->high == natural.step / unsaid.step,
             boost::test_tools::tolerance(1e-9));
  BOOST_TEST(natural.step > 1.01 * unsaid.step);
}

BOOST_AUTO_TEST_CASE(natural_is_the_published_spread) {
  const Answer natural = answer(with_experts(", experts: {imbalance: natural}"));
  const Answer said = answer(
      with_experts(fmt::format(", experts: {{imbalance: {:.17g}}}", natural_imbalance(16, 8))));
  BOOST_TEST(natural.step == said.step, boost::test_tools::tolerance(1e-9));
  BOOST_TEST(!natural.routing.has_value());
}

BOOST_AUTO_TEST_CASE(what_is_said_is_no_source_of_error) {
  BOOST_TEST(!answer(with_experts(", experts: {imbalance: 1}")).routing.has_value());
  BOOST_TEST(!answer(with_experts("", "1.25")).routing.has_value());
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
