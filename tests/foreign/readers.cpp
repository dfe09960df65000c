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

/// A shell splits an array's items at their spaces, but between quotes; an option is meant so.
BOOST_AUTO_TEST_CASE(an_arrays_items_are_split_where_a_shell_splits_them) {
  const std::string array = "A=(\"--fp8-format hybrid\" --bf16)\n";
  const auto split = shell_entries(array + "torchrun pretrain_gpt.py ${A[@]}\n", "x.sh");
  BOOST_REQUIRE(split.size() == 3u);
  BOOST_TEST(split[0].key == "launcher.script");
  BOOST_TEST(split[0].value == "pretrain_gpt.py");
  BOOST_TEST(split[1].key == "fp8_format");
  BOOST_TEST(split[1].value == "hybrid");
  const auto whole = shell_entries(array + "torchrun pretrain_gpt.py \"${A[@]}\"\n", "x.sh");
  BOOST_REQUIRE(whole.size() == 3u);
  BOOST_TEST(whole[1].key == "fp8_format");
  BOOST_TEST(whole[1].value == "hybrid");
}

BOOST_AUTO_TEST_CASE(tests_that_the_file_decides_are_decided) {
  const auto options = options_of(
      "D=\"fp8\"\nF=${F:-1}\nA=(--a)\n"
      "if [ \"${F}\" = 1 ]; then\n  A=(\"${A[@]}\" --b)\nelse\n  A+=(--no)\nfi\n"
      "if [[ \"$D\" == \"bf16\" ]]; then\n  A+=(--no)\nelif [[ $D = fp8 ]]; then\n  A+=(--c)\nfi\n"
      "if [ $# -gt 1 ]; then\n  A+=(--d)\nfi\n"
      "if [ -n \"$D\" ] && [ -f x ]; then\n  A+=(--e)\nfi\n"
      "[ $F -eq 2 ] && A+=(--no)\n[ $F -eq 1 ] && A+=(--f)\n"
      "cat <<EOF > x.json\n{\"it's\": 1}\nEOF\n"
      "torchrun train.py \"${A[@]}\" --g $(expr 16 / 8)\n");
  for (const char* name : {"a", "b", "c", "f"}) BOOST_TEST(options.at(name) == "true");
  for (const char* name : {"d", "e"}) BOOST_TEST(options.at(name) == "true ?");
  BOOST_TEST(options.at("g") == "2");
  BOOST_TEST(options.count("no") == 0u);
}

BOOST_AUTO_TEST_CASE(launchers_words_and_modules_are_told_from_the_scripts) {
  const auto options = options_of(
      "accelerate launch --num_processes 8 -m my.train --per_device_train_batch_size 4 lr=1\n");
  BOOST_TEST(options.at("launcher.num_processes") == "8");
  BOOST_TEST(options.at("launcher.script") == "my.train");
  BOOST_TEST(options.at("per_device_train_batch_size") == "[4, lr=1]");
  const auto swift = options_of("NPROC_PER_NODE=2 swift sft --model a/b --max_length=2048\n");
  BOOST_TEST(swift.at("launcher.script") == "swift");
  BOOST_TEST(swift.at("model") == "a/b");
  BOOST_TEST(swift.at("max_length") == "2048");
}

BOOST_AUTO_TEST_CASE(what_is_nested_too_deep_is_refused) {
  std::string sum = "torchrun t.py --a ", keys = "a";
  for (int i = 0; i < 4000; ++i) sum += "$((";
  BOOST_CHECK_THROW(shell_entries(sum + "1", "run.sh"), InputError);
  for (int i = 0; i < 20000; ++i) keys += ".a";
  BOOST_CHECK_THROW(toml_entries("[" + keys + "]\nb = 1\n", "t.toml"), InputError);
  BOOST_CHECK_NO_THROW(toml_entries("[a.b]\nc = \"" + keys + "\"\n", "t.toml"));
}

const std::string kRegistry =
    "from x import y\n\n\n"
    "def small() -> Trainer.Config:\n"
    "    spec = model_registry(\"8B\", attn_backend=\"varlen\")\n"
    "    return Trainer.Config(\n"
    "        model_spec=spec,  # a comment, with a (\n"
    "        optimizer=default_adamw(lr=8e-4),\n"
    "        training=TrainingConfig(tokens=8 * 2048, steps=10),\n"
    "        activation_checkpoint=FullAC.Config(),\n"
    "        filters=(lambda s: s is not None,),\n"
    "    )\n\n\n"
    "def large() -> Trainer.Config:\n"
    "    \"\"\"Changes it.\"\"\"\n"
    "    config = small()\n"
    "    config.training.steps = 20\n"
    "    config.parallelism.tensor_parallel_degree = 2\n"
    "    return config\n";

BOOST_AUTO_TEST_CASE(a_registry_in_python_is_read_as_text) {
  std::map<std::string, std::string> settings;
  for (const Entry& entry : python_entries(kRegistry, "r.py", "large"))
    settings[entry.key] = entry.value;
  BOOST_TEST(settings.at("model_spec") == "8B");
  BOOST_TEST(settings.at("model_spec.attn_backend") == "varlen");
  BOOST_TEST(settings.at("training.tokens") == "16384");
  BOOST_TEST(settings.at("training.steps") == "20");
  BOOST_TEST(settings.at("parallelism.tensor_parallel_degree") == "2");
  BOOST_TEST(settings.at("activation_checkpoint") == "FullAC.Config");
  BOOST_CHECK_THROW(python_entries(kRegistry, "r.py", ""), InputError);
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

/// Lines as people showed them; each says where.
BOOST_AUTO_TEST_CASE(logs_that_people_showed_are_read) {
  // epfLLM/Megatron-LLM, issue 11
  const TrainingLog megatron = log_of(
      " iteration      182/  250000 | consumed samples:       186368 | elapsed time per iteration "
      "(ms): 126995.3 | learning rate: 1.365E-05 | global batch size:  1024 | lm loss: 2.38E+00 |\n"
      " iteration      183/  250000 | consumed samples:       187392 | elapsed time per iteration "
      "(ms): 125553.7 | learning rate: 1.372E-05 | global batch size:  1024 | lm loss: 2.47E+00 "
      "|\n");
  BOOST_TEST(megatron.step_times.size() == 2u);
  BOOST_TEST(megatron.step_times.at(1) == 125553.7 / 1e3);
  BOOST_TEST(megatron.global_batch.value() == 1024);
  // NVIDIA/Megatron-LM, issue 756: of 2024-04, with a date and a throughput
  const TrainingLog mixtral = log_of(
      " [2024-04-06 02:59:36] iteration       43/     100 | consumed samples:         5504 | "
      "elapsed "
      "time per iteration (ms): 5444.9 | throughput per GPU (TFLOP/s/GPU): 239.8 | learning rate: "
      "8.600000E-06 | global batch size:   128 | lm loss: 1.825991E+00 |\n");
  BOOST_TEST(mixtral.step_times.at(0) == 5.4449);
  BOOST_TEST(mixtral.tflops_per_gpu.at(0) == 239.8);
  BOOST_TEST(mixtral.global_batch.value() == 128);
  // NVIDIA-NeMo/Speech, issue 7957: NeMo 1 of 2023-11
  const TrainingLog nemo_1 = log_of(
      "Epoch 0: :   3%|#         | 9000/301500 [1:42:42<55:37:46, v_num=0-56, "
      "reduced_train_loss=nan.0, global_step=9e+3, consumed_samples=6.3e+5, train_step_timing in "
      "s=0.615, val_loss=7.040]\n");
  BOOST_TEST(nemo_1.step_times.at(0) == 0.615);
  // NVIDIA-BioNeMo/bionemo-recipes, pull request 740: NeMo 2
  const TrainingLog nemo = log_of(
      "Training epoch 0, iteration 120/149 | lr: 3e-05 | consumed_samples: 121 | "
      "global_batch_size: 1 | global_step: 120 | reduced_train_loss: 1.233 | train_step_timing in "
      "s: 0.03146 | val_loss: 4.106\n");
  BOOST_TEST(nemo.step_times.at(0) == 0.03146);
  // pytorch/torchtitan, pull requests 1287 (2025-06) and 3393 (2026-05)
  const TrainingLog titan = log_of(
      "[rank0]:[titan] 2025-06-16 22:30:48,735 - root - INFO - [GC] Performing periodical GC\n"
      "[rank0]:[titan] 2025-06-16 22:30:50,322 - root - INFO - step: 200  loss:  6.1384  memory: "
      "49.66GiB(52.28%)  tps: 5,856  tflops: 339.16  mfu: 34.29%\n"
      "[rank0]:[titan] 2026-05-18 16:04:46,338 - root - INFO - step: 14  loss:  3.24405  "
      "grad_norm: "
      " 0.8319  memory:  9.46GiB(64.99%)  tps: 7,282  tflops: 0.52  mfu: 0.17%\n");
  BOOST_TEST(titan.tokens_per_s_per_gpu == (std::vector<double>{5856, 7282}),
             boost::test_tools::per_element());
  // pytorch/torchtitan, pull request 364 (2024-06): words a second
  const TrainingLog words = log_of(
      "[rank0]:2024-06-13 12:54:04,065 - root - INFO - step: 20  loss:  9.1087  memory: "
      "41.18GiB(43.33%)  wps: 3,812  mfu: 22.32%\n");
  BOOST_TEST(words.tokens_per_s_per_gpu.at(0) == 3812.0);
  BOOST_TEST(words.reserved_bytes.value() == 41.18 * 1073741824);
  // huggingface/accelerate, issue 1589 (DeepSpeed of 2023-06): wall_clock_breakdown
  const TrainingLog parts = log_of(
      "[2023-06-21 07:39:09,625] [INFO] [logging.py:96:log_dist] [Rank 0] rank=0 time (ms) | "
      "forward_microstep: 27.48 | backward_microstep: 73.59 | step_microstep: 72.59\n"
      "[2023-06-21 07:39:09,626] [INFO] [logging.py:96:log_dist] [Rank 0] rank=0 time (ms) | "
      "forward: 27.46 | backward: 73.60 | backward_inner: 51.05 | backward_allreduce: 22.50 | "
      "step: 72.60\n");
  BOOST_TEST(parts.step_times.size() == 1u);
  BOOST_TEST(parts.step_times.at(0) == 0.17366, boost::test_tools::tolerance(1e-9));
  // deepspeedai/DeepSpeed, issues 1825 (0.6) and 2629 (0.7.7)
  const TrainingLog deepspeed = log_of(
      "[2022-03-11 02:06:58,985] [INFO] [timer.py:189:stop] 0/40, SamplesPerSec=83.486, "
      "MemAllocated=0.26GB, MaxMemAllocated=9.02GB\n"
      "[2022-12-20 08:26:26,101] [INFO] [timer.py:197:stop] 0/17, RunningAvgSamplesPerSec=158.31, "
      "CurrSamplesPerSec=159.63, MemAllocated=1.75GB, MaxMemAllocated=2.6GB\n");
  BOOST_TEST(deepspeed.samples_per_s == (std::vector<double>{83.486, 159.63}),
             boost::test_tools::per_element());
  // mlcommons/training_results_v3.1, NVIDIA/results/eos-dfw_n1344_ngc23.09_nemo/gpt3/result_1.txt:
  // tokens a second of 2,688 sequences a step
  const TrainingLog gpt3 = log_of(
      ":::MLLOG {\"key\": \"submission_benchmark\", \"value\": \"gpt3\"}\n"
      ":::MLLOG {\"key\": \"global_batch_size\", \"value\": 2688}\n"
      ":::MLLOG {\"key\": \"max_sequence_length\", \"value\": 2048}\n"
      ":::MLLOG {\"namespace\": \"\", \"time_ms\": 1696565401886, \"event_type\": "
      "\"POINT_IN_TIME\", "
      "\"key\": \"tracked_stats\", \"value\": {\"train_epoch_timing\": 234.93810319900513}, "
      "\"metadata\": {\"lineno\": 277, \"step\": 1211105280}}\n"
      ":::MLLOG {\"namespace\": \"\", \"time_ms\": 1696565401886, \"event_type\": "
      "\"POINT_IN_TIME\", "
      "\"key\": \"tracked_stats\", \"value\": {\"throughput\": 5154997.267404211}}\n");
  BOOST_TEST(gpt3.samples_per_s.at(0) == 5154997.267404211 / 2048);
  // The README of a cloud for MLPerf v4.0's Llama 2 70B with LoRA: samples a second
  const TrainingLog lora = log_of(
      "0: :::MLLOG {\"namespace\": \"\", \"time_ms\": 1721026606541, \"event_type\": "
      "\"INTERVAL_START\", \"key\": \"block_start\", \"value\": null, \"metadata\": "
      "{\"lineno\": 129, \"samples_count\": 2688}}\n"
      "0: :::MLLOG {\"namespace\": \"\", \"time_ms\": 1721026805975, \"event_type\": "
      "\"POINT_IN_TIME\", \"key\": \"tracked_stats\", \"value\": {\"throughput\": "
      "1.9257918929116467}, \"metadata\": {\"lineno\": 161, \"step\": 3072}}\n");
  BOOST_TEST(lora.samples_per_s.at(0) == 1.9257918929116467);
  // A run of Qwen3-8B, as transformers' Trainer returned it: 4,750 rows in 297 steps
  const TrainingLog qwen = log_of(
      "{\"log_history\": [{\"epoch\": 1.0, \"loss\": 0.0303, \"step\": 290}, {\"epoch\": 1.0, "
      "\"step\": 297, \"total_flos\": 1.010257903451136e+17, \"train_loss\": "
      "0.11072738671844656, \"train_runtime\": 505.6061, \"train_samples_per_second\": 9.395, "
      "\"train_steps_per_second\": 0.587}]}\n");
  BOOST_TEST(qwen.step_times.at(0) == 1 / 0.587);
  BOOST_TEST(qwen.samples_per_s.at(0) == 9.395);
  // meta-pytorch/torchtune, pull request 1358
  const TrainingLog torchtune = log_of(
      "Step 1 | loss:2.085338 lr:2e-05 tokens_per_second_per_gpu:57.8288\n"
      "Step 2 | loss:1.871831 lr:2e-05 tokens_per_second_per_gpu:405.0449\n");
  BOOST_TEST(torchtune.tokens_per_s_per_gpu.at(1) == 405.0449);
  // princeton-nlp/LLM-Shearing, issue 24: Composer
  const TrainingLog composer = log_of(
      "[batch=366/48000]:\n\t Train time/batch: 365\n\t Train memory/peak_allocated_mem: 44.6420\n"
      "\t Train memory/peak_reserved_mem: 51.3280\n\t Train throughput/batches_per_sec: 0.25\n");
  BOOST_TEST(composer.step_times.at(0) == 4.0);
  BOOST_TEST(composer.reserved_bytes.value() == 51.3280 * 1e9);
}

BOOST_AUTO_TEST_CASE(other_spellings_of_a_log_are_read) {
  BOOST_TEST(
      log_of("iteration 2/ 9 | elapsed time per iteration (s): 3.21 | global batch size: 8 | "
             "samples per second: 2.5 | TFLOPs: 100.2 |\n")
          .tflops_per_gpu.at(0) == 100.2);
  // A progress bar overwrites its line.
  const TrainingLog bar = log_of(
      "Epoch 0: 1/9 [00:30, train_step_timing in s=8.560]\rEpoch 0: 2/9 [00:38, global_step=2.000, "
      "train_step_timing in s=8.250]\r\n");
  BOOST_TEST(bar.step_times == (std::vector<double>{8.56, 8.25}), boost::test_tools::per_element());
  BOOST_TEST(
      log_of("steps: 2 loss: 5.1 iter time (s): 1.25 samples/sec: 51.2\n").step_times.at(0) ==
      1.25);
  const TrainingLog late = log_of("0/1, SamplesPerSec=-inf\n0/2, SamplesPerSec=8.5\n");
  BOOST_TEST(late.samples_per_s.size() == 1u);
  BOOST_TEST(log_of("{'train_runtime': '99.0', 'train_samples_per_second': '8.0', "
                    "'train_steps_per_second': '0.5', 'epoch': '1'}\n")
                 .step_times.at(0) == 2.0);
  BOOST_TEST(log_of("{\"train_samples_per_second\": 8.0, \"train_steps_per_second\": 0.25}")
                 .step_times.at(0) == 4.0);
  // The text before the first step may be long.
  const std::string settings(200'000, '.');
  BOOST_TEST(log_of(settings + "\nelapsed time per iteration (ms): 5 |\n").step_times.size() == 1u);
}

BOOST_AUTO_TEST_CASE(logs_of_further_frameworks_are_read) {
  const TrainingLog nanotron = log_of(
      "iteration: 5 / 10 | consumed_tokens: 2.62M | elapsed_time_per_iteration_ms: 1.2K | "
      "tokens_per_sec: 437K | tokens_per_sec_per_gpu: 54.6K | global_batch_size: 512 | lm_loss: 9 "
      "| "
      "model_tflops_per_gpu: 301\n");
  BOOST_TEST(nanotron.step_times.at(0) == 1.2);
  BOOST_TEST(nanotron.global_batch.value() == 512);
  BOOST_TEST(nanotron.tflops_per_gpu.at(0) == 301.0);
  const TrainingLog litgpt = log_of(
      "Epoch 1 | iter 1 step 0 | loss train: 1.5 | iter time: 300.00 ms\n"
      "Epoch 1 | iter 2 step 1 | loss train: 1.5 | iter time: 310.00 ms (step)\n");
  BOOST_TEST(litgpt.step_times.at(0) == 0.61, boost::test_tools::tolerance(1e-9));
  BOOST_TEST(log_of("iter 10: loss 3.2, time 135.20ms, mfu 40.12%\n").step_times.at(0) == 0.1352,
             boost::test_tools::tolerance(1e-9));
  const TrainingLog maxtext = log_of(
      "completed step: 3, seconds: 4.250, TFLOP/s/device: 380.5, Tokens/s/device: 9000.1, loss: "
      "8\n");
  BOOST_TEST(maxtext.step_times.at(0) == 4.25);
  BOOST_TEST(log_of("throughput/device/tokens_per_second=8,123\n").tokens_per_s_per_gpu.at(0) ==
             8123.0);
  const TrainingLog swift =
      log_of("{'loss': 1.2, 'memory(GiB)': 20.5, 'train_speed(iter/s)': 0.25}\n");
  BOOST_TEST(swift.step_times.at(0) == 4.0);
  BOOST_TEST(swift.reserved_bytes.value() == 20.5 * 1073741824);
  const TrainingLog history =
      log_of("\"train/global_step\",\"_runtime\",\"loss\"\n10,20,1\n20,30,1\n30,40,1\n");
  BOOST_TEST(history.step_times.size() == 2u);
  BOOST_TEST(history.step_times.at(0) == 1.0);
}

BOOST_AUTO_TEST_CASE(a_trainers_bars_and_metrics_tell_steps_and_batches) {
  const TrainingLog bar = log_of(
      "***** Running training *****\n"
      "  Total train batch size (w. parallel, distributed & accumulation) = 32\n"
      " 32%|###| 100/313 [02:49<06:00,  1.69s/it]\r 33%|###| 101/313 [02:51<06:00,  2.0it/s]\n");
  BOOST_TEST(bar.step_times.size() == 2u);
  BOOST_TEST(bar.step_times.at(0) == 1.69);
  BOOST_TEST(bar.step_times.at(1) == 0.5);
  BOOST_TEST(bar.global_batch.value() == 32);
  const TrainingLog end = log_of(
      "{'train_runtime': 2000.0, 'train_samples_per_second': 321.97, 'train_steps_per_second': "
      "1.257}\n");
  BOOST_TEST(end.global_batch.value() == 256);
  const TrainingLog block = log_of(
      "***** train metrics *****\n  train_samples_per_second =      4.800\n"
      "  train_steps_per_second   =       0.15\n");
  BOOST_TEST(block.step_times.at(0) == 1 / 0.15);
  BOOST_TEST(block.global_batch.value() == 32);
}

BOOST_AUTO_TEST_CASE(a_memory_of_zero_is_none_and_a_link_is_no_rate) {
  BOOST_TEST(!log_of("step:  3  loss:  4.9  memory:  0.00GiB(0.00%)  tps: 3,483\n")
                  .reserved_bytes.has_value());
  BOOST_CHECK_THROW(log_of("# loss: see https://x.org for memory: 1\n"), InputError);
}

BOOST_AUTO_TEST_CASE(a_log_without_a_time_is_refused) {
  BOOST_CHECK_THROW(log_of("{\"log_history\": [{\"loss\": 1.0, \"step\": 10}]}\n"), InputError);
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
