"""Writes what was measured in the formats that `calibrate` writes: a compute profile, a profile of
collectives, a cluster; and a scenario that names them."""

from __future__ import annotations

import datetime
import json
import math
import re
from typing import Any

from .measure import Measured, Point, bus_factor

MIB = 1024.0 * 1024.0
# Gloo's rules, as `calibrate comm` has them (src/profile/transport_fit.hpp): two segments of a
# ring's chunk or more, none above 1 MiB (gloo/allreduce.cc), two threads (ProcessGroupGloo).
GLOO = {"segments": 2, "largest_segment": "1MiB", "at_a_time": 2}
# What a core takes for a segment where no small collective says it: `calibrate comm` on two cores
# of an AMD EPYC (tests/validation/fourteenth_testbed): 204 us, 655 us until a thread wakes, 1.08
# GB/s; how long a thread keeps its core: 4 ms there.
WAKE, PER_MESSAGE, HOST_RATE, SLICE = 655e-6, 204e-6, 1.08e9, "4ms"
# A port's rate where no node had one that the kernel stated, bytes a second: a guess that is told.
GUESSED_NIC = {"cpu": 1.25e9, "cuda": 12.5e9}


def seconds(value: float) -> str:
    value = max(value, 0.0)
    return f"{value:.6g}s" if value >= 0.1 else f"{1e6 * value:.6g}us"


def rate(value: float) -> str:
    return f"{value / 1e9:.6g}GBps"


def quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def flow(value: Any) -> str:
    """A value as YAML on one line; texts with a number and a unit stand as they are."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {flow(each)}" for key, each in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(flow(each) for each in value) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:.6g}"
    if value is None:
        return "null"
    if isinstance(value, str):
        plain = re.match(r"^[A-Za-z0-9][\w.+/-]*$", value)
        words = ("true", "false", "null", "yes", "no", "on", "off")
        number = re.match(r"^[\d.]+(e[+-]?\d+)?$", value)
        return value if plain and value.lower() not in words and not number else quoted(value)
    return str(value)


def block(value: dict[str, Any], indent: int = 0) -> str:
    """Maps and lists of maps over several lines, all else on one."""
    lines = []
    pad = " " * indent
    for key, each in value.items():
        if isinstance(each, dict) and each and len(flow(each)) > 80:
            lines.append(f"{pad}{key}:\n{block(each, indent + 2)}")
        elif isinstance(each, list) and each and isinstance(each[0], (dict, str)) and (
            len(flow(each)) > 80):  # fmt: skip
            items = "".join(f"{pad}  - {flow(item)}\n" for item in each)
            lines.append(f"{pad}{key}:\n{items}")
        else:
            lines.append(f"{pad}{key}: {flow(each)}\n")
    return "".join(lines)


# The compute profile -----------------------------------------------------------------------------


def profile_text(found: Measured, rank: dict[str, Any], gpu: str) -> str:
    """The schema of `calibrate compute`. Beside the recorded batch stands half of it, as the
    operators' shapes say: what does not grow with the batch stays."""
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
        units.append(one)
    points = []
    batches = [found.batch]
    if found.batch_known and found.batch > 1:
        batches.insert(0, max(1, found.batch // 2))
    for batch in batches:
        points.append(point_of(found, batch, optimizer, peak, reserved))
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
            "saved": "0B", "workspace": "0B",
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


# Collectives -------------------------------------------------------------------------------------


def line_through(points: list[Point]) -> tuple[float, float]:
    """Latency and seconds a byte, by least squares of relative errors; neither below 0."""
    sizes = {point.bytes for point in points}
    if len(sizes) == 1 or len(points) == 1:
        rate_of = median_of([point.time / point.bytes for point in points])
        return 0.0, rate_of
    a = b = c = d = e = 0.0
    for point in points:
        weight = 1 / (point.time * point.time)
        a += weight
        b += weight * point.bytes
        c += weight * point.bytes * point.bytes
        d += weight * point.time
        e += weight * point.bytes * point.time
    slope = (a * e - b * d) / (a * c - b * b)
    latency = (d - slope * b) / a
    if slope <= 0:
        return 0.0, median_of([point.time / point.bytes for point in points])
    if latency < 0:
        return 0.0, e / c
    return latency, slope


def median_of(values: list[float]) -> float:
    ordered = sorted(values)
    return ordered[len(ordered) // 2]


def curves_of(found: Measured) -> list[dict[str, Any]]:
    curves = []
    groups = sorted({(point.what, point.ranks) for point in found.points})
    for what, ranks in groups:
        points = [p for p in found.points if (p.what, p.ranks) == (what, ranks)]
        latency, slope = line_through(points)
        errors = sorted(abs(math.log((latency + slope * p.bytes) / p.time)) for p in points)
        spreads = sorted(p.spread for p in points)
        off = max(errors[-1], spreads[len(spreads) // 2])
        nodes = min(ranks, found.nodes) if ranks == found.world else (
            1 if ranks <= found.local else -(-ranks // found.local))  # fmt: skip
        curves.append({
            "collective": what, "ranks": ranks, "nodes": nodes,
            "segments": [{"latency": seconds(latency),
                          "busbw": f"{bus_factor(what, ranks) / slope / 1e9:.6g}GBps"}],
            "fitted_on": {"smallest": f"{min(p.bytes for p in points):.0f}B",
                          "largest": f"{max(p.bytes for p in points):.0f}B"},
            "residual_median": round(errors[len(errors) // 2], 4),
            "residual_max": round(errors[-1], 4),
            "error_p90_small": round(off, 4), "error_p90_large": round(off, 4),
        })  # fmt: skip
    return curves


def travels(found: Measured) -> bool:
    """Gloo between nodes with one rank each, which the simulator plays segment by segment."""
    return found.is_cpu and found.nodes > 1 and found.nodes == found.world and found.rate > 0


def transport_of(found: Measured) -> dict[str, Any]:
    small = [p for p in found.points if p.what == "all_reduce" and p.bytes <= 65536]
    wake, per_message = WAKE, PER_MESSAGE
    error = 0.5
    if small:
        each = min(p.time for p in small) / (2 * (found.world - 1))
        wake, per_message = 0.75 * each, 0.25 * each
        error = 0.3
    return {
        **GLOO, "efficiency": 1.0, "wake": seconds(wake), "per_message": seconds(per_message),
        "host_rate": rate(HOST_RATE), "slice": SLICE, "measured_at": rate(found.rate),
        "efficiency_error": 0.05, "host_error": error,
    }  # fmt: skip


def comm_text(found: Measured, rank: dict[str, Any], gpu: str) -> str:
    document: dict[str, Any] = {
        "name": "recorded", "hardware": gpu,
        "source": f"rehearse record, {'gloo' if found.is_cpu else 'nccl'}, "
                  f"{found.world} ranks on {found.nodes} nodes",
    }  # fmt: skip
    text = block(document)
    curves = curves_of(found)
    text += "curves:\n"
    for one in curves:
        first, *rest = block(one).splitlines()
        text += f"  - {first}\n" + "".join(f"    {line}\n" for line in rest)
    nccl = re.match(r"^(\d+\.\d+)", rank.get("versions", {}).get("nccl", ""))
    if nccl:
        text += f"nccl: {nccl.group(1)}\n"
    if travels(found):
        text += "transport:\n" + block(transport_of(found), 2)
    return text


# The cluster -------------------------------------------------------------------------------------


def nic_of(found: Measured, rank: dict[str, Any]) -> tuple[float, int, str]:
    """Bytes a second of a port, ports of a node, and who says so."""
    if travels(found):
        return found.rate, 1, "as collectives were seen to go"
    ports = rank.get("nics", [])
    bands = [one["gbit_s"] for one in ports if one["kind"] == "infiniband"]
    if bands:
        return max(bands) / 8 * 1e9, bands.count(max(bands)), "the node's InfiniBand ports"
    ethers = [one["mbit_s"] for one in ports if one["kind"] == "ethernet"]
    if ethers:
        return max(ethers) / 8 * 1e6, ethers.count(max(ethers)), "the node's Ethernet ports"
    return GUESSED_NIC["cpu" if found.is_cpu else "cuda"], 1, ""


def cluster_text(found: Measured, rank: dict[str, Any], gpu: str, named: bool) -> str:
    nic, ports, says = nic_of(found, rank)
    memory = rank.get("memory_bytes", 0)
    bandwidth = found.copy_rate or 10e9
    node: dict[str, Any] = {"gpus": found.local}
    if found.is_cpu:
        node["gpu"] = {"name": gpu, "fp32": f"{max(found.flops_rate, 1e9) / 1e9:.6g}GFLOPs",
                       "memory": f"{max(1, memory // max(1, found.local * (found.nodes // max(1, found.machines))))}B",
                       "memory_bandwidth": rate(bandwidth), "source": "recorded"}  # fmt: skip
        node["pcie"] = rate(bandwidth)
        node["host_bandwidth"] = rate(bandwidth)
    elif named:
        node["gpu"] = gpu
    else:
        node["gpu"] = {"name": gpu, "fp32": f"{max(found.flops_rate, 1e12) / 1e9:.6g}GFLOPs",
                       "memory": f"{rank['device'].get('memory_bytes', 1)}B",
                       "memory_bandwidth": rate(max(bandwidth, 100e9)), "source": "recorded"}  # fmt: skip
    node["nic"] = rate(nic)
    if ports > 1:
        node["nics"] = ports
    if not says:
        found.unknown.append(
            "the network between nodes: the kernel states no port's rate, so that "
            f"{8 * nic / 1e9:.3g} Gbit/s stand there; --set cluster.nic=RATE says it"
        )
    document: dict[str, Any] = {"source": "rehearse record" + (f"; nic: {says}" if says else ""),
                                "nodes": found.nodes, "node": node, "fabric": {"star": {}}}  # fmt: skip
    if found.is_cpu and found.nodes > found.machines:
        document["shared_cores"] = int(rank.get("cores", 1))
    if found.points:
        document["comm_profile"] = "comm.yaml"
    return block(document)


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
            if own.get(key) is not None and not (key == "contiguous_gradients" and own["stage"] > 2):
                options[key] = own[key]
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


def scenario_text(found: Measured, rank: dict[str, Any]) -> str:
    run: dict[str, Any] = {}
    if found.loader > 0.01 * found.step and found.loaded:
        loader = rank.get("loader", {})
        workers = int(loader.get("workers") or 0)
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
    if found.world > 1 or found.is_cpu:
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
    document["optimizer"] = {found.optimizer_kind: found.optimizer_options}
    if run:
        document["run"] = run
    if found.is_cpu:
        document["memory"] = {"device": "cpu"}
    return block(document)
