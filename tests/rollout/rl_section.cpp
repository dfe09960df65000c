#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>

#include "base/error.hpp"
#include "predict/measured_job.hpp"
#include "rollout/forward_pass.hpp"
#include "rollout/rl_log.hpp"
#include "rollout/rl_step.hpp"
#include "rollout/samples.hpp"

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

/// FSDP shares a teacher's weights of 2 bytes among 8 GPUs, and gathers one layer of 126 at a time,
/// while the next one comes; a step's other memory is small beside that.
BOOST_AUTO_TEST_CASE(a_teacher_needs_room_for_its_weights) {
  const RlQuestion question =
      read(std::string("{algorithm: distillation, teacher: llama_3_405b, prompts: 64, ") +
           kLengths + "}");
  const RlReport report = rl_step(question);
  const auto teacher = std::ranges::find(report.memory, "teacher", &PhaseMemory::phase);
  BOOST_REQUIRE((teacher != report.memory.end()));
  const auto parameters = static_cast<double>(question.teacher->model.parameters());
  BOOST_TEST(teacher->own().value() > 2 * parameters * (1.0 / 8 + 1.0 / 130));
  BOOST_TEST(teacher->own().value() < 2 * parameters * (1.0 / 8 + 4.0 / 126) + 16e9);
  BOOST_TEST((teacher->beside + report.trainer.context == report.trainer.resident));
  BOOST_TEST(!report.fits());
  BOOST_TEST((report.verdict() == MemoryVerdict::does_not_fit));
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

BOOST_AUTO_TEST_CASE(keys_without_a_meaning_are_refused) {
  for (const char* const wrong :
       {"algorithm: dpo, prompts: 8, generations: 4, ", "algorithm: dpo, prompts: 8, reward: 1s, ",
        "algorithm: kto, prompts: 8, old_log_probs: false, ", "prompts: 8, critic: true, "})
    BOOST_CHECK_THROW(read(std::string("{") + wrong + kLengths + "}"), InputError);
}

BOOST_AUTO_TEST_CASE(tokens_dealt_equally_are_the_mean_and_sequences_the_fullest) {
  RlOptions options =
      read(std::string("{prompts: 64, generations: 16, updates: 4, ") + kLengths + "}").options;
  const double mean = 1024 * 900.0 / (4 * 8);
  BOOST_TEST(fullest_tokens(options, 8, 1) == mean, boost::test_tools::tolerance(1e-9));
  options.balance = Balance::sequences;
  // The largest of 8 sums of 32 lies 1.42 deviations above their mean (normal order statistics).
  const double expected = mean + 1.42 * std::sqrt(32.0) * 500;
  BOOST_TEST(fullest_tokens(options, 8, 1) == expected, boost::test_tools::tolerance(0.05));
  options.lengths.response.deviation = 0;
  BOOST_TEST(fullest_tokens(options, 8, 1) == mean, boost::test_tools::tolerance(1e-9));
}

BOOST_AUTO_TEST_CASE(micro_batches_by_tokens_hold_what_there_is) {
  const auto trainer = [](const std::string& rest) {
    return read_rl_question(
               *Document::parse("model: {use: llama_3_8b, sequence: 40000, batch_per_gpu: 1, "
                                "precision: bf16_master}\n"
                                "cluster: {use: aws_p5, nodes: 1}\nstrategy: {fsdp: {}}\n"
                                "optimizer: {adamw: {}}\n"
                                "rl: {" +
                                    rest + kLengths + "}\n",
                                "rl.yaml"))
        .trainer;
  };
  // 8 * 16 * 900 tokens on 8 GPUs: 14,400 of each, in one sample of blocks of 128.
  BOOST_TEST(trainer("prompts: 8, generations: 16, ").model.tokens_per_sample == 14464);
  // Four times as many fill two samples of 28,800.
  BOOST_TEST(trainer("prompts: 32, generations: 16, ").model.tokens_per_sample == 28800);
}

BOOST_AUTO_TEST_CASE(a_micro_batch_has_no_more_samples_than_there_are) {
  const auto micro_batches = [](int batch, const std::string& rest) {
    RlQuestion question = read_rl_question(*Document::parse(
        "model: {use: llama_3_8b, sequence: 4096, batch_per_gpu: " + std::to_string(batch) +
            ", precision: bf16_master}\n"
            "cluster: {use: aws_p5, nodes: 1}\nstrategy: {fsdp: {}}\n"
            "optimizer: {adamw: {}}\n"
            "rl: {" +
            rest + kLengths + "}\n",
        "rl.yaml"));
    const int micro = set_micro_batches(question.options, question.trainer);
    return std::pair(micro, question.trainer.batch_per_gpu);
  };
  // 4 pairs for each of 8 GPUs: 8 sequences, each padded.
  const std::string pairs = "algorithm: dpo, prompts: 32, packing: false, ";
  BOOST_TEST((micro_batches(2, pairs) == std::pair(4, std::int64_t{2})));
  BOOST_TEST((micro_batches(8, pairs) == std::pair(1, std::int64_t{8})));
  BOOST_TEST((micro_batches(64, pairs) == std::pair(1, std::int64_t{8})));
  BOOST_TEST((micro_batches(5, pairs) == std::pair(2, std::int64_t{4})));
  // 16 * 900 tokens of each GPU fill 4 samples.
  BOOST_TEST((micro_batches(64, "prompts: 8, generations: 16, ") == std::pair(1, std::int64_t{4})));
}

/// Scoring is a forward pass alone, which grows with its micro-batch.
BOOST_AUTO_TEST_CASE(scoring_holds_the_activations_of_its_micro_batch) {
  const auto own = [](int sequence, int batch) {
    const RlReport report = rl_step(read_rl_question(*Document::parse(
        "model: {use: llama_3_8b, sequence: " + std::to_string(sequence) +
            ", batch_per_gpu: " + std::to_string(batch) +
            ", precision: bf16_master, loss: cross_entropy_fp32}\n"
            "cluster: {use: aws_p5, nodes: 1}\nstrategy: {fsdp: {}}\noptimizer: {adamw: {}}\n"
            "rl: {algorithm: scoring, prompts: 512, packing: false, lengths: {prompt: {mean: 100, "
            "limit: " +
            std::to_string(sequence / 2) +
            "}, response: {mean: 800, limit: " + std::to_string(sequence / 2) + "}}}\n",
        "rl.yaml")));
    BOOST_REQUIRE(report.memory.size() == 1U);
    BOOST_TEST(report.memory.front().phase == "scoring");
    return report.memory.front().own();
  };
  const Bytes one = own(2048, 1), more = own(2048, 8), longer = own(16384, 1);
  // Logits of 128,256 words in 32 bits, and their logarithms, of 7 samples more.
  BOOST_TEST((more - one > Bytes(7 * 2048 * 128256.0 * 8)));
  BOOST_TEST((longer - one > Bytes(7 * 2048 * 128256.0 * 8)));
}

/// Autocast's copies of views of a flat parameter are in no cache (at::autocast::cached_cast).
BOOST_AUTO_TEST_CASE(scoring_under_autocast_holds_no_copy_of_the_network) {
  const auto own = [](const std::string& precision) {
    const RlReport report = rl_step(read_rl_question(*Document::parse(
        "model: {use: llama_3_8b, sequence: 2048, batch_per_gpu: 1, precision: " + precision +
            "}\ncluster: {use: aws_p5, nodes: 1}\nstrategy: {fsdp: {}}\noptimizer: {adamw: {}}\n"
            "rl: {algorithm: scoring, prompts: 512, packing: false, " +
            kLengths + "}\n",
        "rl.yaml")));
    return report.memory.front().own();
  };
  // Shards, gathered units and logits are in fp32, all else as in 16 bits.
  BOOST_TEST((own("bf16") - own("bf16_master") < Bytes(10e9)));
}

/// TRL's ref_model stays beside the policy; adapters are left out instead.
BOOST_AUTO_TEST_CASE(a_reference_of_pairs_is_a_copy_beside_the_policy) {
  const auto training = [](const std::string& model, const std::string& reference) {
    const RlReport report = rl_step(read_rl_question(*Document::parse(
        "model: {use: llama_3_8b, sequence: 2048, batch_per_gpu: 2, precision: bf16_pure" + model +
            "}\ncluster: {use: aws_p5, nodes: 1}\nstrategy: {ddp: {}}\n"
            "optimizer: {adamw_8bit: {}}\nrl: {algorithm: dpo, prompts: 512, packing: false, "
            "reference: " +
            reference + ", " + kLengths + "}\n",
        "rl.yaml")));
    BOOST_REQUIRE(report.memory.size() == 1U);
    return report.memory.front();
  };
  const Bytes copy = training("", "true").beside;
  BOOST_TEST(copy.value() == 2 * 8'030'261'248.0, boost::test_tools::tolerance(0.001));
  BOOST_TEST(training("", "false").beside.value() == 0);
  BOOST_TEST(training(", lora: {rank: 16}", "true").beside.value() == 0);
}

Seconds time_of(const RlReport& report, const std::string& phase) {
  const auto found = std::ranges::find(report.phases, phase, &RlPhase::name);
  return found == report.phases.end() ? Seconds(0) : found->time;
}

/// verl brings parameters back for weights, log-probabilities and updates, and states for updates.
BOOST_AUTO_TEST_CASE(a_trainer_that_sleeps_waits_for_its_states) {
  const auto report = [](const std::string& generator) {
    return rl_step(
        read("{prompts: 64, generations: 4, generator: {" + generator + "}, " + kLengths + "}"));
  };
  const RlReport awake = report("memory: 0.5");
  const RlReport asleep = report("memory: 0.5, trainer_sleeps: true, sleep_rate: 10GBps");
  const TrainerParts& parts = awake.trainer;
  const double each = 2 * parts.parameters.value() / 10e9;
  const double all = 2 * (parts.resident - parts.context).value() / 10e9;
  const auto more = [&](const char* phase) {
    return (time_of(asleep, phase) - time_of(awake, phase)).value();
  };
  const auto near = boost::test_tools::tolerance(1e-6);
  BOOST_TEST(each > 0);
  BOOST_TEST(all > 2 * each);
  BOOST_TEST(more("refit") == each, near);
  BOOST_TEST(more("log-probabilities") == each, near);
  BOOST_TEST(more("training") == all, near);
  BOOST_TEST((asleep.step - awake.step).value() == 2 * each + all, near);
  // platforms/refits.yaml has 2.6 GB/s out and 5.7 in.
  const RlReport usual = report("memory: 0.5, trainer_sleeps: true");
  BOOST_TEST((time_of(usual, "training") - time_of(awake, "training")).value() ==
                 all / 2 * (10 / 2.6 + 10 / 5.7),
             near);
}

/// A critic is as large as its policy, and stays where that stays.
BOOST_AUTO_TEST_CASE(a_critics_states_stand_beside_generation) {
  const auto report = [](const std::string& rest) {
    return rl_step(read("{prompts: 64, generations: 4, " + rest + kLengths + "}"));
  };
  const auto beside = [](const RlReport& one) {
    return std::ranges::find(one.memory, "generation", &PhaseMemory::phase)->beside;
  };
  const RlReport grpo = report("algorithm: grpo, "), ppo = report("algorithm: ppo, ");
  const Bytes context = grpo.trainer.context;
  BOOST_TEST((beside(ppo) - context).value() == 2 * (beside(grpo) - context).value(),
             boost::test_tools::tolerance(1e-9));
  // It sleeps while the policy is updated, too.
  const auto training = [](const RlReport& one) {
    return std::ranges::find(one.memory, "training", &PhaseMemory::phase)->own();
  };
  const RlReport asleep = report("algorithm: ppo, generator: {trainer_sleeps: true}, ");
  BOOST_TEST((training(asleep) == training(grpo)));
  BOOST_TEST((training(ppo) > training(grpo)));
}

BOOST_AUTO_TEST_CASE(epochs_are_of_prompts) {
  const auto steps = [](const std::string& train) {
    return rl_step(read_rl_question(*Document::parse(
                       scenario(std::string("{algorithm: dpo, prompts: 64, ") + kLengths + "}") +
                           "train: {" + train + "}\n",
                       "rl.yaml")))
        .steps;
  };
  BOOST_TEST((steps("samples_per_epoch: 6500, epochs: 2") == 204));
  BOOST_TEST((steps("steps: 100") == 100));
  BOOST_TEST((steps("market: on_demand") == std::nullopt));
}

BOOST_AUTO_TEST_CASE(logs_tell_lengths_and_parts) {
  // verl-project/verl#1208, NVIDIA-NeMo/RL#1052 and a line of TRL's console, shortened.
  const auto verl = read_rl_log(
      "(TaskRunner pid=16292) step:1 - response_length/mean:900.0 - timing_s/step:400.0\n"
      "(TaskRunner pid=16292) step:2 - response_length/mean:324.958 - response_length/max:1024.000 "
      "- prompt_length/mean:102.534 - timing_s/gen:74.020 - timing_s/old_log_prob:3.566 - "
      "timing_s/ref:3.420 - timing_s/update_actor:14.302 - timing_s/step:np.float64(96.551) - "
      "timing_per_token_ms/gen:0.1\n",
      "verl.log");
  BOOST_REQUIRE(verl.has_value());
  BOOST_TEST(verl->response.value() == 324.958);
  BOOST_TEST(verl->prompt.value() == 102.534);
  BOOST_TEST(verl->generation.value() == 74.02);
  BOOST_TEST(verl->training.value() == 14.302);
  BOOST_TEST(verl->step.value() == 96.551);
  const auto nemo = read_rl_log(
      "  \xE2\x80\xA2 Total step time: 66.55s\n  \xE2\x80\xA2 exposed_generation: 32.52s (48.9%)\n"
      "  \xE2\x80\xA2 policy_training: 25.05s (37.6%)\n"
      "  \xE2\x80\xA2 policy_and_reference_logprobs: 4.78s (7.2%)\n"
      "  \xE2\x80\xA2 weight_sync: 0.13s (0.2%)\n",
      "nemo.log");
  BOOST_REQUIRE(nemo.has_value());
  BOOST_TEST(nemo->training.value() == 25.05);
  BOOST_TEST(nemo->scores.value() == 4.78);
  BOOST_TEST(nemo->refit.value() == 0.13);
  BOOST_TEST(!nemo->generation.has_value());
  const auto table =
      read_rl_log("step,completions/mean_length,step_time\n1,200,9.5\n2,210.5,7.25\n", "trl.csv");
  BOOST_REQUIRE(table.has_value());
  BOOST_TEST(table->response.value() == 210.5);
  BOOST_TEST(table->step.value() == 7.25);
  BOOST_TEST(!read_rl_log("nothing of the kind", "other.log").has_value());
  BOOST_CHECK_THROW(read_rl_log("timing_s/gen:3.0\n", "short.log"), InputError);
}

BOOST_AUTO_TEST_CASE(a_calibrated_step_is_within_a_few_percent_of_its_log) {
  // Parts of NVIDIA-NeMo/RL#959 on one node, as verl's metrics would say them.
  const auto of = [](const std::string& sleeps) {
    return Document::parse(scenario("{prompts: 64, generations: 32, reference: true, generator: "
                                    "{trainer_sleeps: " +
                                    sleeps + "}, " + kLengths + "}"),
                           "rl.yaml");
  };
  const auto log = read_rl_log(
      "step:1 - response_length/mean:795 - prompt_length/mean:120 - timing_s/gen:58 - "
      "timing_s/old_log_prob:9 - timing_s/ref:9 - timing_s/update_actor:38 - "
      "timing_s/update_weights:5 - timing_s/step:121\n",
      "log");
  for (const char* const sleeps : {"false", "true"}) {
    const RlCalibration made = calibrate_rl(*of(sleeps), *log);
    BOOST_TEST(made.left.empty());
    for (const RlCalibratedPart& part : made.parts)
      BOOST_TEST(part.after == part.measured, boost::test_tools::tolerance(0.03));
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace rehearse
