#include <algorithm>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <vector>

#include "memory/memory.hpp"
#include "predict/predict.hpp"
#include "report/memory_verdict.hpp"
#include "rollout/forward_pass.hpp"
#include "rollout/rl_step.hpp"

namespace data = boost::unit_test::data;

namespace rehearse {
namespace {

BOOST_AUTO_TEST_SUITE(forward_memory)

/// A Llama of these dimensions under torch.no_grad, and the most that it holds beside parameters,
/// by transformers and PyTorch 2.13 themselves (forward_memory.py).
struct Row {
  int hidden, layers, heads, kv_heads, feed_forward, vocabulary, batch, sequence;
  double bytes;
};
std::ostream& operator<<(std::ostream& out, const Row& row) {
  return out << row.hidden << " x " << row.layers << ", " << row.batch << " x " << row.sequence;
}

const std::vector<Row> kRows = {{512, 4, 8, 8, 1536, 32000, 1, 512, 164369920},
                                {512, 4, 8, 8, 1536, 32000, 1, 4096, 1314948608},
                                {512, 4, 8, 8, 1536, 32000, 4, 1024, 1314981376},
                                {512, 4, 8, 8, 1536, 32000, 16, 512, 2629961216},
                                {1024, 6, 16, 4, 2816, 128256, 1, 512, 657724928},
                                {1024, 6, 16, 4, 2816, 128256, 1, 4096, 5261788672},
                                {1024, 6, 16, 4, 2816, 128256, 4, 1024, 5261821440},
                                {1024, 6, 16, 4, 2816, 128256, 16, 512, 10523641344},
                                {2048, 4, 16, 8, 8192, 2048, 1, 512, 33820672},
                                {2048, 4, 16, 8, 8192, 2048, 1, 4096, 270565376},
                                {2048, 4, 16, 8, 8192, 2048, 4, 1024, 268967936},
                                {2048, 4, 16, 8, 8192, 2048, 16, 512, 537137152}};

Scenario scenario_of(const Row& row, const std::string& rest) {
  return read_scenario(*Document::parse(
      "model: {transformer: {layers: " + std::to_string(row.layers) +
          ", hidden_size: " + std::to_string(row.hidden) + ", heads: " + std::to_string(row.heads) +
          ", kv_heads: " + std::to_string(row.kv_heads) + ", intermediate_size: " +
          std::to_string(row.feed_forward) + ", vocab_size: " + std::to_string(row.vocabulary) +
          "}, sequence: " + std::to_string(row.sequence) +
          ", batch_per_gpu: " + std::to_string(row.batch) +
          ", precision: bf16_pure, loss: huggingface_4_46}\n"
          "cluster: {use: aws_p5, nodes: 1}\noptimizer: {adamw: {}}\n" +
          rest + "\n",
      "forward.yaml"));
}

MemoryForecast forward_of(Scenario scenario) {
  scenario.trains = false;
  const Schedule schedule = forward_passes(machine_of(scenario).schedule);
  return forecast_memory(schedule.programs.front(), {.caching = true});
}

double held(const MemoryForecast& forecast, MemoryKind kind) {
  return forecast.at_peak.by_kind[static_cast<std::size_t>(kind)].value();
}

BOOST_DATA_TEST_CASE(a_forward_pass_holds_what_pytorch_holds, data::make(kRows), row) {
  const MemoryForecast forecast = forward_of(scenario_of(row, "strategy: {ddp: {}}"));
  const double workspace = 32.0 * 1024 * 1024;  // cuBLAS's on Hopper, of one thread
  const double batch = 2 * 8.0 * row.batch * row.sequence;
  const double beside =
      forecast.allocated_peak.value() - held(forecast, MemoryKind::parameters) - workspace - batch;
  BOOST_TEST_MESSAGE(row << ": " << beside / row.bytes - 1 << " at " << forecast.peak_label);
  BOOST_TEST(beside == row.bytes, boost::test_tools::tolerance(0.01));
}

BOOST_AUTO_TEST_CASE(nothing_of_an_update_is_held) {
  for (const char* const strategy : {"{ddp: {}}", "{fsdp: {}}", "{fsdp2: {}}", "{zero: {stage: 1}}",
                                     "{zero: {stage: 2}}", "{zero: {stage: 3}}"})
    BOOST_TEST_CONTEXT(strategy) {
      const MemoryForecast forecast =
          forward_of(scenario_of(kRows.front(), std::string("strategy: ") + strategy));
      BOOST_TEST(held(forecast, MemoryKind::gradients) == 0);
      BOOST_TEST(held(forecast, MemoryKind::optimizer_state) == 0);
      BOOST_TEST(held(forecast, MemoryKind::buckets) == 0);
      BOOST_TEST(held(forecast, MemoryKind::parameters) > 0);
      BOOST_TEST(held(forecast, MemoryKind::activations) > 0);
    }
}

/// Activations are of one layer at a time: more layers hold more parameters alone.
BOOST_AUTO_TEST_CASE(layers_do_not_add_activations) {
  Row row = kRows.front();
  const auto beside = [](const MemoryForecast& forecast) {
    return forecast.allocated_peak.value() - held(forecast, MemoryKind::parameters);
  };
  const double few = beside(forward_of(scenario_of(row, "strategy: {ddp: {}}")));
  row.layers *= 8;
  BOOST_TEST(beside(forward_of(scenario_of(row, "strategy: {ddp: {}}"))) == few);
}

BOOST_AUTO_TEST_CASE(what_stays_beside_makes_a_verdict_worse) {
  MemoryFit fit = exact_fit(Bytes(60), Bytes(80));
  fit.interval = {Bytes(55), Bytes(66)};
  BOOST_TEST((with_beside(fit, Bytes(10)).verdict == MemoryVerdict::fits));
  BOOST_TEST((with_beside(fit, Bytes(20)).verdict == MemoryVerdict::at_risk));
  BOOST_TEST(is_likely(with_beside(fit, Bytes(20))));
  BOOST_TEST(!is_likely(with_beside(fit, Bytes(21))));
  BOOST_TEST((with_beside(fit, Bytes(26)).verdict == MemoryVerdict::does_not_fit));
  BOOST_TEST((exact_fit(Bytes(81), Bytes(80)).verdict == MemoryVerdict::does_not_fit));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace rehearse
