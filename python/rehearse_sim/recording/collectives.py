"""Collectives as traces show them: by kind, size and ranks, and the rate between ranks."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass

from . import trace as traces
from .operators import bytes_of
from .statistic import MICRO, median, spread

# Factors of nccl-tests' bus bandwidth over its algorithm bandwidth, but for (n - 1) / n.
BUS = {"all_reduce": 2.0, "all_gather": 1.0, "reduce_scatter": 1.0, "all_to_all": 1.0}
WHOLE = ("broadcast", "reduce", "send_recv")  # whose bus bandwidth is their algorithm bandwidth
SPELLINGS = {
    "allreduce": "all_reduce", "allreduce_coalesced": "all_reduce",
    "all_reduce_coalesced": "all_reduce", "_all_gather_base": "all_gather",
    "allgather": "all_gather", "allgather_into_tensor_coalesced": "all_gather",
    "all_gather_into_tensor": "all_gather", "_allgather_base": "all_gather",
    "all_gather_into_tensor_coalesced": "all_gather", "_reduce_scatter_base": "reduce_scatter",
    "reducescatter": "reduce_scatter", "reduce_scatter_tensor": "reduce_scatter",
    "reduce_scatter_tensor_coalesced": "reduce_scatter", "alltoall": "all_to_all",
    "alltoall_base": "all_to_all", "all_to_allv": "all_to_all", "send": "send_recv",
    "recv": "send_recv", "sendrecv": "send_recv",
}  # fmt: skip


@dataclass
class Point:
    """A collective as it was seen: its least time over the ranks that were traced."""

    what: str
    bytes: float
    ranks: int
    time: float
    spread: float
    count: float  # in a step


def bus_factor(what: str, ranks: int) -> float:
    return BUS[what] * (ranks - 1) / ranks if what in BUS else 1.0


def name_of(what: str) -> str:
    plain = what.lower().strip("_")
    return SPELLINGS.get(what.lower(), SPELLINGS.get(plain, plain))


def points_of(world: int, is_cpu: bool, by_rank: list[list[traces.Step]]) -> list[Point]:
    """Collectives by kind and size: of each the least time over ranks, which waits for nobody."""
    samples: dict[tuple[str, float, int], list[float]] = {}
    steps = min(len(steps) for steps in by_rank)
    for number in range(steps):
        lists = [steps[number].collectives for steps in by_rank]
        counters: list[dict[tuple[str, float, int], int]] = [{} for _ in lists]
        least: dict[tuple[tuple[str, float, int], int], float] = {}
        for which, collectives in enumerate(lists):
            for one in collectives:
                key = (name_of(one.what), one.bytes, one.ranks or world)
                place = counters[which].get(key, 0)
                counters[which][key] = place + 1
                at = (key, place)
                least[at] = min(least.get(at, math.inf), one.time)
        for (key, _), time in least.items():
            samples.setdefault(key, []).append(MICRO * time)
    points = []
    for (what, size, ranks), times in sorted(samples.items()):
        if what not in (*BUS, *WHOLE) or ranks < 2 or size <= 0:
            continue
        # Of an all_gather a trace tells what a rank gives.
        whole = size * ranks if what == "all_gather" and is_cpu else size
        # Of one rank the quarter that waited least for others.
        alone = len(by_rank) < 2 and len(times) >= 4
        low = statistics.quantiles(times, n=4)[0] if alone else median(times)
        points.append(Point(what, whole, ranks, low, spread(times), len(times) / steps))
    return points


def rate_of(world: int, reader: traces.Reader) -> float:
    """Bytes a second between ranks while collectives ran: what a tenth of all bytes went faster than.
    The rest waited for late ranks or for cores, which `run` plays by themselves."""
    spans = sorted((e["ts"], e["ts"] + e["dur"], e) for e in reader.gloo)
    stretches: list[list[float]] = []
    for begin, end, event in spans:
        size = bytes_of(event.get("args", {}))
        what = name_of(event["name"][5:])
        moved = size * bus_factor(what, world)
        if what == "all_gather":
            moved *= world
        if stretches and begin < stretches[-1][1]:
            stretches[-1][1] = max(stretches[-1][1], end)
            stretches[-1][2] += moved
        else:
            stretches.append([begin, end, moved])
    rates = sorted(((moved / (MICRO * (end - begin)), moved) for begin, end, moved in stretches
                    if moved >= 262144), reverse=True)  # fmt: skip
    left = 0.1 * sum(moved for _, moved in rates)
    for rate, moved in rates:
        left -= moved
        if left <= 0:
            return rate
    return 0.0
