"""What the tests share: the program that CTest names, scenarios that take no time."""

from __future__ import annotations

import importlib.util
import os
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))
SCENARIOS = ROOT / "scenarios"

TOY = {
    "model": {
        "name": "toy", "batch_per_gpu": 8, "optimizer_time": "1ms",
        "units": [{"name": "a", "parameters": 1_000_000, "forward": "2ms", "backward": "4ms",
                   "activation": "1MiB"}],
    },
    "cluster": {"use": "dgx_h100"},
    "strategy": {"ddp": {}},
}  # fmt: skip
STUDY = {
    "description": "Nodes and buckets of a toy",
    "scenario": TOY,
    "vary": {"cluster.nodes": [1, 2, 3, 4, 5], "strategy.ddp.bucket_cap_mb": [1, 5, 25, 50]},
}
MANY = {**STUDY, "vary": {"cluster.nodes": list(range(1, 11)),
                          "strategy.ddp.bucket_cap_mb": list(range(1, 21))}}  # fmt: skip
PLAN = {
    "description": "Nodes of a toy",
    "scenario": TOY,
    "vary": {"cluster.nodes": [1, 2, 3], "strategy.ddp.bucket_cap_mb": [5, 25]},
    "objective": "throughput",
}


def has(*packages: str) -> bool:
    return all(importlib.util.find_spec(each) for each in packages)


def needs(*packages: str):  # type: ignore[no-untyped-def]
    """Skips, and says so, where a package is not installed."""
    return unittest.skipUnless(has(*packages), f"not installed: {', '.join(packages)}")


def has_program() -> bool:
    return bool(os.environ.get("REHEARSE")) or (ROOT / "build/release/rehearse").exists()
