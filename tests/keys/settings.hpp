#pragma once

// Settings that reach readers which no shipped file reaches.
#include <fmt/format.h>

#include <string>
#include <vector>

#include "base/data_folder.hpp"

namespace rehearse {

inline const char* const kNetwork =
    "model={name: toy, batch_per_gpu: 4, optimizer_time: 1ms, units: "
    "[{name: a, parameters: 9, forward: 1ms, backward: 1ms, "
    "activation: 1MiB, host_launch: 1us}]}";
inline const char* const kMachine =
    "cluster={nodes: 4, name: mine, source: here, node: {gpus: 2, nics: 1, nic: 25Gbps, "
    "nic_burst: 1MiB, host_bandwidth: 90GBps, nvme: 9GBps, cores: 8, host_launch: 40us, memory: "
    "80GiB, tdp: "
    "400W, speed: 1.1, "
    "pcie: 20GBps, pcie_latency: 1us, pcie_peer_to_peer: false, staged_rate: 20GBps, "
    "usd_per_hour: {on_demand: 9, reserved: 4, spot: 3}, ";
inline const char* const kGpu =
    "gpu: {fp32: 30TFLOPs, memory: 24GiB, memory_bandwidth: 900GBps, tdp: 300W, profiles: /, "
    "kernels: {matrix: 0.7, matrix_fp32: 0.7, matrix_memory: 0.7, attention: 0.3, memory: 0.8, "
    "launch: 3us, source: me, relative: A10G}}";

inline std::string machine(const std::string& fabric, const std::string& more = "") {
  return fmt::format(
      "{}{}}}, fabric: {}, shared_cores: 4, head_start: 0.1, busy_cores: {{slowdown: "
      "1.2, spread: 0.1, drift: 0.1}}, run_queue: {{ready: 1ms, step: 9ms, ranks: 2, "
      "threads_per_rank: 1, cores: 4}}, measured_steps: [{{waiting: 0.1}}]}}",
      kMachine, more, fabric);
}

/// Options that no shipped scenario uses, each a list of `--set`s of scenarios/toy_ddp.yaml.
inline std::vector<std::vector<std::string>> more_options() {
  const std::string built_in = "model={use: gpt2, batch_per_gpu: 4, ";
  const std::string platforms = (data_folder() / "platforms/").string();
  const std::string failures = "train={steps: 9}";
  return {
      {kNetwork, "model.measured_at={batch_per_gpu: 4, gpu: A10G, precision: fp32}",
       "model.precision=fp32", "model.activation_checkpointing={every: 1}"},
      {kNetwork, "model.measured_at={batch_per_gpu: 4, gpu: generic}",
       "model.activation_checkpointing={units: [a]}",
       "run={jitter: {lognormal: {cv: 0.1}}, replications: {precision: 0.1, at_least: 1, at_most: "
       "9}, stragglers: [{rank: 0, slowdown: 1.1, delay: 1ms}], speed_spread: 0.01, "
       "overlap_slowdown: 1.1}"},
      {"run={jitter: {exponential: {cv: 0.5}}, replications: 3, data_loading: {sample: 1us, "
       "num_workers: 2}}"},
      {"run={jitter: {exponential: {}}, replications: {precision: 0.1}}"},
      {"run={jitter: none}"},
      {built_in + "sequence: 128, attention: eager, fused_softmax: true, loss: huggingface, "
                  "embedding_dtype: bf16, train_metrics: 2, "
                  "precision: bf16, costs: analytic, activation_checkpointing: per_unit}"},
      {built_in + "activation_checkpointing: {layers: 1}}"},
      {built_in + "activation_checkpointing: {every_layer: 2}}"},
      {built_in + "activation_checkpointing: {modules: [core_attn]}}"},
      {"model={use: mixtral_8x7b, batch_per_gpu: 1, precision: bf16_pure, "
       "experts_implementation: sequential}"},
      {built_in + "precision: fp8, num_layers_at_start_in_bf16: 1, num_layers_at_end_in_bf16: 1}",
       "cluster={use: dgx_h100}"},
      {built_in + "precision: bf16, float8: tensorwise, compile: blocks}",
       "cluster={use: dgx_h100}"},
      {built_in +
       "loss: fused, compile: true, lora: {rank: 8, alpha: 16, targets: [q, v], dtype: bf16, "
       "dropout: 0, modules_to_save: [embeddings]}, quantization: nf4, precision: "
       "bf16_pure, fused_qkv: true, parallel: none}"},
      {built_in +
       "loss: {chunked: 8, of: cross_entropy, keeps: logits}, lora: {targets: all_linear}, "
       "quantization: {weights: nf4, "
       "others: model, lm_head: false, keeps_inputs: false}}"},
      {built_in + "frozen: [embeddings]}"},
      {built_in + "measured: {tokens_per_s: 9000, gpus: 2, batch_per_gpu: 4, "
                  "gradient_accumulation: 2}}",
       "cluster.node.gpu=A100-SXM-80"},
      {built_in + "measured: {samples_per_s: 9}}", "cluster.node.gpu=A100-SXM-80"},
      {built_in + "measured: {tokens_per_s_per_gpu: 9000}}", "cluster.node.gpu=A100-SXM-80"},
      {built_in + "measured: {step_time: 310ms}}", "cluster.node.gpu=A100-SXM-80"},
      {"model={batch_per_gpu: 4, sequence: 64, transformer: {layers: 2, hidden_size: 64, "
       "heads: 4, kv_heads: 2, head_dim: 16, intermediate_size: 128, vocab_size: 100, "
       "activation: swiglu, norm: rmsnorm, position: rope, tie_embeddings: false, bias: "
       "false, qkv_bias: true, fused_qkv: false, parallel: none, dropout: 0.1, experts: {count: 4, "
       "active: 2, intermediate_size: 32, "
       "shared: 1, shared_gate: true, latent_size: 16, first_dense: 1, interval: 1, capacity: "
       "1.25}, multi_token_prediction: 1, "
       "attention: {sliding: 8, full_every: 2}}}"},
      {"model={batch_per_gpu: 4, sequence: 64, transformer: {num_layers: 2, hidden_size: 64,"
       " num_attention_heads: 4, num_query_groups: 2, kv_channels: 16, ffn_hidden_size: 128,"
       " vocab_size: 100, tie_word_embeddings: true, experts: {count: 4, active: 2, "
       "capacity: dropless}, attention: full}}"},
      {"model={batch_per_gpu: 4, sequence: 64, transformer: {num_hidden_layers: 2, "
       "hidden_size: 64, num_attention_heads: 4, num_key_value_heads: 2, ffn_hidden_size: "
       "128, vocab_size: 100, attention: {mla: {q_lora_rank: 8, kv_lora_rank: 8, "
       "qk_nope_head_dim: 8, qk_rope_head_dim: 8, v_head_dim: 8}}}}"},
      {"model={batch_per_gpu: 4, sequence: 64, transformer: {layers: 2, hidden_size: 64, heads: 4, "
       "intermediate_size: 128, vocab_size: 100, qk_norm: true, activation: relu2, layer_types: "
       "[linear_attention, "
       "full_attention, mamba], mamba: {heads: 4, head_dim: 8, state_size: 8, groups: 2, "
       "conv_kernel: "
       "4, chunk_size: 16}, attention: {output_gate: true, linear: {linear_num_key_heads: 2, "
       "linear_key_head_dim: 8, linear_num_value_heads: 4, linear_value_head_dim: 8, "
       "linear_conv_kernel_dim: 4}}}}"},
      {"model={batch_per_gpu: 4, sequence: 64, transformer: {layers: 3, hidden_size: 64, heads: 4, "
       "intermediate_size: 128, vocab_size: 100, qk_layernorm: false, hybrid_override_pattern: "
       "M*-, mamba: {}}}"},
      {"model={batch_per_gpu: 4, sequence: 64, transformer: {layers: 2, hidden_size: 64, heads: 4, "
       "intermediate_size: 128, vocab_size: 100, layer_types: [kda, full_attention], attention: "
       "{kda: {linear_num_heads: 4, linear_head_dim: 8, linear_conv_kernel_dim: 4}}}}"},
      {"model={use: llama_7b, batch_per_gpu: 4, qk_norm: true}"},
      {"model={use: llama_7b, batch_per_gpu: 4, qk_layernorm: true}"},
      {"model={use: llama_7b, batch_per_gpu: 4, sequence: 64, layers: 2, hidden_size: 64, "
       "heads: 4, kv_heads: 2, head_dim: 16, intermediate_size: 128, vocab_size: 100, "
       "activation: swiglu, norm: rmsnorm, position: rope, tie_embeddings: false, bias: "
       "false, qkv_bias: true, dropout: 0.1, experts: {count: 4, active: 2, intermediate_size: 32, "
       "shared: 1, shared_gate: true, latent_size: 16, first_dense: 1, interval: 1, capacity: "
       "1.25}, multi_token_prediction: 1}"},
      {"model={use: llama_7b, batch_per_gpu: 4, sequence: 64, num_layers: 2, hidden_size: "
       "64, num_attention_heads: 4, num_query_groups: 2, kv_channels: 16, ffn_hidden_size: "
       "128, vocab_size: 100, tie_word_embeddings: true, experts: {count: 4, active: 2, "
       "capacity: dropless}}"},
      {"model={use: llama_7b, batch_per_gpu: 4, sequence: 64, num_hidden_layers: 2, "
       "hidden_size: 64, num_attention_heads: 4, num_key_value_heads: 2, ffn_hidden_size: "
       "128, vocab_size: 100}"},
      {"model={hf: " + (data_folder() / "tests/model/configs/gpt2.json").string() +
       ", family: {like: gpt2, defaults: {n_inner: 3072, "
       "tie_word_embeddings: true}, required: {}, source: me}, batch_per_gpu: 1}"},
      {"model={hf: " + (data_folder() / "tests/model/configs/gpt2.json").string() + ", family: " +
       (data_folder() / "tests/model/own_family.yml").string() + ", batch_per_gpu: 1}"},
      {"model={hf: " + (data_folder() / "tests/model/configs/gpt2.json").string() +
           ", batch_per_gpu: 1}",
       "train={tokens: 1Mi, global_batch: {tokens: 8Ki}}"},
      {built_in + "}", "train={global_batch: {sequences: 64}}"},
      {built_in + "}", "optimizer={adamw: {}}",
       "train={like: {data_parallel: 20M, unique_tokens: 20M, shards: iid}}"},
      {"model={use: resnet50, batch_per_gpu: 4}", "optimizer={sgd_momentum: {}}",
       "train={to: {accuracy: 0.78, runs: [{batch: 8, samples: 100M}, "
       "{batch: 64, samples: 110M}]}}"},
      {"model={use: resnet50, batch_per_gpu: 4, classes: 10, image: 64, channels_last: true}"},
      {"strategy={ddp: {bucket_cap_mb: 1, first_bucket_mb: 1, gradient_as_bucket_view: true, "
       "static_graph: true, compression: fp16, gradient_accumulation: 2, algorithm: ring}}"},
      {"strategy={fsdp: {wrap: model, reentrant_checkpoints: false, adapters_apart: false}}",
       built_in + "}"},
      {"strategy={fsdp2: {reshard_after_forward: true, shard_group: 2, param_dtype: bf16, "
       "reduce_dtype: fp32, cpu_offload: true, gradient_accumulation: 2, algorithm: ring, "
       "host_overhead: 1us}}",
       built_in + "}"},
      {"strategy={fsdp2: {reshard_after_forward: 2, wrap: blocks}}"},
      {"strategy={megatron_fsdp: {data_parallel_sharding_strategy: optim_grads, "
       "grad_reduce_in_fp32: true, host_overhead: 1ms, algorithm: ring}}",
       "framework=megatron"},
      {"strategy={ddp: {}, tensor_parallel: 1, sequence_parallel: false, pipeline_parallel: 2, "
       "context_parallel: {degree: 1, method: ring}, expert_parallel: 1, pipeline: {schedule: "
       "zero_bubble, virtual_stages: 1, split: auto}, micro_batches: 4, order: "
       "tp-cp-ep-dp-pp}",
       built_in + "}"},
      {"strategy={zero: {stage: 1, bucket_cap_mb: 25, overlap_grad_reduce: true, "
       "overlap_param_gather: true, grad_reduce_in_fp32: true, check_for_nan_in_grad: false, "
       "fp8_param_gather: false, fp4_param_gather: false, algorithm: ring}, "
       "tensor_parallel: 2, sequence_parallel: true, tp_comm_overlap: true}",
       built_in + "}"},
      {"strategy={ddp: {overlap_grad_reduce: true, overlap_param_gather: false, "
       "grad_reduce_in_fp32: true, check_for_nan_in_grad: true}, tensor_parallel: 1}",
       "framework={megatron: core_v0.14.0}", built_in + "}"},
      {"strategy={fsdp2: {}, tensor_parallel: 2}", "framework=torchtitan", "optimizer={adamw: {}}",
       "run.data_loading={sample: 1ms}", built_in + "}"},
      {"strategy={ddp: {}}", "framework=torchtitan", built_in + "}"},
      {"strategy={ddp: {}}", "framework=megatron", "run.data_loading={sample: 1ms}",
       built_in + "}"},
      {"strategy={zero: {stage: 1, overlap_comm: true}}", "framework=deepspeed", built_in + "}"},
      {"strategy={zero: {stage: 2, contiguous_gradients: false, communication_data_type: fp32}}",
       built_in + "}"},
      {"strategy={zero: {stage: 3}}", "framework=deepspeed", built_in + "}"},
      {"strategy={fsdp2: {}, tensor_parallel: 2, enable_async_tensor_parallel: false}",
       "framework=torchtitan", built_in + "}"},
      {"strategy={ddp: {}, tensor_parallel: 2, async_tensor_model_parallel_allreduce: false, "
       "gather_logits: false, avoid_record_streams: false}",
       built_in + "}"},
      {"strategy={ddp: {}, pipeline_parallel: 2, context_parallel: {degree: 1}, pipeline: {split: "
       "[6, 6]}}",
       built_in + "}"},
      {"strategy={ddp: {}, pipeline_parallel: 2, micro_batches: 2, pipeline: {split: {auto: "
       "memory}}}",
       built_in + "}"},
      {"strategy={ddp: {}, pipeline_parallel: 1, context_parallel: 1, micro_batch_size: 1}",
       built_in + "}"},
      {"strategy={ddp: {}, expert_parallel: 2, expert_tensor_parallel: 1, experts: {dispatch: "
       "all_to_all, overlap: false, overlap_moe_expert_parallel_comm: true, imbalance: 1}, "
       "micro_batches: 2}",
       built_in + "experts: {count: 4, active: 2}}"},
      {"strategy={ddp: {}, expert_parallel: 2, experts: {imbalance: natural}}",
       built_in + "experts: {count: 4, active: 2}}"},
      {"strategy={fsdp2: {}, expert_parallel: 2, experts: {fake_balanced_gate: true}}",
       built_in + "experts: {count: 4, active: 2}}"},
      {"strategy={fsdp2: {}, pipeline_parallel: 2, micro_batches: 4, pipeline: "
       "{gradient_accumulation: 2}}",
       "framework=torch", built_in + "}"},
      {"strategy={ddp: {}, expert_parallel: 16, experts: {dispatch: deepep, num_sms: 24, "
       "node_limit: 1, "
       "imbalance: "
       "{histogram: " +
           (data_folder() / "tests/data/tokens_per_expert.csv").string() + "}}}",
       built_in + "experts: {count: 16, active: 2}}", "cluster={use: dgx_h100, nodes: 2}"},
      {"strategy={ddp: {}, expert_parallel: 8, experts: {dispatch: hybridep}}",
       built_in + "experts: {count: 16, active: 2}}", "cluster={use: dgx_h100, nodes: 1}"},
      {"strategy={fsdp: {wrap: {min_num_params: 9}}}"},
      {"strategy={fsdp: {wrap: {}}}"},
      {"strategy={fsdp: {}}"},
      {"strategy={zero: {stage: 3, stage3_prefetch_bucket_size: 1, stage3_max_live_parameters: 2, "
       "stage3_max_reuse_distance: 3, stage3_param_persistence_threshold: 4, reduce_bucket_size: "
       "5, sub_group_size: 6, "
       "overlap_comm: false, module_hook: 1us, param_dtype: bf16, reduce_dtype: fp32, "
       "buffer_dtype: fp32, cpu_offload: false, gradient_accumulation: 2, algorithm: ring}}",
       built_in + "}"},
      {"strategy={zero: {stage: 1}}"},
      {"strategy={ps: {server_host: worker, staleness: 2, protocol: own_request, worker_cpu_rate: "
       "1GBps, "
       "server_cpu_rate: 1GBps, partition: unit, layerwise: true}}"},
      {"strategy={ps: {}}"},
      {"strategy={ps: {aggregate: node, server: mxnet, per_message: 9us, layerwise: true, "
       "scheduling: priority}}"},
      {"strategy={ddp: {cycle_time: 1ms, per_collective: 9us, compression: fp16}}",
       "framework=horovod"},
      {"strategy={ddp: {partition: 4MiB, scheduling: priority}}", "framework=bytescheduler"},
      {"strategy={ddp: {}}", "framework=bytescheduler"},
      {"run={stops: {every: 100s, time: 50ms}}"},
      {"run={stops: none}"},
      {"model={use: resnet50, batch_per_gpu: 8, cudnn_benchmark: true}"},
      {"cluster={nodes: 1, node: {gpus: 4, gpu: A10, pcie_roots: 2, root_link: 9GBps}}"},
      {"strategy={ddp: {}}", "framework=tensorflow", built_in + "}"},
      {"strategy={ps: {}}", "framework=byteps", built_in + "}"},
      {"strategy={ps: {local_steps: 2, outer_optimizer: {sgd: {nesterov: true}}}}"},
      {"strategy={ps: {local_steps: 2, outer_optimizer: {sgd: {}}}}"},
      {"strategy={ps: {partition: 4MiB, layerwise: true}}"},
      {"strategy={local_sgd: {period: 4, outer_optimizer: {sgd: {nesterov: true}}}}"},
      {"strategy={local_sgd: {period: 4, outer_optimizer: {sgd: {}}}}"},
      {"optimizer={adamw: {fused: false, foreach: true, state_dtype: bf16, master_dtype: none, "
       "clip_grad: 1, grad_scaler: true}}"},
      {"optimizer={adamw_8bit: {paged: false, offload: cpu, offload_overlap: copies}}"},
      {"optimizer={adam: {}}"},
      {machine("{fat_tree: {down: [2, 2], up: [1, 1], links: [1, 1], bandwidth: 9Gbps, latency: "
               "1us, burst: 1MiB}}",
               kGpu)},
      {machine("{torus: {dimensions: [2, 2], bandwidth: 9Gbps}}",
               "transport: {rdma: {efficiency: 0.8, rate: 9GBps, per_message: 1us, per_chunk: 1us, "
               "low_latency: true}}")},
      {machine(
          "{star: {}}",
          "transport: {tcp: {efficiency: 0.8, rate: 1GBps, sockets: 4, socket_rate: 1GBps, "
          "host_rate: 4GBps, per_message: 1us, per_chunk: 0us, low_latency: true}}, nic_latency: "
          "9us")},
      {"cluster={nodes: 4, node: {nic: 1Gbps, pcie_peer_to_peer: false, usd_per_hour: 3}}"},
      {"cluster={nodes: 2, node: {gpus: 2, nvlink: 300GBps, nvlink_latency: 1us, nic: 9Gbps}, "
       "busy_cores: {slowdown: 2}, shared_cores: 2}"},
      {"cluster={nodes: 2, node: {gpu: A10, nvlink: 300GBps, nic: 200Gbps}, comm_profile: " +
       platforms + "profiles/comm/p5_h100.yaml}"},
      {"run={overlap_slowdown: channels}"},
      {"cluster={nodes: 2, node: {gpu: A10, nic: 200Gbps}, kernels: " + platforms +
       "../tests/data/kernels/one_core.yaml}"},
      {"cluster={groups: [{name: a, nodes: 2, node: {nic: 9Gbps}}]}"},
      {"cluster={use: aws_p4d, nodes: 2, gpus_per_node: 4, name: x, nic: 9Gbps, nics: 1, "
       "nic_latency: "
       "9us, nic_burst: 1MiB, transport: tcp, nvlink: 200GBps, nvlink_latency: 1us, pcie: 20GBps, "
       "pcie_latency: 1us, host_bandwidth: 90GBps, nvme: 9GBps, cores: 9, speed: 1, memory: 30GiB, "
       "tdp: 300W, "
       "usd_per_hour: 3, comm_profile: none}"},
      {"cluster={use: aws_p4d, nodes: 2, collectives: nccl, nccl: {version: 2.23.4}}"},
      {"cluster={use: aws_p4d, nodes: 2, nic_vendor: other, collectives: gloo, "
       "gloo: {rate: 2GBps, alone: 1GBps, per_step: 9us}}"},
      {"cluster={use: aws_p4d, nodes: 2, nic: [9Gbps], transport: {rdma: {}}, host_bandwidth: "
       "[90GBps], cores: [9]}"},
      {"cluster={use: aws_g5_12xlarge, nodes: 2, staged_rate: 9GBps}"},
      {"energy={host: 500W}", "cluster.node.tdp=300W"},
      {"memory={device: cuda}"},
      {failures,
       "failures={mtbf_per_node: 900h, distribution: {weibull: {shape: 0.7}}, checkpoint: "
       "{interval: 30min, write: 9s}}"},
      {failures,
       "failures={mtbf_per_node: 900h, distribution: exponential, checkpoint: {interval: auto, "
       "storage: 2GBps}}"},
      {"start={arrivals: {exponential: {mean: 3min}}}"},
      {"start={arrivals: {uniform: {latest: 3min}}}"},
      {"start={arrivals: [0s, 1s, 2s, 3s]}"},
      {"jobs={nodes: [0, 1], others: [{nodes: [2, 3], strategy: {fsdp: {}}, optimizer: {adam: {}}, "
       "model: {use: resnet50, batch_per_gpu: 4}}]}"},
  };
}

inline const char* const kPlan = R"(
scenario: SCENARIO
vary: {cluster.nodes: [2, 4]}
search: {strategies: all, options: auto}
constraints: {memory: fits, gpus: 8, global_batch: {min: 1, max: 99}, deadline: 9h, budget_usd: 9,
  energy_kwh: 9, co2_kg: 9, samples_per_s: 9, accuracy: 0.9}
objective: {pareto: [time, cost]}
)";
inline const char* const kStudy = R"(
description: mine
scenario: SCENARIO
vary: {nodes: {zip: {cluster.nodes: [2, 4]}, labels: [a, b]}, run.steps: {values: [1, 2]}}
only: [{nodes: a}]
exclude: [{run.steps: 2}]
seeds: 2
)";
inline const char* const kComm = R"(
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
inline const char* const kCompute = R"(
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
inline const char* const kCurve =
    R"({"schema": "rehearse.curve/1", "source": "replay", "model": "m",
 "dataset": "d", "train_samples": 9, "test_samples": 9, "workers": 2, "batch": 1, "learning_rate": 1,
 "momentum": 0, "weight_decay": 0, "seed": 1, "updates": 9, "diverged": false,
 "mitigation": {"staleness_aware": false, "momentum_correction": false, "delay_compensation": 0,
   "staleness_bound": 1, "backup_workers": 0, "warmup_rounds": 0, "local_steps": 1,
   "outer_optimizer": {"learning_rate": 1, "momentum": 0, "nesterov": false}},
 "staleness": {"mean": 1, "p50": 1, "p99": 1, "max": 1, "histogram": {"1": 9}},
 "points": [{"update": 0, "time_s": 0, "samples": 0, "train_loss": 1, "test_loss": 1,
   "test_accuracy": 0.1, "staleness": {"mean": 1, "recent": 1}}]})";

}  // namespace rehearse
