#include <algorithm>
#include <boost/test/unit_test.hpp>

#include "base/error.hpp"
#include "predict/measured_job.hpp"
#include "rollout/forward_pass.hpp"
#include "rollout/rl_step.hpp"

namespace rehearse {
namespace {

BOOST_AUTO_TEST_SUITE(rl_sections)

std::string scenario(const std::string& rl) {
  return "model: {use: llama_3_8b, sequence: 4096, batch_per_gpu: 1, precision: bf16_master}\n"
         "cluster: {use: aws_p5, nodes: 1}\n"
         "strategy: {fsdp: {}}\n"
         "optimizer: {adamw: {}}\n"
         "rl: " +
         rl + "\n";
}

RlQuestion read(const std::string& rl) {
  return read_rl_question(*Document::parse(scenario(rl), "rl.yaml"));
}

const char* const kLengths =
    "lengths: {prompt: {mean: 100}, response: {mean: 800, deviation: 500, limit: 3500}}";

BOOST_AUTO_TEST_CASE(defaults_are_those_of_one_update_on_the_trainers_gpus) {
  const RlQuestion question = read(std::string("{prompts: 8, generations: 4, ") + kLengths + "}");
  BOOST_TEST(question.options.generator.colocated());
  BOOST_TEST(question.options.sequences() == 32);
  BOOST_TEST(!question.options.has_reference());
}

BOOST_AUTO_TEST_CASE(pairs_have_two_sequences_and_a_reference) {
  const RlOptions dpo = read(std::string("{algorithm: dpo, prompts: 8, ") + kLengths + "}").options;
  BOOST_TEST(dpo.sequences() == 16);
  BOOST_TEST(dpo.has_reference());
  const RlOptions precomputed =
      read(std::string("{algorithm: dpo, prompts: 8, reference: false, ") + kLengths + "}").options;
  BOOST_TEST(!precomputed.has_reference());
}

BOOST_AUTO_TEST_CASE(what_contradicts_itself_is_refused) {
  for (const char* const wrong :
       {"prompts: 8, staleness: {limit: 1}, ", "prompts: 8, algorithm: dpo, generator: {}, ",
        "prompts: 8, refit: {time: 1s, rate: 1GBps}, ", "prompts: 1, updates: 2, ",
        "prompts: 8, generator: {nodes: 1}, staleness: {limit: 0.5}, ",
        "prompts: 8, staleness: {in_flight: true}, "})
    BOOST_CHECK_THROW(read(std::string("{") + wrong + kLengths + "}"), InputError);
}

BOOST_AUTO_TEST_CASE(other_commands_refuse_the_section) {
  const auto document =
      Document::parse(scenario(std::string("{prompts: 8, ") + kLengths + "}"), "rl.yaml");
  BOOST_CHECK_THROW(read_scenario(*document), InputError);
}

/// FSDP shares a teacher's weights of 2 bytes among 8 GPUs.
BOOST_AUTO_TEST_CASE(a_teacher_needs_room_for_its_weights) {
  const RlQuestion question =
      read(std::string("{algorithm: distillation, teacher: llama_3_405b, prompts: 64, ") +
           kLengths + "}");
  const RlReport report = rl_step(question);
  const auto teacher = std::ranges::find(report.memory, "teacher", &PhaseMemory::phase);
  BOOST_REQUIRE((teacher != report.memory.end()));
  const auto parameters = static_cast<double>(question.teacher->model.parameters());
  BOOST_TEST(teacher->own.value() == 2 * parameters / 8, boost::test_tools::tolerance(1e-9));
  BOOST_TEST(teacher->beside.value() == report.trainer.resident.value());
  BOOST_TEST(!report.fits());
}

/// A forward pass takes its share of the FLOPs: a third without recomputation.
BOOST_AUTO_TEST_CASE(a_forward_pass_is_a_third_of_an_update) {
  const RlQuestion question = read(std::string("{prompts: 64, generations: 4, ") + kLengths + "}");
  const RlReport report = rl_step(question);
  const double share = report.trainer.forward / report.trainer.update;
  BOOST_TEST_MESSAGE("forward over update: " << share);
  BOOST_TEST(share > 0.25);
  BOOST_TEST(share < 0.40);
  double sum = 0;
  for (const RlPhase& phase : report.phases) sum += phase.time.value();
  BOOST_TEST(sum == report.step.value(), boost::test_tools::tolerance(1e-9));
  BOOST_TEST(to_json(report) == to_json(rl_step(question)));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace rehearse
