// Logs as frameworks write them and people show them.
#include <boost/test/unit_test.hpp>

#include "../scratch.hpp"
#include "base/error.hpp"
#include "foreign/logs/import_log.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(foreign_logs)
namespace {

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

BOOST_AUTO_TEST_CASE(a_clock_tells_each_stretch_where_a_rate_is_that_since_the_start) {
  // ms-swift's train_speed is elapsed time over all steps: 23.6 s since the start, 10.2 s of late.
  const TrainingLog swift = log_of(
      "{'loss': 2.9, 'global_step/max_steps': '5/16', 'elapsed_time': '1m 58s', "
      "'train_speed(s/it)': 23.6}\n"
      "{'loss': 1.6, 'global_step/max_steps': '10/16', 'elapsed_time': '2m 49s', "
      "'train_speed(s/it)': 16.9}\n"
      "{'loss': 1.3, 'global_step/max_steps': '15/16', 'elapsed_time': '3m 40s', "
      "'train_speed(s/it)': 14.7}\n");
  BOOST_TEST(swift.step_times.size() == 2u);
  BOOST_TEST(swift.step_times.at(0) == 10.2);
  const TrainingLog bars = log_of(
      "1|52|Loss: 2.36:   0%| | 52/25880 [00:24<3:55:01,  1.83it/s]\n"
      "1|53|Loss: 2.35:   0%| | 53/25880 [00:24<3:55:01,  1.83it/s]\n"
      " 12%| | 1/8 [00:06<00:00,  1.14it/s]\n"
      "1|80|Loss: 2.31:   0%| | 80/25880 [00:38<3:50:01,  1.9it/s]\n"
      "1|100|Loss: 2.30:   0%| | 100/25880 [1:00:48<3:50:01,  1.9it/s]\n");
  BOOST_TEST(bars.step_times.size() == 1u);
  BOOST_TEST(bars.step_times.at(0) == 3610.0 / 20);
}

BOOST_AUTO_TEST_CASE(a_clock_tells_more_than_a_rate_of_one_digit) {
  const TrainingLog slow = log_of(
      "***** Running training *****\n"
      " 25%| | 1/4 [03:38<10:54, 218.1s/it]\n 50%| | 2/4 [07:16<07:16, 218.0s/it]\n"
      "{'train_runtime': 871.8, 'train_samples_per_second': 1.147, 'train_steps_per_second': "
      "0.005, 'epoch': 1.0}\n");
  BOOST_TEST(slow.step_times.size() == 1u);
  BOOST_TEST(slow.step_times.at(0) == 218.0);
}

BOOST_AUTO_TEST_CASE(logs_of_small_trainers_are_read) {
  BOOST_TEST(log_of("iter 16: loss 4.0, time 562.5ms\n").step_times.at(0) == 0.5625);
  const TrainingLog modded = log_of(
      "    print(f'step:{step} train_time:{time:.0f}ms step_avg:{average:.2f}ms')\n"
      "step:100/5100 train_loss:3.3 train_time:14100ms step_avg:141.00ms\n"
      "step:200/5100 train_loss:3.2 train_time:28300ms step_avg:141.50ms\n"
      "step:200/5100 val_loss:3.2 train_time:28300ms step_avg:141.50ms\n");
  BOOST_TEST(modded.step_times.at(0) == 0.142, boost::test_tools::tolerance(1e-9));
  const TrainingLog metric = log_of(
      "[05:19:47] Epoch: [1]  [1480/1504]  lr: 0.000012  loss: 0.9 (0.95)  time: 4.3916  data: "
      "0.0002  max mem: 51710\n");
  BOOST_TEST(metric.step_times.at(0) == 4.3916);
  BOOST_TEST(metric.allocated_bytes.value() == 51710 * 1048576.0);
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

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
