"""How ranks share the work: wrappers of PyTorch and DeepSpeed, process groups, device meshes, and
the arguments of frameworks that are known."""

from __future__ import annotations

import contextlib
import sys
from typing import Any

# Classes of arguments whose plain fields are kept: of a class's name, the framework's.
ARGUMENTS = {
    "TrainingArguments": "transformers", "Seq2SeqTrainingArguments": "transformers",
    "SFTConfig": "trl", "DPOConfig": "trl", "GRPOConfig": "trl",
}  # fmt: skip


def of_run(torch: Any, facts_of: Any, objects_of: Any) -> dict[str, Any]:
    """`facts_of` and `objects_of` are the files beside this one, which the agent loads."""
    kinds: dict[str, Any] = {
        "ddp": torch.nn.parallel.DistributedDataParallel, "deepspeed": "DeepSpeedEngine",
        "fsdp": "FullyShardedDataParallel", "fsdp2": "FSDPModule", "mesh": "DeviceMesh",
        "trainer": "TrainingArguments", "lightning": "Trainer", "accelerator": "Accelerator",
    }  # fmt: skip
    found = objects_of(kinds)
    facts: dict[str, Any] = {"groups": groups(torch), "wrappers": {}, "meshes": [],
                             "frameworks": {}}  # fmt: skip
    readers = {"ddp": _ddp, "deepspeed": _deepspeed, "fsdp": _fsdp, "fsdp2": _fsdp2}
    for name, read in readers.items():
        if found[name]:
            with contextlib.suppress(Exception):
                facts["wrappers"][name] = read(found[name], facts_of)
    for mesh in found["mesh"]:
        with contextlib.suppress(Exception):
            names = list(mesh.mesh_dim_names or [])
            one = {"names": names, "shape": [int(n) for n in mesh.mesh.shape]}
            if one not in facts["meshes"]:
                facts["meshes"].append(one)
    for one in found["trainer"]:
        with contextlib.suppress(Exception):
            facts["frameworks"][ARGUMENTS.get(type(one).__name__, "transformers")] = {
                k: v for k, v in facts_of.plain_fields(vars(one)).items() if v is not False}  # fmt: skip
    for one in found["lightning"]:
        if type(one).__module__.split(".")[0] in ("lightning", "pytorch_lightning"):
            with contextlib.suppress(Exception):
                facts["frameworks"]["lightning"] = {
                    "strategy": type(one.strategy).__name__,
                    "precision": str(one.precision),
                    "accumulate_grad_batches": one.accumulate_grad_batches,
                    "gradient_clip_val": facts_of.plain(one.gradient_clip_val),
                }
    for one in found["accelerator"]:
        with contextlib.suppress(Exception):
            facts["frameworks"]["accelerate"] = {
                "mixed_precision": facts_of.plain(one.mixed_precision),
                "distributed_type": facts_of.plain(one.distributed_type),
                "gradient_accumulation_steps": facts_of.plain(one.gradient_accumulation_steps),
            }
    state = sys.modules.get("megatron.core.parallel_state")
    if state is not None:
        facts["frameworks"]["megatron"] = sizes = {}
        for key in ("tensor_model_parallel", "pipeline_model_parallel", "context_parallel",
                    "expert_model_parallel", "data_parallel"):  # fmt: skip
            with contextlib.suppress(Exception):
                sizes[key] = int(getattr(state, f"get_{key}_world_size")())
        facts["arguments"] = facts_of.arguments()
    return facts


def groups(torch: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    with contextlib.suppress(Exception):
        from torch.distributed import distributed_c10d as c10d

        for group, ranks in c10d._world.pg_group_ranks.items():
            found.append({
                "name": str(c10d._world.pg_names.get(group, "")),
                "backend": str(c10d._world.pg_map.get(group, ("", 0))[0]),
                "ranks": sorted(int(rank) for rank in ranks),
            })  # fmt: skip
    return found


def _ddp(found: list[Any], _: Any) -> dict[str, Any]:
    own = found[0]
    facts: dict[str, Any] = {
        "bucket_cap_bytes": int(own.bucket_bytes_cap),
        "first_bucket_bytes": int(own.bucket_bytes_cap),
        "find_unused_parameters": bool(own.find_unused_parameters),
        "gradient_as_bucket_view": bool(own.gradient_as_bucket_view),
        "static_graph": bool(getattr(own, "static_graph", False)),
        "modules": len(found),
    }
    if getattr(own, "bucket_bytes_cap_default", False):
        import torch.distributed as dist

        facts["first_bucket_bytes"] = int(getattr(dist, "_DEFAULT_FIRST_BUCKET_BYTES", 1 << 20))
    hooks = getattr(own, "_comm_hooks", [])
    facts["hooks"] = [getattr(hook, "__name__", "hook") for hook, _ in hooks]
    with contextlib.suppress(Exception):
        data = own._get_ddp_logging_data()
        sizes = data.get("rebuilt_bucket_sizes") or data.get("bucket_sizes") or ""
        facts["buckets"] = [int(size) for size in str(sizes).replace(" ", "").split(",") if size]
    return facts


def _deepspeed(found: list[Any], facts_of: Any) -> dict[str, Any]:
    own = found[0]
    facts: dict[str, Any] = {"stage": int(own.zero_optimization_stage())}
    with contextlib.suppress(Exception):
        facts["micro_batch"] = int(own.train_micro_batch_size_per_gpu())
        facts["accumulation"] = int(own.gradient_accumulation_steps())
        facts["clipping"] = float(own.gradient_clipping())
    with contextlib.suppress(Exception):
        facts["config"] = facts_of.plain_fields(own.config if isinstance(own.config, dict) else {})
    with contextlib.suppress(Exception):
        zero = own._config.zero_config
        for key in ("reduce_bucket_size", "allgather_bucket_size", "overlap_comm",
                    "contiguous_gradients", "reduce_scatter", *ZERO_3):  # fmt: skip
            # Fields of stage 3 have their prefix in the configuration alone.
            facts[key] = facts_of.plain(getattr(zero, key.removeprefix("stage3_"), None))
        facts["beside"] = [key for key, usual in ZERO_BESIDE.items()
                           if _set(getattr(zero, key, usual), usual)]  # fmt: skip
    return facts


ZERO_3 = ("stage3_prefetch_bucket_size", "stage3_param_persistence_threshold",
          "stage3_max_live_parameters", "stage3_max_reuse_distance")  # fmt: skip
# Options of ZeRO that a record's scenario does not have, with DeepSpeed's own values
# (deepspeed/runtime/zero/config.py).
ZERO_BESIDE = {"offload_param": None, "offload_optimizer": None, "zenflow": None,
               "zero_hpz_partition_size": 1, "zero_quantized_weights": False,
               "zero_quantized_gradients": False, "reduce_scatter": True}  # fmt: skip


def _set(value: Any, usual: Any) -> bool:
    """Whether an option is not the usual one; offloading to the device "none" is none."""
    device = getattr(value, "device", None)
    return value != usual and str(getattr(device, "value", device)) != "none"


def _fsdp(found: list[Any], _: Any) -> dict[str, Any]:
    own = found[0]
    mixed = getattr(own, "mixed_precision", None)
    return {
        "sharding": getattr(own.sharding_strategy, "name", ""),
        "forward_prefetch": bool(getattr(own, "forward_prefetch", False)),
        "backward_prefetch": getattr(getattr(own, "backward_prefetch", None), "name", "none"),
        "limit_all_gathers": bool(getattr(own, "limit_all_gathers", True)),
        "param_dtype": str(getattr(mixed, "param_dtype", None)),
        "reduce_dtype": str(getattr(mixed, "reduce_dtype", None)),
        "modules": len(found),
        "cpu_offload": bool(getattr(getattr(own, "cpu_offload", None), "offload_params", False)),
    }


def _fsdp2(found: list[Any], _: Any) -> dict[str, Any]:
    facts: dict[str, Any] = {"modules": len(found), "reshard_after_forward": True, "shard_group": 0}
    kept = []
    for each in found:
        with contextlib.suppress(Exception):
            state = each._get_fsdp_state()
            group = state._fsdp_param_group
            if group is None:
                continue
            kept.append(bool(group._reshard_after_forward))
            facts["param_dtype"] = str(group.mp_policy.param_dtype)
            facts["reduce_dtype"] = str(group.mp_policy.reduce_dtype)
            facts["shard_group"] = int(group.mesh_info.shard_mesh_size)
            facts["replicas"] = int(getattr(group.mesh_info, "replicate_mesh_size", 1))
            facts["cpu_offload"] = "CPU" in type(group.offload_policy).__name__
    if kept:
        facts["reshard_after_forward"] = sum(kept) * 2 >= len(kept)
    return facts
