"""Rehearse a training run before you rent the cluster: time, memory, accuracy of distributed
training, from Python.

    import rehearse_sim
    p = rehearse_sim.predict("scenario.yaml", cluster__nodes=8)
    p.step_time_s, p.interval, p.memory.verdict
"""

from __future__ import annotations

from typing import Any

from .answers import Answer, Breakdown, Memory, Prediction, RlPrediction
from .errors import (
    BoundNotMet,
    CannotFinish,
    InputError,
    MissingError,
    Mistake,
    OurBug,
    RehearseError,
)
from .program import shipped
from .questions import (
    check,
    compare,
    explain,
    forecast,
    plan,
    predict,
    predict_many,
    sweep,
    validate,
)
from .spread import PoolExecutor

__all__ = [
    "Answer", "BoundNotMet", "Breakdown", "CannotFinish", "EmbeddingBags", "InputError", "Memory", "MissingError",
    "Mistake", "OurBug", "PoolExecutor", "Prediction", "RehearseError", "RlPrediction", "Table", "capture",
    "capture_named", "capture_step", "check", "compare", "explain", "forecast", "plan", "predict", "predict_many",
    "shipped", "sweep", "validate",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """`capture` and `capture_step` need PyTorch: they are loaded when they are asked for."""
    if name in ("capture", "CaptureError", "Captured"):
        from .capturing import capture

        return getattr(capture, name)
    if name in ("EmbeddingBags", "Table"):
        from .capturing import embeddings

        return getattr(embeddings, name)
    if name in ("capture_named", "NamedCapture", "UnknownNetwork"):
        from .capturing import named

        return getattr(named, name)
    if name in ("capture_step", "CapturedStep"):
        from .capturing import step

        return getattr(step, name)
    raise AttributeError(f"module 'rehearse_sim' has no attribute {name!r}")
