"""What public tools say of a row: seconds of a step.

Each takes the folder of its checkout. What a tool asks for and a row does not say is its own default.
"""
import json
import logging
import pathlib
import sys
import tempfile

NVLINK_GBPS = 300  # GB/s, one direction of an A100's


class LlmAnalysis:
    """cli99/llm-analysis: half of the peak, which it names for Megatron-LM (constant.py), and rates of links."""

    def __init__(self, folder):
        sys.path.insert(0, str(folder))
        from llm_analysis import analysis, config

        self.analysis, self.config = analysis, config
        logging.disable(logging.CRITICAL)

    def __call__(self, row):
        model = self.config.ModelConfig(
            name="row", num_layers=row["layers"], n_head=row["heads"], hidden_dim=row["hidden"], vocab_size=row["vocab"],
            max_seq_len=row["sequence"], ffn_embed_dim=row["ffn"])
        gpu = self.config.get_gpu_config_by_name("a100-sxm-80gb")
        gpu.inter_node_bandwidth_in_GB_per_sec = row["node_gbps"]
        told = self.analysis.LLMAnalysis(
            model, gpu, self.config.get_dtype_config_by_name("w16a16e16"),
            self.config.ParallelismConfig(
                tp_size=row["tp"], pp_size=row["pp"], dp_size=row["dp"], sp_size=row["tp"] if row["sp"] else 1),
            flops_efficiency=0.5).training(
            batch_size_per_gpu=row["micro"], gradient_accumulation_steps=row["micro_batches"], global_batch_size=row["batch"],
            seq_len=row["sequence"], total_num_tokens=row["batch"] * row["sequence"],
            activation_recomputation=self.analysis.ActivationRecomputation(4 if row["full"] else 0), flash_attn=False)
        return told["latency_per_iter"]


class Calculon:
    """calculon-ai/calculon: its own A100-80, executions without overlap."""

    def __init__(self, folder):
        sys.path.insert(0, str(folder))
        import calculon
        from calculon.llm.llm import Llm

        self.calculon, self.Llm = calculon, Llm
        self.system = json.loads((pathlib.Path(folder) / "systems/a100_80g.json").read_text())

    def __call__(self, row):
        self.system["networks"][1]["bandwidth"] = row["node_gbps"] / 8
        system = self.calculon.System(self.system)
        model = self.Llm(self.Llm.Application({
            "name": "row", "hidden": row["hidden"], "feedforward": row["ffn"], "seq_size": row["sequence"],
            "attn_heads": row["heads"], "attn_size": row["hidden"] // row["heads"], "num_blocks": row["layers"]}), logging.getLogger())
        model.compile(system, self.Llm.Execution.from_json({
            "num_procs": row["gpus"], "tensor_par": row["tp"], "pipeline_par": row["pp"], "data_par": row["dp"],
            "tensor_par_net": 0, "pipeline_par_net": 1, "data_par_net": 1, "batch_size": row["batch"],
            "microbatch_size": row["micro"], "datatype": "float16", "fused_activation": True, "attention_type": "multihead",
            "activation_recompute": "full" if row["full"] else "none", "pipeline_interleaving": 1, "optimizer_sharding": False,
            "tensor_par_comm_type": "rs_ag" if row["sp"] else "ar", "tensor_par_overlap": "none", "seq_par_ag_redo": False,
            "data_par_overlap": False, "weight_offload": False, "activations_offload": False, "optimizer_offload": False,
            "training": True}))
        model.run(system)
        return model.get_total_time()


class SimuMax:
    """MooreThreads/SimuMax: kernels of its A100; its own file has PCIe, so NVLink is its B200's at an A100's rate."""

    def __init__(self, folder):
        sys.path.insert(0, str(folder))
        from simumax.core import config, perf_llm

        self.config, self.perf_llm = config, perf_llm
        read = lambda name: json.loads((pathlib.Path(folder) / f"configs/system/{name}.json").read_text())
        system, switched = read("a100_pcie"), read("b200_bf16_ceperm")["networks"]
        for name in ("low_intra_node", "high_intra_node"):
            switched[name]["bandwidth"]["gbps"] = NVLINK_GBPS
        system["networks"] = {**switched, "inter_node": system["networks"]["inter_node"]}
        self.system = system
        self.file = pathlib.Path(tempfile.mkdtemp()) / "a100.json"

    def __call__(self, row):
        self.system["networks"]["inter_node"]["bandwidth"]["gbps"] = row["node_gbps"]
        self.file.write_text(json.dumps(self.system))
        perf = self.perf_llm.PerfLLM()
        perf.configure(
            strategy_config=self.config.StrategyConfig(
                seq_len=row["sequence"], micro_batch_size=row["micro"], micro_batch_num=row["micro_batches"], dtype="bf16",
                world_size=row["gpus"], tp_size=row["tp"], pp_size=row["pp"], enable_sequence_parallel=row["sp"], zero_state=0,
                enable_recompute=row["full"], recompute_granularity="full_block" if row["full"] else None,
                recompute_layer_num=row["layers"] // row["pp"] if row["full"] else 0),
            model_config=self.config.ModelConfig(
                model_type="dense", hidden_size=row["hidden"], head_num=row["heads"], kv_head_num=row["heads"],
                head_size=row["hidden"] // row["heads"], intermediate_size=row["ffn"], layer_num=row["layers"],
                vocab_size=row["vocab"], use_swiglu=False),
            system_config=self.config.SystemConfig.init_from_config_file(str(self.file)))
        perf.run_estimate()
        tokens = row["batch"] * row["sequence"] / row["gpus"]
        cost = perf.analysis_cost().data
        return tokens / cost["throughput_per_accelerator"]


PEERS = {"llm-analysis": LlmAnalysis, "calculon": Calculon, "SimuMax": SimuMax}
