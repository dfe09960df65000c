// The reference of keys says what the readers of files ask for, both ways: each key, its type and
// its default. What readers ask for is noted while they read what is shipped and the options below.
#include "keys/keys.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "base/error.hpp"
#include "base/data_folder.hpp"
#include "cluster/cluster.hpp"
#include "config/key_log.hpp"
#include "convergence/curve.hpp"
#include "planner/plan.hpp"
#include "profile/comm_profile.hpp"
#include "profile/compute_profile.hpp"
#include "scenario/scenario.hpp"
#include "study/study.hpp"
#include "validation/cases.hpp"

using namespace rehearse;

namespace {

namespace fs = std::filesystem;

// --- what is read

const char* const kNetwork = "model={name: toy, batch_per_gpu: 4, optimizer_time: 1ms, units: "
                             "[{name: a, parameters: 9, forward: 1ms, backward: 1ms, "
                             "activation: 1MiB, host_launch: 1us}]}";
const char* const kMachine =
    "cluster={nodes: 4, name: mine, source: here, node: {gpus: 2, nics: 1, nic: 25Gbps, "
    "nic_burst: 1MiB, host_bandwidth: 90GBps, cores: 8, memory: 80GiB, tdp: 400W, speed: 1.1, "
    "pcie: 20GBps, pcie_latency: 1us, pcie_peer_to_peer: false, staged_rate: 20GBps, "
    "usd_per_hour: {on_demand: 9, spot: 3}, ";
const char* const kGpu =
    "gpu: {name: X, fp32: 30TFLOPs, tf32: 60TFLOPs, fp16: 90TFLOPs, bf16: 90TFLOPs, memory: 24GiB, "
    "memory_bandwidth: 900GBps, source: me, tdp: 300W, sms: 60, profiles: /, kernels: {matrix: 0.7, "
    "matrix_fp32: 0.7, matrix_memory: 0.7, attention: 0.3, memory: 0.8, launch: 3us, source: me}}";

std::string machine(const std::string& fabric, const std::string& more = "") {
  return fmt::format("{}{}}}, fabric: {}, shared_cores: 4, head_start: 0.1, busy_cores: {{slowdown: "
                     "1.2, spread: 0.1, drift: 0.1}}}}",
                     kMachine, more, fabric);
}

/// Options that no shipped scenario uses, each a list of `--set`s of scenarios/toy_ddp.yaml.
std::vector<std::vector<std::string>> more_options() {
  const std::string built_in = "model={use: gpt2, batch_per_gpu: 4, ";
  const std::string platforms = (data_folder() / "platforms/").string();
  const std::string failures =
      "train={samples_per_epoch: 1000, epochs: 2, market: on_demand}";
  return {
      {kNetwork, "model.measured_at={batch_per_gpu: 4, gpu: A10G, precision: fp32}",
       "model.precision=fp32", "model.activation_checkpointing={every: 1}"},
      {kNetwork, "model.measured_at={batch_per_gpu: 4, gpu: generic}",
       "model.activation_checkpointing={units: [a]}",
       "run={steps: 3, warmup_steps: 1, until: steps, seed: 2, fidelity: hop, jitter: {lognormal: "
       "{cv: 0.1}}, replications: {precision: 0.1, at_least: 1, at_most: 9}, stragglers: [{rank: 0, "
       "slowdown: 1.1, delay: 1ms}], speed_spread: 0.01, overlap_slowdown: 1.1, set_to_none: true}"},
      {"run={jitter: {exponential: {cv: 0.5}}, replications: 3, efficiency: {matrix: 0.5, depthwise: "
       "0.5, attention: 0.5, memory: 0.5, kernel_launch: 3us, host_launch: 5us, "
       "attention_kernel: flash1}}"},
      {"run={jitter: {exponential: {}}, replications: {precision: 0.1}, fidelity: auto}"},
      {"run={jitter: none}"},
      {built_in + "sequence: 128, flash_attention: false, loss: huggingface, precision: bf16, costs: "
                  "analytic, activation_checkpointing: per_unit}"},
      {built_in + "measured: {tokens_per_s: 9000, gpus: 2, batch_per_gpu: 4, "
                  "gradient_accumulation: 2}}",
       "cluster.node.gpu=A100-SXM-80"},
      {built_in + "measured: {samples_per_s: 9}}", "cluster.node.gpu=A100-SXM-80"},
      {built_in + "measured: {step_time: 310ms}}", "cluster.node.gpu=A100-SXM-80"},
      {"model={batch_per_gpu: 4, sequence: 64, transformer: {layers: 2, hidden_size: 64, "
       "heads: 4, kv_heads: 2, head_dim: 16, intermediate_size: 128, vocab_size: 100, "
       "activation: swiglu, norm: rmsnorm, position: rope, tie_embeddings: false, bias: "
       "false, qkv_bias: true, experts: {count: 4, active: 2, intermediate_size: 32, shared:"
       " 1, first_dense: 1, interval: 1, capacity: 1.25}, multi_token_prediction: 1, "
       "attention: {sliding: 8, full_every: 2}}}"},
      {"model={batch_per_gpu: 4, sequence: 64, transformer: {num_layers: 2, hidden_size: 64,"
       " num_attention_heads: 4, num_query_groups: 2, kv_channels: 16, ffn_hidden_size: 128,"
       " vocab_size: 100, tie_word_embeddings: true, experts: {count: 4, active: 2, "
       "capacity: dropless}, attention: full}}"},
      {"model={batch_per_gpu: 4, sequence: 64, transformer: {num_hidden_layers: 2, "
       "hidden_size: 64, num_attention_heads: 4, num_key_value_heads: 2, ffn_hidden_size: "
       "128, vocab_size: 100, attention: {mla: {q_lora_rank: 8, kv_lora_rank: 8, "
       "qk_nope_head_dim: 8, qk_rope_head_dim: 8, v_head_dim: 8}}}}"},
      {"model={use: llama_7b, batch_per_gpu: 4, sequence: 64, layers: 2, hidden_size: 64, "
       "heads: 4, kv_heads: 2, head_dim: 16, intermediate_size: 128, vocab_size: 100, "
       "activation: swiglu, norm: rmsnorm, position: rope, tie_embeddings: false, bias: "
       "false, qkv_bias: true, experts: {count: 4, active: 2, intermediate_size: 32, shared:"
       " 1, first_dense: 1, interval: 1, capacity: 1.25}, multi_token_prediction: 1}"},
      {"model={use: llama_7b, batch_per_gpu: 4, sequence: 64, num_layers: 2, hidden_size: "
       "64, num_attention_heads: 4, num_query_groups: 2, kv_channels: 16, ffn_hidden_size: "
       "128, vocab_size: 100, tie_word_embeddings: true, experts: {count: 4, active: 2, "
       "capacity: dropless}}"},
      {"model={use: llama_7b, batch_per_gpu: 4, sequence: 64, num_hidden_layers: 2, "
       "hidden_size: 64, num_attention_heads: 4, num_key_value_heads: 2, ffn_hidden_size: "
       "128, vocab_size: 100}"},
      {"model={hf: " + (data_folder() / "tests/model/configs/gpt2.json").string() +
       ", batch_per_gpu: 1}",
       "train={tokens: 1Mi, global_batch: {tokens: 8Ki}}"},
      {built_in + "}", "train={global_batch: {sequences: 64}}"},
      {"model={use: resnet50, batch_per_gpu: 4, classes: 10, image: 64, channels_last: true}"},
      {"memory={device: cuda, allocator: {max_split_size_mb: 128, expandable_segments: false, "
       "roundup_power2_divisions: 4, memory_fraction: 0.9, garbage_collection_threshold: 0.8}}"},
      {"memory={allocator: {}}"},
      {"strategy={ddp: {bucket_cap_mb: 1, first_bucket_mb: 1, gradient_as_bucket_view: true, "
       "static_graph: true, compression: fp16, gradient_accumulation: 2, algorithm: ring}}"},
      {"strategy={fsdp: {sharding: hybrid_shard, shard_group: 2, wrap: model, backward_prefetch: "
       "none, forward_prefetch: true, limit_all_gathers: false, param_dtype: bf16, reduce_dtype: "
       "fp32, buffer_dtype: fp32, cpu_offload: true, gradient_accumulation: 2, algorithm: ring, "
       "host_overhead: 1us}}",
       built_in + "}"},
      {"strategy={fsdp: {wrap: {min_num_params: 9}}}"},
      {"strategy={fsdp: {wrap: {}}}"},
      {"strategy={fsdp: {}}"},
      {"strategy={zero: {stage: 3}}"},
      {"strategy={zero: {stage: 1}}"},
      {"strategy={ps: {servers: 2, server_host: worker, staleness: 2, backup_workers: 0, apply_rate: "
       "1GBps, aggregate: none, worker_cpu_rate: 1GBps, server_cpu_rate: 1GBps, partition: unit, "
       "layerwise: true, warmup_rounds: 1, local_steps: 2, sampled_workers: 0}}"},
      {"strategy={ps: {}}"},
      {"strategy={local_sgd: {period: 4, algorithm: ring}}"},
      {"strategy={local_sgd: {period: 4}}"},
      {"optimizer={adamw: {fused: false, foreach: true, state_dtype: bf16, master_dtype: none}}"},
      {"optimizer={adam: {}}"},
      {machine("{fat_tree: {down: [2, 2], up: [1, 1], links: [1, 1], bandwidth: 9Gbps, latency: "
               "1us, burst: 1MiB}}",
               kGpu)},
      {machine("{torus: {dimensions: [2, 2], bandwidth: 9Gbps, latency: 1us, burst: 1MiB}}",
               "transport: {rdma: {efficiency: 0.8, rate: 9GBps, per_message: 1us}}")},
      {machine("{dragonfly: {groups: 2, chassis: 1, routers: 2, nodes_per_router: 1, group_links: 2, "
               "chassis_links: 2, router_links: 2, bandwidth: 9Gbps, latency: 1us, burst: 1MiB}}",
               "transport: {tcp: {efficiency: 0.8, rate: 1GBps, per_message: 1us}}, nic_latency: "
               "9us")},
      {"cluster={nodes: 4, node: {nic: 1Gbps, pcie_peer_to_peer: false, usd_per_hour: 3}, fabric: "
       "{dragonfly: {groups: 2, chassis: 1, routers: 2, nodes_per_router: 1, bandwidth: 9Gbps}}}"},
      {"cluster={nodes: 2, node: {gpus: 2, nvlink: 300GBps, nvlink_latency: 1us, nic: 9Gbps}, "
       "busy_cores: {slowdown: 2}, shared_cores: 2}"},
      {"cluster={nodes: 2, node: {gpu: A10, nvlink: 300GBps, nic: 200Gbps}, comm_profile: " +
       platforms + "profiles/comm/p5_h100.yaml}"},
      {"cluster={groups: [{name: a, nodes: 2, node: {nic: 9Gbps}}]}"},
      {"cluster={use: aws_p4d, nodes: 2, gpus_per_node: 4, name: x, nic: 9Gbps, nics: 1, nic_latency: "
       "9us, nic_burst: 1MiB, transport: tcp, nvlink: 200GBps, nvlink_latency: 1us, pcie: 20GBps, "
       "pcie_latency: 1us, host_bandwidth: 90GBps, cores: 9, speed: 1, memory: 30GiB, tdp: 300W, "
       "usd_per_hour: 3, comm_profile: none}"},
      {"cluster={use: aws_p4d, nodes: 2, nic: [9Gbps], transport: {rdma: {}}, host_bandwidth: [90GBps], cores: [9]}"},
      {"cluster={use: " + platforms + "aws_g5_12xlarge.yaml, nodes: 2, staged_rate: 9GBps}"},
      {"energy={compute: 1, communication: 0.5, idle: 0.2, host: 500W, pue: 1.1, grid_gco2_per_kwh: "
       "300, usd_per_kwh: 0.1}",
       "cluster.node.tdp=300W"},
      {"energy={}", "cluster.node.tdp=300W"},
      {failures,
       "failures={mtbf_per_node: 900h, mean_time_to_preemption: 30h, distribution: {weibull: {shape: "
       "0.7}}, detect: 1min, restart: 1min, on_failure: spare, spares: 2, repair: 4h, trainings: 20, "
       "checkpoint: {interval: 30min, write: 9s, read: 9s, asynchronous: true}}"},
      {failures,
       "failures={mtbf_per_node: 900h, checkpoint: {interval: auto, storage: 2GBps, "
       "storage_per_node: 1GBps}}"},
      {failures, "failures={mtbf_per_node: 900h, distribution: exponential, checkpoint: {write: 9s}}"},
      {"start={mode: gang, arrivals: {exponential: {mean: 3min}}}"},
      {"start={arrivals: {uniform: {latest: 3min}}}"},
      {"start={arrivals: [0s, 1s, 2s, 3s]}"},
      {"jobs={nodes: [0, 1], others: [{nodes: [2, 3], strategy: {fsdp: {}}, optimizer: {adam: {}}, "
       "model: {use: resnet50, batch_per_gpu: 4}}]}"},
  };
}

const char* const kPlan = R"(
scenario: SCENARIO
vary: {cluster.nodes: [2, 4]}
search: {strategies: all, options: auto}
constraints: {memory: fits, gpus: 8, global_batch: {min: 1, max: 99}, deadline: 9h, budget_usd: 9,
  energy_kwh: 9, co2_kg: 9, samples_per_s: 9, accuracy: 0.9}
objective: {pareto: [time, cost]}
)";
const char* const kStudy = R"(
description: mine
scenario: SCENARIO
vary: {nodes: {zip: {cluster.nodes: [2, 4]}, labels: [a, b]}, run.steps: {values: [1, 2]}}
only: [{nodes: a}]
exclude: [{run.steps: 2}]
seeds: 2
)";
const char* const kComm = R"(
name: mine
hardware: mine
source: mine
curves:
  - {collective: all_reduce, ranks: 2, nodes: 2, segments: [{latency: 9us, busbw: 1GBps}],
     fitted_on: {smallest: 1kB, largest: 1MB}, residual_median: 0.1, residual_max: 0.2,
     held_out_median: 0.1, held_out_max: 0.1, error_p90_small: 0.1, error_p90_large: 0.1}
  - {collective: broadcast, ranks: 2, nodes: 2, segments: [{latency: 9us, busbw: 1GBps}],
     fitted_on: {smallest: 1kB, largest: 1MB}, residual_median: 0.1, residual_max: 0.2}
overlap: [{collective: all_reduce, size: 1MiB, compute_slowdown: 1.1, comm_slowdown: 1.1}]
transport: {segments: 2, largest_segment: 1MiB, at_a_time: 2, efficiency: 0.9, wake: 9us,
  per_message: 9us, host_rate: 1GBps, slice: 1ms, queued: 1kB, measured_at: 1GBps,
  efficiency_error: 0.1, host_error: 0.1}
links: {nvlink: 9GBps, nvlink_latency: 1us, pcie: 9GBps, pcie_latency: 1us, pcie_peer_to_peer: true,
  staged_rate: 9GBps, nics: 1, nic: 9GBps, nic_latency: 1us, transport: rdma}
)";
const char* const kCompute = R"(
schema: rehearse.profile/1
kind: compute
model: mine
precision: fp32
provenance: {device: X, driver: x, cuda: x, nccl: x, libtorch: x, date: x, command: x,
  host_threads: 1}
sample: {SAMPLE}
rates: {fp32: 9TFLOPs, tf32: 9TFLOPs, fp16: 9TFLOPs, bf16: 9TFLOPs, memory_bandwidth: 9GBps,
  memory: 9GiB}
units: [{name: a, tensors: [9], buffer_elements: 1}]
step_optimizer: sgd
optimizers: {sgd: {time: 1ms, spread: 0.1, repetitions: 9}}
points:
  - {batch: 1, repetitions: 9, allocated_peak: 1MiB, reserved_peak: 1MiB,
     whole: {forward: 1ms, backward: 2ms, optimizer: 1ms, step: 4ms},
     sum_check: {units: 3ms, whole: 3ms, difference: 0},
     units: [{name: a, forward: 1ms, backward: 2ms, forward_spread: 0.1, backward_spread: 0.1,
              forward_launch: 1us, backward_launch: 1us, saved: 1kB, workspace: 1kB,
              forward_flops: 9, backward_flops: 9, forward_moved: 1kB, backward_moved: 1kB}]}
)";
const char* const kCurve = R"({"schema": "rehearse.curve/1", "source": "replay", "model": "m",
 "dataset": "d", "train_samples": 9, "test_samples": 9, "workers": 2, "batch": 1, "learning_rate": 1,
 "momentum": 0, "weight_decay": 0, "seed": 1, "updates": 9, "diverged": false,
 "mitigation": {"staleness_aware": false, "momentum_correction": false, "delay_compensation": 0,
   "staleness_bound": 1, "backup_workers": 0, "warmup_rounds": 0, "local_steps": 1},
 "staleness": {"mean": 1, "p50": 1, "p99": 1, "max": 1, "histogram": {"1": 9}},
 "points": [{"update": 0, "time_s": 0, "samples": 0, "train_loss": 1, "test_loss": 1,
   "test_accuracy": 0.1, "staleness": {"mean": 1, "recent": 1}}]})";

std::string replaced(std::string text, const std::string& word, const std::string& by) {
  text.replace(text.find(word), word.size(), by);
  return text;
}

/// Reads one of everything; what one reader finds wrong fails the test by its message.
class Corpus {
 public:
  Corpus() : scratch_(fs::temp_directory_path() / fmt::format("rehearse_keys_{}", getpid())) {
    fs::create_directory(scratch_);
  }
  ~Corpus() { fs::remove_all(scratch_); }

  void read_all() {
    const fs::path root = data_folder();
    const std::string toy = (root / "scenarios/toy_ddp.yaml").string();
    for (const std::string& name : gpu_names()) known_gpu(name);
    for (const std::string& name : cluster_names()) describe_cluster(name);
    for (const auto& entry : fs::directory_iterator(root / "scenarios"))
      if (entry.path().extension() == ".yaml") attempt([&] { read_scenario(entry.path(), {}); });
    for (const auto& options : more_options()) attempt([&] { read_scenario(toy, options); });
    attempt([&] { read_scenario(root / "tests/data/forecast.yaml", {}); });
    // Read, and then refused: a CPU's profiles are for clusters of its own.
    const std::string cpu = "amd_epyc_1_thread";
    for (const std::string& model :
         {"use: small_mlp, transfer_from: " + cpu,
          "profile: " + (root / "platforms/profiles/compute" / cpu / "small_mlp_fp32.yaml").string() +
              ", precision: fp32"}) {
      BOOST_CHECK_THROW(
          read_scenario(toy, {fmt::format("model={{batch_per_gpu: 4, {}}}", model)}), Error);
    }
    attempt([&] {
      read_scenario(root / "tests/data/forecast.yaml",
                    {"convergence.momentum=0", "convergence.staleness_aware=true",
                     "convergence.momentum_correction=true", "convergence.delay_compensation=0.1"});
    });
    attempt([&] { read_study(write("study.yaml", replaced(kStudy, "SCENARIO", toy)), {}); });
    std::string plan = replaced(kPlan, "SCENARIO", toy);
    attempt([&] { read_plan(write("plan.yaml", plan), {}); });
    plan = replaced(plan, "memory: fits", "memory: 9GiB");
    plan = replaced(plan, "{min: 1, max: 99}", "9");
    plan = replaced(plan, "{pareto: [time, cost]}", "time");
    plan = replaced(plan, "strategies: all, options: auto", "strategies: [ddp], options: [buckets]");
    attempt([&] { read_plan(write("plan2.yaml", plan), {}); });
    attempt([&] { read_comm_profile(document("comm_profile.yaml", kComm)); });
    for (const char* sample : {"image: 9", "sequence: 9", "input: 3x9"}) {
      attempt([&] {
        read_compute_profile(
            document("compute_profile.yaml", replaced(kCompute, "SAMPLE", sample)));
      });
    }
    attempt([&] { read_curve(write("curve.json", kCurve)); });
    for (const fs::path& file : case_files({root / "scenarios/validation"}))
      attempt([&] { read_case_file(file); });
  }

  /// The kind of file by its name: what its keys begin with. Nothing: none of ours.
  static std::optional<std::string> kind_of(const std::string& file) {
    if (file.starts_with("--set")) return "";
    const fs::path path(file);
    const std::string folder = path.parent_path().filename();
    if (path.filename() == "gpus.yaml") return "gpu.";
    if (folder == "platforms") return "cluster.";
    if (folder == "kernels") return std::nullopt;  // of platforms/kernels/fit, told in its README
    if (folder == "comm") return "comm_profile/";
    if (path.parent_path().parent_path().filename() == "compute") return "compute_profile/";
    if (path.parent_path().filename() == "validation") return "cases/";
    for (const char* kind : {"study", "plan", "comm_profile", "compute_profile", "curve"})
      if (path.stem().string().starts_with(kind)) return fmt::format("{}/", kind);
    if (file == "defaults" || path.extension() == ".yaml") return "";
    return std::nullopt;  // a recorded curve, or a text of the program's own
  }

 private:
  template <class Read>
  void attempt(Read&& read) {
    try {
      read();
    } catch (const Error& wrong) {
      BOOST_ERROR(wrong.what());
    }
  }
  fs::path write(const std::string& name, const std::string& text) {
    std::ofstream(scratch_ / name) << text;
    return scratch_ / name;
  }
  Value document(const std::string& name, const std::string& text) {
    return Document::load(write(name, text))->root();
  }

  fs::path scratch_;
};

// --- what the readers asked for, by the path that the reference would have

KeyLog::Use& merged(std::map<std::string, KeyLog::Use>& all, const std::string& path,
                    const KeyLog::Use& use) {
  KeyLog::Use& at = all[path];
  at.types.insert(use.types.begin(), use.types.end());
  at.defaults.insert(use.defaults.begin(), use.defaults.end());
  return at;
}

const std::map<std::string, KeyLog::Use>& asked() {
  static const std::map<std::string, KeyLog::Use> kAsked = [] {
    KeyLog log;
    Corpus().read_all();
    std::map<std::string, KeyLog::Use> all;
    for (const auto& [at, use] : log.uses()) {
      const auto kind = Corpus::kind_of(at.first);
      if (!kind) continue;
      std::string path = std::regex_replace(at.second, std::regex(R"(\.\d+(?=\.|$))"), "[]");
      if (*kind == "gpu.") {
        const std::size_t dot = path.find('.');
        if (dot == std::string::npos) continue;
        path = "cluster.node.gpu." + path.substr(dot + 1);
      } else {
        path = *kind + path;
      }
      if (path.empty() || path.back() == '.' || path.back() == '/') continue;  // a file's root
      merged(all, path, use);
    }
    return all;
  }();
  return kAsked;
}

// --- what the reference says

struct Row {
  std::string path;
  const Key* key;
  const KeySection* section;
  std::regex pattern;
};

/// `[]` as it stands; NAME is one name, KEY any path.
std::regex pattern_of(const std::string& path) {
  std::string text = std::regex_replace(path, std::regex(R"([.\[\]])"), R"(\$&)");
  text = std::regex_replace(text, std::regex("NAME"), R"([^./]+)");
  return std::regex(std::regex_replace(text, std::regex("KEY"), ".+?"));
}

const std::vector<Row>& rows() {
  static const std::vector<Row> kRows = [] {
    std::vector<Row> all;
    for (const KeySection& section : key_sections()) {
      for (const Key& key : section.keys) {
        const std::string path = fmt::format("{}{}", section.prefix, key.name);
        all.push_back({path, &key, &section, pattern_of(path)});
      }
    }
    return all;
  }();
  return kRows;
}

std::vector<std::string> split(const std::string& text, const std::string& by) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  for (std::size_t end; (end = text.find(by, begin)) != std::string::npos; begin = end + by.size())
    parts.push_back(text.substr(begin, end - begin));
  parts.push_back(text.substr(begin));
  return parts;
}

/// The alternatives of a type, without units.
std::vector<std::string> types_of(const Key& key) {
  const std::string whole =
      std::regex_replace(std::string(key.type), std::regex("true or false"), "true/false");
  std::vector<std::string> types = split(whole, " or ");
  for (std::string& type : types) {
    if (type == "true/false") type = "true or false";
    type = std::regex_replace(type, std::regex(R"( \(.*\)$| of `.*`$)"), "");
  }
  return types;
}

/// The rows of a path: its own, else those with NAME and KEY, else what the path stands for.
std::vector<const Row*> rows_of(const std::string& path, int depth = 0) {
  for (const Row& row : rows())
    if (row.path == path) return {&row};
  for (const Row& row : rows())
    if (row.path.find("KEY") == std::string::npos && std::regex_match(path, row.pattern))
      return {&row};
  std::vector<const Row*> found;
  if (depth > 4) return found;
  for (const Row& row : rows()) {
    for (const std::string& type : types_of(*row.key)) {
      if (!type.starts_with("as ")) continue;
      std::smatch match;
      const std::string whole = row.path.ends_with("KEY") ? row.path.substr(0, row.path.size() - 4)
                                                          : row.path;
      if (!path.starts_with(whole + ".") && !path.starts_with(whole + "[")) continue;
      for (const Row* one : rows_of(type.substr(3) + path.substr(whole.size()), depth + 1))
        found.push_back(one);
    }
  }
  if (!found.empty()) return found;
  const Row* longest = nullptr;
  for (const Row& row : rows())
    if ((longest == nullptr || row.path.size() > longest->path.size()) &&
        std::regex_match(path, row.pattern))
      longest = &row;
  if (longest != nullptr) found.push_back(longest);
  return found;
}

bool is_item(const std::string& path) { return path.ends_with("[]"); }

/// What stands below `only: [{axis: label}]`, and in the values of axes, has names of its own.
bool has_free_names(const std::string& path) {
  static const std::regex kFree(
      R"((study|plan)/(only|exclude)\[\].*|(study|plan)/vary\..*\.(zip|values|labels)[.\[].*|)"
      R"((study|plan)/vary\..*\[\].*|(study|plan)/(cluster|run|model|strategy)\b.*|strategy\[\].*)");
  return std::regex_match(path, kFree);
}

/// How each key was read: lists as "list of TYPE".
std::map<const Row*, KeyLog::Use> uses_by_row() {
  std::map<const Row*, KeyLog::Use> by_row;
  for (const auto& [path, use] : asked()) {
    if (is_item(path) || has_free_names(path)) continue;
    KeyLog::Use whole = use;
    const auto items = asked().find(path + "[]");
    if (items != asked().end() && whole.types.erase("list") > 0)
      for (const std::string& type : items->second.types) whole.types.insert("list of " + type);
    for (const Row* row : rows_of(path)) {
      KeyLog::Use& at = by_row[row];
      at.types.insert(whole.types.begin(), whole.types.end());
      at.defaults.insert(whole.defaults.begin(), whole.defaults.end());
    }
  }
  return by_row;
}

bool is_fixed(const std::string& type) { return type.starts_with("as ") || type == "list"; }

/// Whether the reference's alternatives are what was read; "a name" stands for any list of names.
std::string difference_of_types(const Key& key, std::set<std::string> read) {
  std::string wrong;
  bool has_name = false;
  for (const std::string& type : types_of(key)) {
    const bool is_name = type == "a name" || type == "list of a name";
    has_name = has_name || is_name;
    if (is_fixed(type) || is_name) continue;
    if (read.erase(type) == 0) wrong += fmt::format("; never read as \"{}\"", type);
  }
  for (const std::string& type : read) {
    const bool names = type.find(" | ") != std::string::npos || type == "text" ||
                       type == "list of text" || type == "worker";
    if (has_name && names) continue;
    if (std::ranges::any_of(types_of(key), is_fixed)) continue;
    wrong += fmt::format("; read as \"{}\"", type);
  }
  return wrong;
}

std::string difference_of_defaults(const Key& key, const std::set<std::string>& taken) {
  if (taken.empty() || key.fallback.starts_with("(")) return "";
  const std::vector<std::string> listed = split(std::string(key.fallback), " or ");
  const std::set<std::string> said(listed.begin(), listed.end());
  return said == taken ? "" : fmt::format("; its default is {}", fmt::join(taken, " or "));
}

std::string text_of(const fs::path& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

}  // namespace

BOOST_AUTO_TEST_SUITE(keys)

BOOST_AUTO_TEST_CASE(every_key_that_a_reader_asks_for_stands_in_the_reference) {
  for (const auto& [path, use] : asked()) {
    if (is_item(path) || has_free_names(path)) continue;
    BOOST_CHECK_MESSAGE(!rows_of(path).empty(),
                        path << " is in no line of sim/keys; types: " << fmt::format("{}", use.types)
                             << ", defaults: " << fmt::format("{}", use.defaults));
  }
}

BOOST_AUTO_TEST_CASE(every_key_of_the_reference_is_asked_for_with_its_type_and_default) {
  const auto by_row = uses_by_row();
  for (const Row& row : rows()) {
    if (row.section->prefix == "cases/") continue;  // recorded runs are long to read
    if (is_fixed(types_of(*row.key).front())) continue;
    const auto found = by_row.find(&row);
    BOOST_CHECK_MESSAGE(found != by_row.end(), row.path << ": no reader asks for it");
    if (found == by_row.end()) continue;
    const std::string wrong = difference_of_types(*row.key, found->second.types) +
                              difference_of_defaults(*row.key, found->second.defaults);
    BOOST_CHECK_MESSAGE(wrong.empty(), row.path << wrong);
  }
}

/// Also what no file of the corpus reaches: by the literals in the readers' sources.
BOOST_AUTO_TEST_CASE(every_literal_of_a_reader_is_a_key_and_every_key_is_a_literal) {
  std::set<std::string> leaves;
  for (const Row& row : rows()) leaves.insert(row.path.substr(row.path.find_last_of("./") + 1));
  const std::regex call(R"re((?:require|optional|[a-z_]+_or|read_\w+|number_within|share|rate|add)\()re"
                        R"re((?:(?:map|run|failures|named\.options), )?"([a-z_0-9]+)")re");
  for (const char* folder : {"src", "sim"}) {
    for (const auto& entry : fs::recursive_directory_iterator(data_folder() / folder)) {
      if (entry.path().extension() != ".cpp") continue;
      // Nobody writes these files: platforms/kernels/fit does, and its README explains them.
      if (entry.path().filename() == "read_kernel_curves.cpp") continue;
      const std::string text = text_of(entry.path());
      if (text.find("Map ") == std::string::npos && text.find("Map&") == std::string::npos) continue;
      for (std::sregex_iterator i(text.begin(), text.end(), call), end; i != end; ++i)
        BOOST_CHECK_MESSAGE(leaves.contains((*i)[1]), entry.path().filename().string()
                                                          << " reads a key \"" << (*i)[1]
                                                          << "\", which is in no line of sim/keys");
    }
  }
  for (const Row& row : rows()) {
    std::string leaf = row.path.substr(row.path.find_last_of("./") + 1);
    if (leaf == "NAME" || leaf == "KEY") continue;
    std::string code;
    for (const std::string& file : split(std::string(row.section->code), " "))
      code += text_of(data_folder() / file);
    BOOST_CHECK_MESSAGE(code.find(fmt::format("\"{}\"", leaf)) != std::string::npos ||
                            types_of(*row.key).front().starts_with("as "),
                        row.path << ": not in " << row.section->code);
  }
}

BOOST_AUTO_TEST_CASE(the_page_is_what_the_program_prints) {
  BOOST_CHECK_MESSAGE(text_of(data_folder() / "scenarios/keys.md") == keys_markdown(),
                      "scenarios/keys.md is stale: ./rehearse list keys --format markdown > "
                      "scenarios/keys.md");
}

BOOST_AUTO_TEST_CASE(a_prefix_chooses_keys) {
  const std::string text = keys_text("strategy.ddp.bucket");
  BOOST_TEST(text ==
             "strategy.ddp.bucket_cap_mb = 25\n    number > 0 (MiB); PyTorch "
             "DistributedDataParallel\n    Gradients in one bucket, at the least.\n");
  BOOST_TEST(keys_text("no_such").empty());
}

BOOST_AUTO_TEST_SUITE_END()
