"""The recorded machine: its collectives in the format of `calibrate comm`, and its nodes."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from .collectives import Point, bus_factor
from .measure import Measured
from .yaml_text import block, rate, seconds

# Gloo's rules, as `calibrate comm` has them (src/profile/transport_fit.hpp): two segments of a
# ring's chunk or more, none above 1 MiB (gloo/allreduce.cc), two threads (ProcessGroupGloo).
GLOO = {"segments": 2, "largest_segment": "1MiB", "at_a_time": 2}
# What a core takes for a segment where no small collective says it: `calibrate comm` on two cores
# of an AMD EPYC (tests/validation/fourteenth_testbed): 204 us, 655 us until a thread wakes, 1.08
# GB/s; how long a thread keeps its core: 4 ms there.
WAKE, PER_MESSAGE, HOST_RATE, SLICE = 655e-6, 204e-6, 1.08e9, "4ms"
# A port's rate where no node had one that the kernel stated, bytes a second: a guess that is told.
GUESSED_NIC = {"cpu": 1.25e9, "cuda": 12.5e9}


def line_through(points: list[Point]) -> tuple[float, float]:
    """Latency and seconds a byte, by least squares of relative errors, each weighing as much as it
    takes of a step; neither below 0."""
    sizes = {point.bytes for point in points}
    if len(sizes) == 1 or len(points) == 1:
        rate_of = median_of([point.time / point.bytes for point in points])
        return 0.0, rate_of
    a = b = c = d = e = 0.0
    for point in points:
        weight = max(point.count, 1e-3) / point.time
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
    curves: list[dict[str, Any]] = []
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
    for one in [c for c in curves if c["collective"] == "all_reduce"]:
        # Gloo of PyTorch reduces all where FSDP and DeepSpeed scatter.
        if found.is_cpu and not any(c["collective"] == "reduce_scatter" for c in curves):
            segments = [{**each, "busbw": halved(each["busbw"])} for each in one["segments"]]
            curves.append({**one, "collective": "reduce_scatter", "segments": segments})
    return curves


def halved(text: str) -> str:
    return f"{float(text[:-4]) / 2:.6g}GBps"


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


def comm_text(
    found: Measured, rank: dict[str, Any], gpu: str, others: Sequence[Measured] = ()
) -> str:
    document: dict[str, Any] = {
        "name": "recorded", "hardware": gpu,
        "source": f"rehearse record, {'gloo' if found.is_cpu else 'nccl'}, "
                  f"{found.world} ranks on {found.nodes} nodes",
    }  # fmt: skip
    text = block(document)
    curves = curves_of(found)
    for other in others:
        seen = [(one["collective"], one["ranks"], one["nodes"]) for one in curves]
        curves += [one for one in curves_of(other)
                   if (one["collective"], one["ranks"], one["nodes"]) not in seen]  # fmt: skip
    text += "curves:\n"
    for one in curves:
        first, *rest = block(one).splitlines()
        text += f"  - {first}\n" + "".join(f"    {line}\n" for line in rest)
    nccl = re.match(r"^(\d+\.\d+)", rank.get("versions", {}).get("nccl", ""))
    if nccl:
        text += f"nccl: {nccl.group(1)}\n"
    sent = [one for one in [found, *others] if travels(one)]
    if sent:
        text += "transport:\n" + block(transport_of(sent[0]), 2)
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


def cluster_text(
    found: Measured, rank: dict[str, Any], gpu: str, named: bool, links: Mapping[str, str]
) -> str:
    """`links`: a node's keys, as the topology has them."""
    nic, ports, says = nic_of(found, rank)
    memory = rank.get("memory_bytes", 0)
    bandwidth = found.copy_rate or 10e9
    node: dict[str, Any] = {"gpus": found.local}
    if found.is_cpu:
        sharing = found.local * max(1, found.nodes // max(1, found.machines))
        node["gpu"] = {"name": gpu, "fp32": f"{max(found.flops_rate, 1e9) / 1e9:.6g}GFLOPs",
                       "memory": f"{max(1, memory // sharing)}B",
                       "memory_bandwidth": rate(bandwidth), "source": "recorded"}  # fmt: skip
        node["pcie"] = rate(bandwidth)
        node["host_bandwidth"] = rate(bandwidth)
    elif named:
        node["gpu"] = gpu
    else:
        node["gpu"] = {"name": gpu, "fp32": f"{max(found.flops_rate, 1e12) / 1e9:.6g}GFLOPs",
                       "memory": f"{rank['device'].get('memory_bytes', 1)}B",
                       "memory_bandwidth": rate(max(bandwidth, 100e9)), "source": "recorded"}  # fmt: skip
    node |= {key: value for key, value in links.items() if key != "nics"}
    node["nic"] = rate(nic)
    if min(ports, found.local) > 1:
        node["nics"] = min(ports, found.local)
    if not says:
        found.unknown.append(
            "the network between nodes: the kernel states no port's rate, so that "
            f"{8 * nic / 1e9:.3g} Gbit/s stand there; --set cluster.nic=RATE says it"
        )
    document: dict[str, Any] = {"source": "rehearse record" + (f"; nic: {says}" if says else ""),
                                "nodes": found.nodes, "node": node, "fabric": {"star": {}}}  # fmt: skip
    if found.is_cpu and found.nodes > found.machines:
        document["shared_cores"] = int(rank.get("cores", 1))
    if found.is_cpu and found.ready > 0:
        hosts = max(1, found.nodes // max(1, found.machines))
        document["run_queue"] = {
            "ready": seconds(min(found.ready, found.step)), "step": seconds(found.step),
            "ranks": found.local * hosts, "threads_per_rank": int(rank.get("threads", 1)),
            "cores": int(rank.get("cores", 1))}  # fmt: skip
    if found.points:
        document["comm_profile"] = "comm.yaml"
    return block(document)
