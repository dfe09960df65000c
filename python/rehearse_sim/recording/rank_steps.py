"""The steps that a rank wrote down: their columns, which of them ran without the profiler, and what
their threads did. Times are seconds."""

from __future__ import annotations

from typing import Any

from .statistic import median

# Columns of a rank's steps.
(BEGIN, END, FORWARD, BACKWARD, OPTIMIZER, WAITED, CPU, PROCESS, BACKWARDS, BATCHES,
 QUEUED) = range(11)  # fmt: skip


def step_time(plain: list[list[float]], is_cpu: bool) -> float:
    """Seconds of a step. A GPU's host runs ahead, and waits where it asks for a value: there means
    of ten steps on end count."""
    if is_cpu:
        return median([each[END] - each[BEGIN] for each in plain])
    size = min(10, len(plain))
    means = []
    for at in range(0, len(plain) - size + 1, size):
        some = plain[at : at + size]
        spent = sum(each[END] - each[BEGIN] for each in some)
        means.append(spent / size)
    return median(means)


def plain_numbers(rank: dict[str, Any]) -> list[int]:
    """Steps without the profiler, behind the warm-up. The first one behind the profiled ones has
    the export of the trace in it, and the profiler's first two have its start."""
    count, warmup = len(rank["steps"]), rank.get("warmup", 5)
    if not rank["profiled"]:
        return list(range(warmup, count))
    first = rank["profiled"][0] - 2
    last = rank["profiled"][-1]
    return [at for at in range(warmup, count) if not first <= at <= last + 1]


def plain_steps(rank: dict[str, Any]) -> list[list[float]]:
    return [rank["steps"][at] for at in plain_numbers(rank)]


def running(step: list[float]) -> float:
    """Seconds in which a step's thread runs, or stands ready while others have the cores."""
    return step[CPU] + (step[QUEUED] if len(step) > QUEUED else 0)


def waiting(step: list[float]) -> float:
    """Seconds in which a step's thread waits for others, but for those for data."""
    return max(0.0, step[END] - step[BEGIN] - running(step) - step[WAITED])


def middle(rank: dict[str, Any], numbers: list[int]) -> list[int]:
    """The half of steps that are nearest the median: their parts add up to it."""
    ordered = sorted((rank["steps"][at][END] - rank["steps"][at][BEGIN], at)
                     for at in numbers if at < len(rank["steps"]))  # fmt: skip
    count = len(ordered)
    return [at for _, at in ordered[count // 4 : max(count // 4 + 1, count - count // 4)]]


def over_ranks(ranks: list[dict[str, Any]], numbers: list[int], pick: Any, what: Any) -> float:
    """The mean over steps of the most or the least that a rank has of something."""
    picked = [pick([what(one["steps"][at]) for one in ranks if at < len(one["steps"])])
              for at in numbers]  # fmt: skip
    return sum(picked) / len(picked) if picked else 0.0
