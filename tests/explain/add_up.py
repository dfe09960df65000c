#!/usr/bin/env python3
"""Checks that the parts of `rehearse explain --format json` add up, to 1e-9 of a step.

    tests/explain/add_up.py FILE...
"""
import json
import sys


def wrong(explanation):
    """Yields what does not add up."""
    path = explanation["critical_path"]
    step = explanation["step_time_s"]

    def check(what, got, expected):
        if abs(got - expected) > 1e-9 * step:
            yield f"{what}: {got} s, not {expected} s"

    total = path["total_s"]
    yield from check("by_kind", sum(path["by_kind"].values()), total)
    yield from check("by_unit", sum(one["s"] for one in path["by_unit"]), total)
    yield from check("by_rank", sum(one["s"] for one in path["by_rank"]), total)
    kinds = path["by_kind"]
    yield from check("by_link", sum(one["s"] for one in path["by_link"]), kinds["collective"] + kinds["transfer"])
    for link in path["by_link"]:
        yield from check("link", link["latency_s"] + link["bandwidth_s"] + link["contention_s"], link["s"])
        yield from check("contention", min(0, link["contention_s"]), 0)
    at = 0.0
    for segment in path["segments"]:
        yield from check(f"segment {segment['label']}", segment["start_s"], at)
        at = segment["start_s"] + segment["duration_s"]
    for rank in explanation["ranks"]:
        parts = rank["compute_s"] + rank["exposed_communication_s"] + rank["idle_s"]
        yield from check(f"rank {rank['rank']}", parts, rank["step_s"])
        yield from check(f"idle of rank {rank['rank']}", sum(rank["idle"].values()), rank["idle_s"])
    for name in ("causes", "operations", "workers"):
        for one in explanation["attribution"][name]:
            yield from check(f"{name}", one["step_time_s"] + one["saved_s"], step)
    for one in explanation["more"]:
        yield from check(one["resource"], one["step_time_s"] + one["saved_s"], step)
    if not explanation["ranks"] or not explanation["more"] or not 3 <= len(explanation["words"]) <= 9:
        yield "something is missing"
    ranks = {rank["rank"]: rank for rank in explanation["ranks"]}
    for stage in (explanation["pipeline"] or {"stages": []})["stages"]:
        idle = ranks[stage["rank"]]["idle_s"]
        yield from check(f"bubbles of stage {stage['stage']}", sum(stage["bubble"].values()), idle)
        waits = stage["bubble_waits_for"]
        waited = sum(waits["stages_s"].values()) + sum(waits["exchanges"].values()) + waits["host_s"]
        yield from check(f"what stage {stage['stage']} waits for", waited, idle)
    ideal = explanation["attribution"]["ideal_step_s"]
    causes = explanation["attribution"]["causes"]
    if causes:
        yield from check("the last cause leaves the ideal", causes[-1]["cumulative_step_time_s"], ideal)


failures = 0
for file in sys.argv[1:]:
    with open(file, encoding="utf-8") as text:
        for problem in wrong(json.load(text)):
            failures += 1
            print(f"{file}: {problem}")
sys.exit(failures > 0 or not sys.argv[1:])
