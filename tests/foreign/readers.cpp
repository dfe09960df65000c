// These read what files say, whatever it means: spellings, scripts, TOML, logs.
#include <boost/test/unit_test.hpp>
#include <map>

#include "../scratch.hpp"
#include "base/error.hpp"
#include "foreign/entry.hpp"
#include "foreign/import_log.hpp"
#include "foreign/kineto_work.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(foreign_readers)
namespace {

std::map<std::string, std::string> options_of(const std::string& script) {
  std::map<std::string, std::string> options;
  for (const Entry& entry : shell_entries(script, "run.sh"))
    options[entry.key] = entry.value + (entry.unless.empty() ? "" : " ?");
  return options;
}

BOOST_AUTO_TEST_CASE(one_value_has_one_spelling) {
  BOOST_TEST(canonical("5e8") == "500000000");
  BOOST_TEST(canonical("1_000") == "1000");
  BOOST_TEST(canonical("0.10") == "0.1");
  BOOST_TEST(canonical("Yes") == "true");
  BOOST_TEST(canonical("no") == "false");
  BOOST_TEST(canonical("None") == "null");
  BOOST_TEST(canonical("-1") == "-1");
  BOOST_TEST(canonical("8B") == "8B");
  BOOST_TEST(canonical("1F1B") == "1F1B");
}

BOOST_AUTO_TEST_CASE(a_scripts_own_variables_are_put_in) {
  const auto options = options_of(
      "A=4\nB=${B:-2}\nARGS=(--x $A --y \"$((A * B + 1))\")\nARGS+=(--w)\nMORE=\" --z=1e3 --u 'a "
      "b'\"\n"
      "torchrun --nnodes 2 train.py \"${ARGS[@]}\" $MORE \\\n  --v -1  # --no\n");
  BOOST_TEST(options.at("launcher.nnodes") == "2");
  BOOST_TEST(options.at("x") == "4");
  BOOST_TEST(options.at("y") == "9");
  BOOST_TEST(options.at("w") == "true");
  BOOST_TEST(options.at("z") == "1000");
  BOOST_TEST(options.at("v") == "-1");
  BOOST_TEST(options.count("no") == 0u);
}

BOOST_AUTO_TEST_CASE(what_the_file_does_not_say_is_not_guessed) {
  const auto options = options_of(
      "if [ $X = 1 ]; then\n  E=\"--a 1\"\nfi\nB=\"--b 2\"\npython t.py $E $B --c $UNSET --d "
      "$(hostname)\n");
  BOOST_TEST(options.at("a") == "1 ?");
  BOOST_TEST(options.at("b") == "2");
  BOOST_TEST(options.at("c") == "$UNSET ?");
  BOOST_TEST(options.at("d").ends_with(" ?"));
}

BOOST_AUTO_TEST_CASE(variables_that_grow_without_end_are_an_error) {
  std::string script = "A=xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\n";
  for (int i = 0; i < 40; ++i) script += "A=$A$A\n";
  BOOST_CHECK_THROW(shell_entries(script + "python t.py --a $A\n", "run.sh"), InputError);
}

BOOST_AUTO_TEST_CASE(toml_and_yaml_give_the_same_settings) {
  const auto toml = toml_entries("[a]\nb = 1_000\nc = [\"x\", \"y\"]\n[a.d]\ne = true\n", "t.toml");
  const auto yaml = yaml_entries("a:\n  b: 1000\n  c: [x, y]\n  d: {e: true}\n", "t.yaml");
  BOOST_REQUIRE(toml.size() == yaml.size());
  for (std::size_t i = 0; i < toml.size(); ++i) {
    BOOST_TEST(toml[i].key == yaml[i].key);
    BOOST_TEST(toml[i].value == yaml[i].value);
  }
  BOOST_TEST(toml[0].place.line == 1u);
}

TrainingLog log_of(const std::string& text) {
  const Scratch scratch;
  return read_log(scratch.write("train.log", text));
}

BOOST_AUTO_TEST_CASE(logs_of_seven_kinds_tell_their_steps) {
  const TrainingLog megatron = log_of(
      " iteration 1/ 9 | elapsed time per iteration (ms): 9000.0 | throughput per GPU "
      "(TFLOP/s/GPU): "
      "100.5 | global batch size: 128 |\n[Rank 0] memory (MB) | allocated: 1.0 | max allocated: "
      "2048.0 | "
      "reserved: 1.0 | max reserved: 4096.0\n");
  BOOST_TEST(megatron.step_times.at(0) == 9.0);
  BOOST_TEST(megatron.global_batch.value() == 128);
  BOOST_TEST(megatron.tflops_per_gpu.at(0) == 100.5);
  BOOST_TEST(megatron.allocated_bytes.value() == 2048.0 * 1048576);
  const TrainingLog nemo = log_of(
      "Training epoch 0, iteration 1/9 | global_batch_size: 512 | train_step_timing in s: 5.23\n");
  BOOST_TEST(nemo.step_times.at(0) == 5.23);
  BOOST_TEST(nemo.global_batch.value() == 512);
  const TrainingLog titan = log_of(
      "[titan] \x1b[31mstep: 10  \x1b[32mloss:  8.1  memory: 40.00GiB(50.00%)  tps: 11,636  "
      "tflops: "
      "202.78  mfu: 20.50%\x1b[39m\n");
  BOOST_TEST(titan.tokens_per_s_per_gpu.at(0) == 11636.0);
  BOOST_TEST(titan.reserved_bytes.value() == 40.0 * 1073741824);
  const TrainingLog deepspeed = log_of(
      "epoch=0/micro_step=10/global_step=10, RunningAvgSamplesPerSec=9.5, CurrSamplesPerSec=10.5, "
      "MemAllocated=1.0GB, MaxMemAllocated=3.0GB\n");
  BOOST_TEST(deepspeed.samples_per_s.at(0) == 10.5);
  BOOST_TEST(deepspeed.allocated_bytes.value() == 3.0 * 1073741824);
  const TrainingLog mlperf = log_of(
      ":::MLLOG {\"key\": \"global_batch_size\", \"value\": 64, \"metadata\": {}}\n"
      "0: :::MLLOG {\"key\": \"tracked_stats\", \"value\": {\"train_step_time\": 1.25}}\n");
  BOOST_TEST(mlperf.step_times.at(0) == 1.25);
  BOOST_TEST(mlperf.global_batch.value() == 64);
  const TrainingLog trainer = log_of(
      "{\"log_history\": [{\"loss\": 1.0}, {\"train_steps_per_second\": 0.5, "
      "\"train_samples_per_second\": 8.0}]}\n");
  BOOST_TEST(trainer.step_times.at(0) == 2.0);
  const TrainingLog gpus = log_of(
      "timestamp, utilization.gpu [%], memory.used [MiB]\n1, 90 %, 100 MiB\n2, 91 %, 300 MiB\n");
  BOOST_TEST(gpus.reserved_bytes.value() == 300.0 * 1048576);
}

BOOST_AUTO_TEST_CASE(a_logs_warm_up_and_its_pauses_do_not_count) {
  const SteadyPart steady = steady_part({9, 2, 1, 1.02, 0.98, 7, 1, 1});
  BOOST_TEST(steady.first == 2u);
  BOOST_TEST(steady.count == 6u);
  BOOST_TEST(steady.median == 1.0);
}

BOOST_AUTO_TEST_CASE(a_damaged_line_is_named) {
  const auto is_line_2 = [](const InputError& wrong) {
    return std::string(wrong.what()).find("train.log:2:") != std::string::npos;
  };
  BOOST_CHECK_EXCEPTION(log_of("\nelapsed time per iteration (ms): nan |\n"), InputError,
                        is_line_2);
}

BOOST_AUTO_TEST_CASE(what_repeats_is_found_with_its_smallest_period) {
  const std::vector<std::uint32_t> list = {9, 8, 1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3, 7};
  const Repeats repeats = repeats_of(list);
  BOOST_TEST(repeats.first == 2u);
  BOOST_TEST(repeats.period == 3u);
  BOOST_TEST(repeats.count == 4u);
  BOOST_TEST(repeats_of({1, 2, 3, 4, 5, 6}).count == 0u);
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
