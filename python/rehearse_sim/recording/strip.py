"""Traces as files: read, and stripped of all but operators, shapes, types and times."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

# Fields of an operator that stay in the folder's trace.
KEPT = ("Sequence number", "Fwd thread id", "Input Dims", "Input type", "Collective name", "dtype",
        "Process Group Name", "Group size", "In msg nelems", "Out msg nelems", "correlation",
        "stream", "device", "Total Allocated", "Device Type", "Rank", "grid", "block")  # fmt: skip
CATEGORIES = ("cpu_op", "user_annotation", "kernel", "gpu_memcpy", "gpu_memset", "cuda_runtime",
              "cuda_driver")  # fmt: skip
# Annotations that are a framework's or ours.
NOTES = ("ProfilerStep#", "rehearse.", "gloo:", "nccl:", "Optimizer.", "enumerate(DataLoader)",
         "DistributedDataParallel.", "FSDP::", "FullyShardedDataParallel.", "autograd::")  # fmt: skip


def load(place: Path) -> dict[str, Any]:
    """A trace, packed or not. ValueError where it was cut off."""
    opened = gzip.open if place.suffix == ".gz" else open
    with opened(place, "rt", encoding="utf-8", errors="replace") as file:
        read = json.load(file)
    if not isinstance(read, dict) or not isinstance(read.get("traceEvents"), list):
        raise ValueError("no list traceEvents")
    return read


def stripped(trace: dict[str, Any]) -> dict[str, Any]:
    """What the folder keeps: names of operators, shapes, types and times; no paths, hosts, code or
    labels of processes."""
    events = []
    for event in trace["traceEvents"]:
        memory = event.get("name") == "[memory]"
        if not memory and (event.get("ph") != "X" or event.get("cat") not in CATEGORIES):
            continue
        name = event["name"]
        if event.get("cat") == "user_annotation" and not name.startswith(NOTES):
            name = "note"  # a text of the user's
        made = {key: event[key] for key in ("ph", "cat", "ts", "dur", "tid") if key in event}
        made["name"] = name
        made["pid"] = 0
        args = {k: v for k, v in event.get("args", {}).items() if k in KEPT}
        if event.get("cat") == "cpu_op":
            args = {k: v for k, v in args.items() if v not in ([], "")}
        made["args"] = args
        events.append(made)
    devices = [{k: one[k] for k in ("id", "name", "totalGlobalMem", "numSms") if k in one}
               for one in trace.get("deviceProperties", [])]  # fmt: skip
    run = {k: v for k, v in trace.get("distributedInfo", {}).items()
           if k in ("backend", "rank", "world_size", "nccl_version")}  # fmt: skip
    return {"schemaVersion": 1, "deviceProperties": devices, "distributedInfo": run,
            "traceEvents": events}  # fmt: skip
