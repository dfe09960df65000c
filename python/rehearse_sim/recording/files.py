"""Writes what was measured as a compute profile, in the format of `calibrate compute`, and as a
scenario."""

from __future__ import annotations

import datetime
import re
from collections.abc import Sequence
from typing import Any

from .measure import Measured
from .parallel import ZERO_3
from .yaml_text import block, flow, rate, seconds

MIB = 1024.0 * 1024.0
# As platforms/frameworks/torch.yaml has it.
LAST_TORCH = (2, 13)
# The compute profile -----------------------------------------------------------------------------


def profile_text(
    found: Measured, rank: dict[str, Any], gpu: str, others: Sequence[Measured] = ()
) -> str:
    """The schema of `calibrate compute`, with the batches of other records. Where there are none,
    half of the recorded batch stands beside it: what does not grow with the batch stays."""
    versions = rank.get("versions", {})
    device = rank["device"]
    memory = device.get("memory_bytes") or rank.get("memory_bytes", 0) // max(1, found.local)
    shards = found.world if is_sharded(rank) else 1
    optimizer = max(found.optimizer * shards, 1e-9)
    sample: dict[str, Any] = {"input": "1:float"}
    if found.sequence:
        sample = {"sequence": found.sequence}
    elif found.image:
        sample = {"image": found.image}
    rates = {"fp32": f"{max(found.flops_rate, 1e9) / 1e9:.6g}GFLOPs",
             "memory_bandwidth": rate(found.copy_rate or 10e9),
             "memory": f"{max(1, memory)}B"}  # fmt: skip
    origin = {
        "device": gpu, "driver": versions.get("driver", "none"),
        "cuda": "none" if found.is_cpu else versions.get("cuda", "recorded"),
        "nccl": versions.get("nccl", "none"), "libtorch": versions.get("torch", "recorded"),
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "command": "rehearse record", "host_threads": int(rank.get("threads", 1)),
    }  # fmt: skip
    peak = rank.get("memory", {}).get("allocated_bytes_all_peak", 0)
    reserved = rank.get("memory", {}).get("reserved_bytes_all_peak", 0)
    units = []
    for number, unit in enumerate(found.units):
        one: dict[str, Any] = {"name": unit.name, "tensors": unit.tensors}
        if number == 0 and found.buffers:
            one["buffer_elements"] = found.buffers
        if unit.handed:
            one["handed"] = f"{unit.handed:.0f}B"
        if unit.operators:
            one["operators"] = unit.operators
        units.append(one)
    by_batch = {one.batch: one for one in [*others, found]}
    batches = [(one, batch) for batch, one in sorted(by_batch.items())]
    if len(batches) == 1 and found.batch_known and found.batch > 1:
        batches.insert(0, (found, max(1, found.batch // 2)))
    points = [point_of(one, batch, optimizer, peak, reserved) for one, batch in batches]
    text = "schema: rehearse.profile/1\nkind: compute\n"
    text += block({"provenance": origin, "model": "recorded", "precision": found.precision,
                   "sample": sample, "rates": rates})  # fmt: skip
    text += "units:\n" + "".join(f"  - {flow(one)}\n" for one in units)
    text += f"step_optimizer: {found.optimizer_kind}\noptimizers:\n"
    text += f"  {found.optimizer_kind}: " + flow({
        "time": seconds(optimizer), "spread": round(found.optimizer_spread, 4),
        "repetitions": max(1, found.traced_steps)}) + "\n"  # fmt: skip
    return text + "points:\n" + "".join(points)


def point_of(found: Measured, batch: int, optimizer: float, peak: int, reserved: int) -> str:
    times: list[dict[str, Any]] = []
    ahead = behind = 0.0
    for unit in found.units:
        grown = batch / found.batch
        forward = unit.fixed_forward + grown * (unit.forward - unit.fixed_forward)
        backward = unit.fixed_backward + grown * (unit.backward - unit.fixed_backward)
        ahead, behind = ahead + forward, behind + backward
        times.append({
            "name": unit.name, "forward": seconds(forward), "backward": seconds(backward),
            "forward_spread": round(unit.forward_spread, 4),
            "backward_spread": round(unit.backward_spread, 4),
            "forward_launch": seconds(unit.forward_launch),
            "backward_launch": seconds(unit.backward_launch),
            "saved": f"{unit.fixed_saved + grown * (unit.saved - unit.fixed_saved):.0f}B",
            "workspace": "0B",
            "forward_flops": round(grown * unit.forward_flops),
            "backward_flops": round(grown * unit.backward_flops),
            "forward_moved": "0B", "backward_moved": "0B",
        })  # fmt: skip
    units = ahead + behind
    lines = f"  - batch: {batch}\n    repetitions: {max(1, found.traced_steps)}\n"
    lines += f"    allocated_peak: {peak}B\n"
    if reserved:
        lines += f"    reserved_peak: {reserved}B\n"
    lines += "    whole: " + flow({"forward": seconds(ahead), "backward": seconds(behind),
                                   "optimizer": seconds(optimizer),
                                   "step": seconds(units + optimizer)}) + "\n"  # fmt: skip
    lines += "    sum_check: " + flow({"units": seconds(units), "whole": seconds(units),
                                       "difference": 0.0}) + "\n    units:\n"  # fmt: skip
    return lines + "".join(f"      - {flow(one)}\n" for one in times)


# The scenario ------------------------------------------------------------------------------------


def is_sharded(rank: dict[str, Any]) -> bool:
    wrappers = rank.get("wrappers", {})
    if wrappers.get("fsdp", {}).get("sharding") in ("NO_SHARD",):
        return False
    stage = wrappers.get("deepspeed", {}).get("stage", 0)
    return bool("fsdp" in wrappers or "fsdp2" in wrappers or stage > 0)


def strategy_of(found: Measured, rank: dict[str, Any]) -> dict[str, Any]:
    wrappers = rank.get("wrappers", {})
    more: dict[str, Any] = {}
    if found.accumulation > 1:
        more["gradient_accumulation"] = found.accumulation
    if "deepspeed" in wrappers and wrappers["deepspeed"]["stage"] > 0:
        own = wrappers["deepspeed"]
        options: dict[str, Any] = {"stage": own["stage"], **more}
        for key in ("reduce_bucket_size", "overlap_comm", "contiguous_gradients"):
            if own.get(key) is not None and not (
                key == "contiguous_gradients" and own["stage"] > 2
            ):
                options[key] = own[key]
        if own["stage"] > 2:
            options |= {key: own[key] for key in ZERO_3 if own.get(key) is not None}
        if own.get("beside"):
            found.unknown.append(
                f"what DeepSpeed's {', '.join(own['beside'])} add to a step, beside what was "
                "measured of it: the scenario does not have them"
            )
        return {"zero": options}
    if "fsdp2" in wrappers:
        own = wrappers["fsdp2"]
        options = {"reshard_after_forward": own["reshard_after_forward"], **more}
        options["wrap"] = "blocks" if own["modules"] > 1 else "unit"
        if 1 < own.get("shard_group", 0) < found.world:
            options["shard_group"] = own["shard_group"]
        options |= dtypes(own)
        return {"fsdp2": options}
    if "fsdp" in wrappers:
        own = wrappers["fsdp"]
        names = {"FULL_SHARD": "full_shard", "SHARD_GRAD_OP": "shard_grad_op",
                 "HYBRID_SHARD": "hybrid_shard"}  # fmt: skip
        if own["sharding"] in names:
            options = {"sharding": names[own["sharding"]],
                       "forward_prefetch": own["forward_prefetch"],
                       "limit_all_gathers": own["limit_all_gathers"],
                       "wrap": "blocks" if own["modules"] > 1 else "model", **more}  # fmt: skip
            prefetch = own.get("backward_prefetch", "BACKWARD_PRE").lower()
            options["backward_prefetch"] = prefetch
            return {"fsdp": options | dtypes(own)}
    if "ddp" in wrappers:
        own = wrappers["ddp"]
        options = {"bucket_cap_mb": own["bucket_cap_bytes"] / MIB,
                   "first_bucket_mb": own["first_bucket_bytes"] / MIB,
                   "gradient_as_bucket_view": own["gradient_as_bucket_view"], **more}  # fmt: skip
        for hook in own.get("hooks", []):
            if hook.startswith(("fp16_compress", "bf16_compress")):
                options["compression"] = hook[:4]
        return {"ddp": options}
    if found.world > 1:
        found.unknown.append(
            "how replicas are kept equal: no DDP, FSDP or DeepSpeed engine was found, so that ddp "
            "stands there"
        )
    return {"ddp": more}


def dtypes(own: dict[str, Any]) -> dict[str, str]:
    names = {"torch.float32": "fp32", "torch.bfloat16": "bf16", "torch.float16": "fp16"}
    return {key: names[own[key]] for key in ("param_dtype", "reduce_dtype")
            if own.get(key) in names}  # fmt: skip


def torch_of(version: str) -> Any:
    """PyTorch, with its version where its defaults are known."""
    numbers = re.match(r"(\d+)\.(\d+)", version)
    if numbers and (1, 0) <= (int(numbers[1]), int(numbers[2])) <= LAST_TORCH:
        return {"torch": f"{numbers[1]}.{numbers[2]}"}
    return "torch"


def scenario_text(found: Measured, rank: dict[str, Any]) -> str:
    run: dict[str, Any] = {}
    loader = rank.get("loader", {})
    workers = int(loader.get("workers") or 0)
    # What a worker made is handed over in some time, too: that is no waiting for it.
    if found.loaded and found.loader > (0.03 if workers else 0.01) * found.step:
        if workers == 0:
            own = found.loader / (found.batch * found.loaded)
            run["data_loading"] = {"sample": seconds(own), "num_workers": 0}
        else:
            own = found.step * workers / (found.batch * found.loaded)
            run["data_loading"] = {"sample": seconds(own), "num_workers": workers}
            if loader.get("prefetch_factor"):
                run["data_loading"]["prefetch_factor"] = int(loader["prefetch_factor"])
            found.notes.append(
                "steps wait for the loader: its workers' time of a sample is what the step's "
                "length says of them"
            )
    if found.world > 1:
        run["jitter"] = "measured"
    document: dict[str, Any] = {
        "description": f"recorded: {1e3 * found.step:.6g} ms a step on {found.world} "
                       f"{'ranks of CPUs' if found.is_cpu else 'GPUs'}",
        "model": {"profile": "profile.yaml", "batch_per_gpu": found.batch},
        "cluster": {"use": "cluster.yaml"},
        "strategy": strategy_of(found, rank),
    }  # fmt: skip
    if "deepspeed" in rank.get("wrappers", {}):
        document["framework"] = "deepspeed"
    elif "megatron" not in rank.get("frameworks", {}):
        document["framework"] = torch_of(rank.get("versions", {}).get("torch", ""))
    document["optimizer"] = {found.optimizer_kind: found.optimizer_options}
    if run:
        document["run"] = run
    if found.is_cpu:
        document["memory"] = {"device": "cpu"}
    return block(document)
