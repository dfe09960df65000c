"""Rows of public tables of training steps as Rehearse's settings, one function for each source.

A row says model, GPUs, degrees and batch. What its table leaves out stands in the recipe that ran
(Megatron-Bridge's, as `bridge_recipes.json` lists them by release), or in the source's own text.
"""
import csv
import json
import pathlib

SUPER = ("{layers: 88, hidden_size: 4096, heads: 32, kv_heads: 2, head_dim: 128, "
         "intermediate_size: 2688, vocab_size: 131072, activation: relu2, position: none, "
         "experts: {count: 512, active: 22, intermediate_size: 2688, shared: 2, latent_size: 1024}, "
         "hybrid_override_pattern: " + "MEMEMEMEME*" * 8 + ", mamba: {heads: 128}, multi_token_prediction: 2}")
# nvidia/Nemotron-H-56B-Base-8K's config.json; its 118 blocks: 54 of Mamba 2, 54 of MLP, 10 of
# attention, whose order costs nothing. The squared ReLU of NeMo 2 is two functions: a lambda of
# NemotronHConfigBase (nemo/collections/llm/gpt/model/ssm.py), squared_relu of llm/fn/activation.py.
NEMOTRON_H = ("{layers: 118, hidden_size: 8192, heads: 64, kv_heads: 8, head_dim: 128, "
              "intermediate_size: 32768, vocab_size: 131072, activation: relu_then_square, position: none, "
              "hybrid_override_pattern: " + "M-M-M-M-M-*" * 10 + "M-M-M-M-"
              ", mamba: {heads: 256, state_size: 256}}")
NEMOTRON_340B = ("{layers: 96, hidden_size: 18432, heads: 96, kv_heads: 8, intermediate_size: 73728, "
                 "vocab_size: 256000, activation: relu_then_square, norm: layernorm}")
GPT = ("{{layers: {layers}, hidden_size: {hidden}, heads: {heads}, intermediate_size: {ffn}, "
       "vocab_size: 250880, activation: gelu, norm: layernorm, position: learned, bias: true, "
       "tie_embeddings: true, dropout: 0.1}}")
LLAMA_30B = ("{layers: 60, hidden_size: 6656, heads: 52, intermediate_size: 17920, "
             "vocab_size: 128000}")
LLAMA = {"8": "{use: llama_3_8b", "70": "{use: llama_3_70b", "405": "{use: llama_3_405b"}

CLUSTERS = {"H100": ("dgx_h100", 8), "B200": ("dgx_b200", 8), "GB200": ("dgx_gb200_nvl72", 64),
            "GB300": ("dgx_gb300_nvl72", 64), "A100-80": ("dgx_a100", 8), "A100": ("dgx_a100", 8)}
RELEASES = {"25.11": "v0.2.0", "26.02": "v0.3.0", "26.02.01": "v0.3.1", "26.04": "v0.4.0",
            "26.04.01": "v0.4.2", "26.06": "v0.5.0", "26.06.01": "v0.5.1", "26.08": "v0.5.1"}
BRIDGE = {"GPT-OSS-120B": ("GPT_OSS_120B", "{use: gpt_oss_120b"),
          "Qwen3-235B-A22B": ("QWEN3_235B_A22B", "{use: qwen3_235b_a22b"),
          "Nemotron_3_Super": ("NEMOTRON_3_SUPER", "{transformer: " + SUPER)}
# What a source says of a row itself: it is predicted and shown, and counts in no mean.
FOOTNOTES = {"megatron-bridge/022": "regressed fused experts' kernels (cudnn-frontend#256; "
                                    "footnote of the table, release notes of v0.5.1)"}
PRECISIONS = {"BF16": "bf16_master", "FP8": "fp8", "FP8-CS": "fp8", "MXFP8": "mxfp8",
              "NVFP4": "nvfp4", "FP16": "fp16_master"}


def rows(path):
    """The rows of a file, its comments left out."""
    with open(path, newline="") as file:
        return list(csv.DictReader(line for line in file if not line.startswith("#")))


def number(row, key, default=1):
    return int(float(row[key])) if row.get(key) else default


def cluster(row):
    """Machines: racks of 72 lend 64 to 72 GPUs each."""
    name, per_node = CLUSTERS[row["gpu"]]
    gpus = number(row, "gpus")
    if gpus % per_node:
        per_node = min(gpus, 72) if gpus <= 72 or gpus % 72 == 0 else 8
    out = [f"cluster.use={name}", f"cluster.nodes={max(1, gpus // per_node)}"]
    return out + ([f"cluster.gpus_per_node={per_node}"] if per_node not in (8, 72) or
                  name.endswith("nvl72") and per_node == 8 else [])


def recipe(recipes, row):
    """What the release's recipe of this model, GPU and format sets; {} where there is none."""
    release = row["framework"].split("NeMo ")[1].rstrip(")")
    names = recipes.get(RELEASES[release], {})
    word = {"BF16": "BF16", "FP8": "FP8_CS", "FP8-CS": "FP8_CS", "MXFP8": "FP8_MX",
            "NVFP4": "NVFP4"}[row["precision"]]
    model = BRIDGE[row["model"]][0]
    found = {}
    for name, settings in names.items():
        if name.startswith(model) and f"_{row['gpu']}_{word}_" in name and "LARGE" not in name:
            if not found or settings["global_batch_size"] == number(row, "global_batch"):
                found = settings
    return found


def ran_as_recipe(row, says):
    """The recipe has the row's GPUs, batch and degrees. So its micro-batch is what ran."""
    return all(says.get(key, 1) == number(row, column) for key, column in (
        ("num_gpus", "gpus"), ("global_batch_size", "global_batch"),
        ("pipeline_model_parallel_size", "pp"), ("expert_model_parallel_size", "ep"))
    ) and "micro_batch_size" in says


def replicas(precision, **more):
    """Megatron-Core's replicas as NVIDIA's recipes set them."""
    words = {"stage": 1, "check_for_nan_in_grad": "false", "overlap_grad_reduce": "true",
             "overlap_param_gather": "true", "grad_reduce_in_fp32": "false", **more}
    if precision in ("mxfp8",):
        words["fp8_param_gather"] = "true"
    return "zero: {" + ", ".join(f"{k}: {v}" for k, v in words.items()) + "}"


def split(row):
    """Blocks of stages that are not alike. Qwen3 235B's embedding and loss count as a layer each
    (account_for_..._in_pipeline_split); elsewhere the first stages have one more."""
    parts = number(row, "pp") * number(row, "vp")
    blocks = 94 if "235B" in row["model"] else 126 if "405B" in row["model"] else \
        number(row, "layers", 0)
    if blocks % parts == 0:
        return ""
    if "235B" in row["model"]:
        each = 96 // parts
        return f", split: {[each - 1] + [each] * (parts - 2) + [each - 1]}"
    return f", split: {[blocks // parts + (i < blocks % parts) for i in range(parts)]}"


def degrees(row):
    """Tensor, pipeline, context and expert ranks of a row."""
    out = []
    for key, word in (("tp", "tensor_parallel"), ("pp", "pipeline_parallel"),
                      ("cp", "context_parallel"), ("ep", "expert_parallel")):
        if number(row, key) > 1:
            out.append(f"{word}: {number(row, key)}")
    if number(row, "tp") > 1:
        out.append("sequence_parallel: true")
    if number(row, "vp") > 1:
        out.append("pipeline: {schedule: interleaved_1f1b, "
                   f"virtual_stages: {number(row, 'vp')}{split(row)}}}")
    elif split(row):
        out.append("pipeline: {" + split(row)[2:] + "}")
    return out


def bridge(row, recipes):
    """Megatron-Bridge: the table's degrees, and the release's recipe for the rest. Its other models
    stand in scenarios/validation/hybrid_parallel_bridge.yaml."""
    if row["model"] not in BRIDGE:
        return None
    says = recipe(recipes, row)
    precision = PRECISIONS[row["precision"]]
    model = BRIDGE[row["model"]][1]
    micro_batch = number(row, "micro_batch")
    if ran_as_recipe(row, says):  # row 254: its table has another GPU's micro-batch
        micro_batch = says["micro_batch_size"]
    modules = says.get("recompute_modules") or []
    sets = [f"model={model}, sequence: {row['seq_len']}, batch_per_gpu: {micro_batch}, "
            f"precision: {precision}"
            + (", experts_implementation: grouped_mm" if says.get("cutedsl_fused_grouped_mlp") else "")
            # nemotron_3_super_bf16_with_nvfp4_mixed; of the rest of its te_quant.cfg nothing can be said.
            + (", num_layers_at_end_in_bf16: 14" if precision == "nvfp4" and "Super" in row["model"]
               else "")
            + (", activation_checkpointing: {modules: [" + ", ".join(modules) + "]}" if modules
               else "") + "}"]
    # scripts/performance/utils/overrides.py, set_workload_base_configs: without a flexible backend
    # the dispatcher is "alltoall", as qwen3_llm_pretrain.py says of H100s, too.
    flex = says.get("moe_flex_dispatcher_backend")
    experts = ["imbalance: 1", "dispatch: " + (flex or "all_to_all")]
    if flex == "hybridep":
        # _set_common_perf_overrides (overrides.py) where the recipe has HybridEP before it, as
        # Nemotron 3 Super does. GPT-OSS' has DeepEP there, and moe_hybridep_num_sms = 16.
        experts.append(f"num_sms: {32 if 'Super' in row['model'] else 16}")
    if says.get("moe_a2a_overlap"):
        experts.append("overlap_moe_expert_parallel_comm: true")
    layout = [replicas(precision), *degrees(row), "experts: {" + ", ".join(experts) + "}"]
    if number(row, "tp") > 1:
        layout.append("expert_tensor_parallel: 1")
    sets += ["strategy={" + ", ".join(layout) + "}", "framework=megatron"]
    graph = says.get("cuda_graph_impl", "none")
    if graph == "full_iteration":
        sets.append("run.efficiency.cuda_graph_scope=[full_iteration]")
    elif graph != "none" and says.get("cuda_graph_scope"):
        sets.append("run.efficiency.cuda_graph_scope=[" + ", ".join(says["cuda_graph_scope"]) + "]")
    return sets


def dense(row, _):
    """NVIDIA's dgxc-benchmarking: NeMo on Megatron-Core. 340B overlaps its tensor exchanges. Of
    Nemotron-H what ran is NeMo@7a8f1cc7 (nemotronh/setup.sh). Its scripts/performance/llm/
    pretrain_nemotronh_56b.py calls pretrain_recipe() without performance_mode, so that no
    MegatronCommOverlapCallback is there: nothing of tensor ranks overlaps, nor does the gather of
    parameters (recipes/nemotronh_56b.py). NVTE_FUSED_ATTN=0 leaves flash-attn; weights are kept in
    8 bits (bf16_with_fp8_mixed)."""
    precision = PRECISIONS[row["precision"]]
    hybrid = "Nemotron-H" in row["model"]
    network = NEMOTRON_H if hybrid else NEMOTRON_340B
    words = {"check_for_nan_in_grad": "true", "overlap_param_gather": "false",
             "fp8_param_gather": "true"} if hybrid else {}
    layout = [replicas(precision, **words), *degrees(row)]
    if number(row, "tp") > 1 and not hybrid:
        layout.append("tp_comm_overlap: true")
    attention = ", attention: flash2" if hybrid else ""
    return [f"model={{transformer: {network}, sequence: {row['seq_len']}, batch_per_gpu: "
            f"{row['micro_batch']}, precision: {precision}{attention}}}",
            "strategy={" + ", ".join(layout) + "}", "framework=megatron"]


def mlperf(row, _):
    """MLPerf 5.1 on NeMo: full graphs; adapters on linear_qkv and linear_proj, as NeMo names them.
    Weights are kept in 8 bits alone: LoRA's model is made under TransformerEngine's fp8_model_init
    (Dell's llama2_70b_lora/implementations/nemo/custom_llama.py, where the files are public), that
    of 8B has FP8_PARAM_GATHER=True (Lambda's gb300_0922/config_common.sh; in NVFP4 False).
    Adapters' gradients wait for backward's end, and context ranks exchange heads (Dell's
    conf/megatron_gpt_peft_tuning_config.yaml: DDP_OVERLAP_GRAD_REDUCE False, CP_COMM_TYPE a2a)."""
    precision = PRECISIONS[row["precision"]]
    lora = "LoRA" in row["model"]
    words = {"overlap_grad_reduce": "false", "overlap_param_gather": "false"} if lora else {}
    if precision == "fp8":
        words["fp8_param_gather"] = "true"
    if lora and precision == "nvfp4":  # fp4_param; 16 bits of 70B would not fit beside the rest
        words["fp4_param_gather"] = "true"
    layout = [replicas(precision, **words),
              *(w.replace("context_parallel: ", "context_parallel: {method: ulysses, degree: ") + "}"
                if lora and w.startswith("context") else w for w in degrees(row))]
    network = ("{transformer: {layers: 80, hidden_size: 8192, heads: 64, kv_heads: 8, "
               "intermediate_size: 28672, vocab_size: 32000}" if lora else LLAMA["8"])
    # NeMo's scripts/performance/llm/mlperf_lora_llama2_70b.py: fp8_dot_product_attention both ways;
    # the submission of 8B leaves FP8_DPA out (llama31_8b/implementations/nemo/config_common.sh).
    adapters = (", lora: {rank: 16, targets: [q, k, v, o], dtype: bf16, dropout: 0.1}, "
                "attention: cudnn_fp8" if lora else "")
    return [f"model={network}, sequence: {row['seq_len']}, batch_per_gpu: {row['micro_batch']}, "
            f"precision: {precision}{adapters}}}",
            "strategy={" + ", ".join(layout) + "}", "framework=megatron",
            "run.efficiency.cuda_graph_scope=[full_iteration]"]


def bigscience(row, _):
    """BLOOM's trials: Megatron-DeepSpeed of 2022, ZeRO 1, four NICs, every layer made anew, and
    CUDA_LAUNCH_BLOCKING=1, without which the jobs hung (chronicles-prequel.md)."""
    layout = ["zero: {stage: 1, check_for_nan_in_grad: false}",
              "async_tensor_model_parallel_allreduce: false", *degrees(row)]
    return [f"model={{transformer: {GPT.format(**row)}, sequence: 2048, batch_per_gpu: {row['micro_batch']}, "
            "precision: fp16_master, attention: eager, fused_softmax: true, "
            "activation_checkpointing: {units: [layers.*]}}",
            "strategy={" + ", ".join(w for w in layout if "sequence" not in w) + "}",
            "framework={megatron: core_v0.8.0}", "run.efficiency.cuda_launch_blocking=true",
            "cluster.nics=4", "cluster.nic=100Gbps"]


def torchtitan(row, _):
    """torchtitan of December 2024 and June 2025 on H100s of 96 GB and 500 W."""
    if "8B" in row["model"]:
        return None  # scenarios/validation/hybrid_parallel_bridge.yaml
    size = "405" if "405B" in row["model"] else "70"
    layout = ["fsdp2: {param_dtype: bf16, reduce_dtype: fp32}", *degrees(row)]
    if "async TP" in row["notes"]:
        layout.append("enable_async_tensor_parallel: true")
    batch = number(row, "micro_batch", 0)
    if number(row, "pp") > 1:
        batch = number(row, "global_batch") // number(row, "dp") // 8
    float8 = ""
    if row["precision"].startswith("FP8"):
        float8 = ", float8: " + ("rowwise" if "rowwise" in row["precision"] else "tensorwise")
    node = ("cluster={nodes: %d, node: {gpus: 8, gpu: H100-SXM-96, nvlink: 450GBps, nvlink_latency: "
            "0.6us, pcie: 50GBps, pcie_latency: 1us, pcie_peer_to_peer: true, host_bandwidth: "
            "200GBps, cores: 112, nics: 8, nic: 400Gbps, nic_latency: 2.7us, transport: rdma}, "
            "fabric: {star: {}}}" % (number(row, "gpus") // 8))
    return [f"model={LLAMA[size]}, sequence: {row['seq_len'] or 8192}, batch_per_gpu: {max(1, batch)}, "
            f"precision: fp32, compile: blocks, activation_checkpointing: per_unit, attention: flash2"
            f"{float8}}}", "strategy={" + ", ".join(layout) + "}", "framework={torchtitan: v0.1.0}", node]


def alephalpha(row, _):
    """Aleph-Alpha/scaling: logits gathered in fp32, gradients reduced after backward as fp32. The
    stack is of 2023: collectives record their tensors, and PyTorch 2.1 brings NCCL 2.18.1. The
    paper (openreview.net/pdf?id=Y0AHNkVDeu) has nodes on a "200Gb/s HDR" connection: one. With a
    NIC for each GPU, replicas of few stages were up to 31 % too fast. `fused` is Megatron-LM's
    softmax kernel."""
    notes = row["notes"]
    kernel = notes.split("kernel: ")[1].split(";")[0] if "kernel: " in notes else ""
    attention = ("flash2" if "flash_attention2" in kernel else
                 "flash1" if "flash_attention" in kernel else "eager")
    layout = ["zero: {stage: 1, overlap_comm: false, reduce_bucket_size: 500000000, "
              "communication_data_type: fp32}", "gather_logits: true",
              *(["avoid_record_streams: false"] if number(row, "tp") > 1 else []),
              *(w for w in degrees(row) if "sequence" not in w)]
    if row["sequence_parallel"] in ("yes", "true", "1"):
        layout.append("sequence_parallel: true")
    model = (f"model={{transformer: {LLAMA_30B}, sequence: {row['seq_len']}, batch_per_gpu: "
             f"{row['micro_batch']}, precision: bf16_master, attention: {attention}, "
             "loss: cross_entropy_fp32"
             + (", fused_softmax: true" if kernel == "fused" else "")
             + (", compile: modules" if "RMS" in kernel else "")
             + (", activation_checkpointing: {units: [layers.*]}" if row["recompute"] == "full"
                else "") + "}")
    return [model, "strategy={" + ", ".join(layout) + "}", "framework=deepspeed", "cluster.nics=1",
            "cluster.nccl={version: 2.18.1}"]


def flagperf(row, _):
    """FlagPerf's training/benchmarks/llama3_8B/megatron/pretrain_llama3.sh: Megatron-LM core 0.6 in
    NGC 24.02 (PyTorch 2.3, NCCL 2.19.4). Its flags leave biases, learned positions, tied embeddings,
    dropout of 0.1, no recomputation. The oldest version that is known here is core 0.8."""
    if not row["framework"].startswith("Megatron-LM (mcore") or row["gpus"] not in ("8", "16", "440"):
        return None
    precision = "fp8" if "fp8" in row["precision"] else "bf16_master"
    network = (f"{{layers: {row['layers']}, hidden_size: {row['hidden']}, heads: {row['heads']}, "
               f"kv_heads: {row['kv_heads']}, intermediate_size: {row['ffn']}, vocab_size: "
               f"{row['vocab']}, tie_embeddings: true, bias: true, position: learned, dropout: 0.1}}")
    return [f"model={{transformer: {network}, sequence: {row['seq_len']}, batch_per_gpu: "
            f"{row['micro_batch']}, precision: {precision}}}",
            "strategy={" + ", ".join(["zero: {stage: 1}", *degrees(row)]) + "}",
            "framework={megatron: core_v0.8.0}", "cluster.nccl={version: 2.19.4}"]


SOURCES = {"flagperf-llm": flagperf, "megatron-bridge": bridge, "dgxc-25.05-dense": dense, "mlperf-v5.1": mlperf,
           "bigscience-2022": bigscience, "torchtitan": torchtitan, "alephalpha-2023": alephalpha}


def settings(row, recipes):
    """A row's settings on hybrid_parallel_llama.yaml; none where its source or GPU has no reader."""
    reader = SOURCES.get(row["source_id"])
    if reader is None or row["gpu"] not in CLUSTERS:
        return None
    sets = reader(row, recipes)
    if sets is None:
        return None
    if not any(s.startswith("cluster={") for s in sets):
        sets = cluster(row) + sets
    return sets + [f"train.global_batch.sequences={number(row, 'global_batch')}"]


def load_recipes(folder):
    """`bridge_recipes.json` beside the rows, or none."""
    path = pathlib.Path(folder) / "bridge_recipes.json"
    return json.loads(path.read_text()) if path.exists() else {}
