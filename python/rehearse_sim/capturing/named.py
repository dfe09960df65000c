"""Networks that libraries have by name: transformers' and diffusers' by config, id or class,
torchvision's and timm's.

Their own class is built on tensors without numbers, runs with the inputs and the loss that it
usually trains with, and what it calls is written once: the same name, library and sizes are read
from a cache of files.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import of_diffusers, of_transformers, of_vision
from .counts import degrees, whole
from .plans import Plan, UnknownNetwork

LIBRARIES = {"hf": "transformers", "transformers": "transformers", "diffusers": "diffusers",
             "torchvision": "torchvision", "timm": "timm"}  # fmt: skip


def cache_folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rehearse-sim/captured"


def _split(name: str) -> tuple[str, str]:
    library, colon, rest = name.partition(":")
    if not colon:
        return "hf", name
    if library not in LIBRARIES:
        raise UnknownNetwork(
            f"{name}: no library {library!r}: one of {', '.join(LIBRARIES)}, as torchvision:swin_t"
        )
    return library, rest


def _library(library: str) -> str:
    package = LIBRARIES[library]
    if not importlib.util.find_spec(package):
        raise UnknownNetwork(f"{package} is not installed in this Python: pip install {package}")
    return f"{package} {importlib.metadata.version(package)}"


def _text(library: str, rest: str) -> str:
    """The config that decides what the network is; its name where the library knows no more."""
    if library == "hf":
        return of_transformers.config_text(rest)
    if library == "diffusers" and Path(rest).exists():
        return of_transformers.config_text(rest)
    return of_transformers.default_text(rest) if library == "transformers" else rest


def plan_of(name: str, text: str = "", sequence: int = 0) -> Plan:
    """How the network is made and run. UnknownNetwork where it is none, or asks for what no name
    says."""
    library, rest = _split(name)
    text = text or _text(library, rest)
    if library == "torchvision":
        return of_vision.torchvision_plan(rest)
    if library == "timm":
        return of_vision.timm_plan(rest)
    if library == "diffusers" or '"_class_name"' in text:
        _library("diffusers")
        return of_diffusers.plan_of(rest, text if text.startswith("{") else "")
    return of_transformers.plan_of(text, name, sequence)


@dataclass
class NamedCapture:
    path: Path
    note: str  #: whose class, and what it ran with
    cached: bool  #: whether it was there already


def capture_named(
    name: str,
    *,
    precision: str = "",
    sequence: int = 0,
    channels_last: bool = False,
    batch: int = 0,
    tensor_parallel: int | Sequence[int] = (),
    plan: Mapping[str, Any] | None = None,
    path: str | Path | None = None,
) -> NamedCapture:
    """A network of a library by its name, as a file that a scenario's `model: {captured: FILE}`
    names: "hf:ORG/NAME" or a folder with config.json (transformers, diffusers),
    "transformers:swin" (a model_type with its default config), "diffusers:UNet2DConditionModel",
    "torchvision:swin_t", "timm:convnext_large".

    `precision`: else bf16 autocast over fp32 weights; of experts, which transformers multiplies in
    the weights' own format, bf16_pure. `sequence`: tokens of a sample; else what the network takes,
    up to 4,096. `channels_last`: images lie so. `batch`: the only one that
    the file holds at, for networks that run sample by sample. `tensor_parallel`, `plan`: as
    `capture` takes them; without a plan transformers' own. `path`: where the file is written; else
    into a cache, from which the same question is answered at once.
    """
    ways = degrees("tensor_parallel", tensor_parallel)
    for what, given in (("sequence", sequence), ("batch", batch)):
        if given != 0:
            whole(what, given, f"{what}=8")
    library, rest = _split(name)
    version = _library(library)
    text = _text(library, rest)
    own = hashlib.sha256(b"".join(each.read_bytes() for each in sorted(Path(__file__).parent.glob("*.py"))))
    asked = json.dumps([library, version, text, precision, sequence, channels_last, batch,
                        ways, plan, own.hexdigest(), _torch_version()])
    key = hashlib.sha256(asked.encode()).hexdigest()[:20]
    place = Path(path) if path else cache_folder() / f"{key}.model.json"
    note = place.with_suffix(".note")
    if not path and place.exists() and note.exists():
        return NamedCapture(place, note.read_text(), True)

    from .capture import capture
    from .tensor_ranks import file_of

    usual = plan_of(name, text, sequence)
    place.parent.mkdir(parents=True, exist_ok=True)
    fresh = place.with_suffix(f".{os.getpid()}")
    called = re.sub(r"[^A-Za-z0-9_.-]+", "_", Path(rest).stem if "/" in rest else rest) or library
    wrote = capture(usual.make, usual.inputs, targets=usual.targets, loss=usual.loss, precision=precision or usual.precision,
            name=called, path=fresh, batches=(batch,) if batch else usual.batches, channels_last=channels_last,
            tensor_parallel=ways, plan=plan)  # fmt: skip
    for ranks in ways:
        file_of(fresh, ranks).replace(file_of(place, ranks))
    fresh.replace(place)
    said = "\n".join((usual.note + (", in channels_last" if channels_last else ""), *wrote.notes))
    if not path:
        note.write_text(said)
    return NamedCapture(place, said, False)


def _torch_version() -> str:
    return importlib.metadata.version("torch") if importlib.util.find_spec("torch") else ""
