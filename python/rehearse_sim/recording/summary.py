"""`record.yaml`: all that was measured, to read."""

from __future__ import annotations

from typing import Any

from .measure import Measured
from .rank_steps import CPU, plain_steps, running, step_time
from .statistic import median, spread
from .yaml_text import seconds


def rank_lines(ranks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    lines = []
    for one in ranks:
        line = {"rank": one.get("rank"), "node": one.get("node"), "state": one.get("state"),
                "steps": one.get("ended_steps"), **one.get("memory", {})}  # fmt: skip
        if one.get("cores"):
            line["cores"] = one["cores"]
        if one.get("steps") and (plain := plain_steps(one)):
            ready = median([running(each) - each[CPU] for each in plain])
            line["ready_without_a_core"] = seconds(ready)
        if one.get("errors"):
            line["errors"] = one["errors"]
        lines.append(line)
    return lines


def without_trace(ranks: list[dict[str, Any]]) -> dict[str, Any]:
    """The step's time, where it was timed and no kernel is known."""
    own = next((one for one in ranks if one.get("steps") and plain_steps(one)), None)
    if own is None:
        return {}
    plain = plain_steps(own)
    lengths = [each[1] - each[0] for each in plain]
    is_cpu = own.get("device", {}).get("kind", "cpu") == "cpu"
    return {"step": {"time": seconds(step_time(plain, is_cpu)),
                     "quartiles_apart": round(spread(lengths), 4), "steps": len(plain)},
            "run": {"ranks": own.get("world", 1)},
            "model": {k: v for k, v in own.get("model", {}).items() if k != "units"},
            "versions": own.get("versions", {}), "groups": own.get("groups", []),
            "loader": own.get("loader", {}), "wrappers": own.get("wrappers", {})}  # fmt: skip


def describe(found: Measured, own: dict[str, Any], ranks: list[dict[str, Any]], predicted: float,
             trouble: str, troubles: list[str]) -> dict[str, Any]:  # fmt: skip
    step: dict[str, Any] = {
        "time": seconds(found.step), "quartiles_apart": round(found.step_spread, 4),
        "steps": found.plain_steps, "while_profiled": seconds(found.profiled_step),
        "forward": seconds(found.accumulation * sum(u.forward for u in found.units)),
        "backward": seconds(found.accumulation * sum(u.backward for u in found.units)),
        "optimizer": seconds(found.optimizer), "exposed": seconds(found.exposed),
        "loader": seconds(found.loader), "ready_without_a_core": seconds(found.ready),
    }  # fmt: skip
    if predicted:
        step["predicted"] = seconds(predicted)
        step["error"] = round(predicted / found.step - 1, 4)
    summary: dict[str, Any] = {
        "state": "recorded" if not trouble else "recorded; run refuses the scenario",
        "step": step,
        "run": {"ranks": found.world, "nodes": found.nodes, "ranks_per_node": found.local,
                "batch_per_rank": found.batch if found.batch_known else "unknown",
                "micro_batches": found.accumulation, "precision": found.precision},
        "cost_of_recording": {"once": seconds(found.own_time), "of_a_run_of": seconds(found.whole),
                              "profiled_over_plain": round(found.profiled_step / found.step, 3)},
        "device": own["device"], "processor": own.get("processor", ""),
        "versions": own.get("versions", {}), "flags": own.get("flags", {}),
        "ports": own.get("nics", []),
        "model": {k: v for k, v in own.get("model", {}).items() if k != "units"},
        "optimizer": (own.get("optimizers") or [{}])[0],
        "loader": own.get("loader", {}),
        "wrappers": own.get("wrappers", {}), "frameworks": own.get("frameworks", {}),
        "groups": own.get("groups", []), "meshes": own.get("meshes", []),
        "collectives": [{"what": p.what, "size": f"{p.bytes:.0f}B", "ranks": p.ranks,
                         "time": seconds(p.time), "spread": round(p.spread, 3),
                         "in_a_step": round(p.count, 2)} for p in found.points],
        "units": [{"name": u.name, "parameters": sum(u.tensors), "forward": seconds(u.forward),
                   "backward": seconds(u.backward)} for u in found.units],
        "ranks": rank_lines(ranks),
        "unknown": found.unknown, "notes": found.notes + troubles,
    }  # fmt: skip
    if trouble:
        summary["why"] = trouble.splitlines()[0]
    return summary
