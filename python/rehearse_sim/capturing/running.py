"""Runs a step at several sizes, and writes what it called."""

from __future__ import annotations

import contextlib
import gc
import json
import re
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from . import cuda_rules
from .document import document
from .fitting import Fit, Point, Unlike, check_at, same_sequence
from .plans import quiet_tries
from .recorder import Recorder, SparseGradient, UnknownExchange, own_part


class CaptureError(Exception):
    """The module cannot be captured like this; the message says where and what helps. `file` and
    `line` are the user's own that it names; "" and None: it names none."""

    @property
    def file(self) -> str:
        return self._place()[0]

    @property
    def line(self) -> int | None:
        return self._place()[1]

    def _place(self) -> tuple[str, int | None]:
        found = re.search(r"(\S+\.py):(\d+)", str(self))
        return (found[1], int(found[2])) if found else ("", None)


@dataclass
class Captured:
    """What `capture` wrote."""

    path: Path
    parameters: int
    units: list[str]
    peak_bytes: int  #: of activations, gradients and copies at the smallest batch
    operators: int
    notes: list[str] = field(default_factory=list)


def _resized(value: Any, base: Point, point: Point) -> Any:
    """An example of another size: dimension 0 is the batch, and as long as the length the length."""
    if isinstance(value, torch.Tensor):
        shape = list(value.shape)
        if shape and shape[0] == base[0]:
            shape[0] = point[0]
        for place in range(1, len(shape)):
            if base[1] and shape[place] == base[1]:
                shape[place] = point[1]
        return torch.zeros(shape, dtype=value.dtype)
    if isinstance(value, dict):
        return {key: _resized(each, base, point) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_resized(each, base, point) for each in value)
    return value


def made(value: Any, base: Point, point: Point) -> Any:
    if callable(value):
        return value(*point) if point[1] else value(point[0])
    return _resized(value, base, point)


def tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return [tensor for each in value for tensor in tensors(each)]
    return []


def call(module: torch.nn.Module, inputs: Any) -> Any:
    if isinstance(inputs, dict):
        return module(**inputs)
    return module(*inputs) if isinstance(inputs, (list, tuple)) else module(inputs)


def _explained(error: Exception) -> Exception:
    if isinstance(error, (SparseGradient, UnknownExchange)):
        return CaptureError(str(error))
    asks = type(error).__name__ in ("DataDependentOutputException", "DynamicOutputShapeException")
    if asks or "is not supported for tensor subclasses" in str(error):  # .numpy(), .tolist()
        return CaptureError(
            f"the module asks for a tensor's value, which nothing has here ({error}), at "
            f"{place_of(error)}; take the branch by a flag, or an implementation of fixed shapes"
        )
    raised = traceback.extract_tb(error.__traceback__)
    if isinstance(error, CaptureError) or "/torch/" not in raised[-1].filename:
        return error  # the module's own words
    first = (str(error).splitlines() or [""])[0]
    return CaptureError(
        f"PyTorch refuses a call at {place_of(error)}: {type(error).__name__}: {first}; are `inputs` "
        "shaped and typed as the module takes them?"
    )


def _own_line(frames: traceback.StackSummary) -> str:
    own = [each for each in frames if "/torch/" not in each.filename and "rehearse_sim" not in each.filename]
    last = (own or frames)[-1]
    return f"{last.filename}:{last.lineno}: {last.line}"


def place_of(why: BaseException) -> str:
    """The last line of the network's own code, not PyTorch's."""
    return _own_line(traceback.extract_tb(why.__traceback__))


def place_now() -> str:
    """The line of the user's own code that runs."""
    return _own_line(traceback.extract_stack())


@contextlib.contextmanager
def recording(recorder: Recorder) -> Iterator[None]:
    """Memory goes when its last owner does, not when Python's collector comes by; CaptureError
    where the module cannot run without numbers."""
    gc.collect()
    gc.disable()
    own = torch.autograd.set_multithreading_enabled(False)  # or its threads lack the modes
    try:
        with recorder, own, cuda_rules.transformers_masks(), quiet_tries():
            yield
    except Exception as error:
        told = _explained(error)
        if told is error:
            raise
        raise told from error
    finally:
        gc.enable()


@dataclass
class Run:
    """One step at one size: what it called, of which module, with which batch."""

    recorder: Recorder
    module: torch.nn.Module
    batch: list[torch.Tensor]
    by_value: list[str] = field(default_factory=list)  #: lines whose shapes its values decide


@dataclass
class Runs:
    """Those that are fitted, and where the fit was checked."""

    fit: Fit
    of: list[Run]
    checked: Point | None


class DependsOnSize(CaptureError):
    """What runs is not the same at two batches, or lengths."""


def depends_on_size(unlike: Unlike, batch: list[torch.Tensor]) -> DependsOnSize:
    one = batch[0].shape[0] if batch else 1
    return DependsOnSize(
        f"what it runs depends on the size in no simple way ({unlike}); capture it at one "
        f"size: batches=({one},)"
    )


def shapes_of(run: Run) -> list[torch.Size]:
    return [each.shape for each in run.batch]


@dataclass
class Sizes:
    """At which batches and lengths a step runs: one, or two to fit and one to check."""

    batches: Sequence[int]
    lengths: Sequence[int] = ()

    def __post_init__(self) -> None:
        for name, given in (("batches", self.batches), ("lengths", self.lengths)):
            known = isinstance(given, Sequence) and not isinstance(given, str)
            if not known or any(type(each) is not int for each in given):
                raise TypeError(f"{name} is a tuple of whole numbers, not {given!r}: {name}=(2, 4, 7)")
        if len(self.batches) not in (1, 3) or len(self.lengths) not in (0, 1, 3):
            raise CaptureError("batches and lengths: one size, or two to fit and one to check")
        for sizes in (self.batches, self.lengths):
            if len(set(sizes)) < len(sizes) or any(size < 1 for size in sizes):
                raise CaptureError(f"batches and lengths are unlike sizes above 0, not {tuple(sizes)}")

    def runs(self, record: Callable[[Point], Run]) -> Runs:
        """CaptureError where the sizes change what runs in no simple way."""
        lasting = list(self.lengths[:2]) or [0]
        points = [(batch, length) for length in lasting for batch in self.batches[:2]]
        runs = Runs(Fit(points), [record(point) for point in points], None)
        recorders = [run.recorder for run in runs.of]
        if len(self.batches) == 3 and shapes_of(runs.of[0]) == shapes_of(runs.of[1]):
            raise CaptureError(
                f"the inputs are the same at batches {self.batches[0]} and {self.batches[1]}: make "
                f"them of the size that is asked for, or capture one: batches=({self.batches[0]},)"
            )
        try:
            same_sequence(recorders)
            if len(self.batches) == 3:
                length = self.lengths[2] if len(self.lengths) == 3 else lasting[0]
                runs.checked = (self.batches[2], length)
                check_at(runs.fit, recorders, record(runs.checked).recorder, runs.checked)
        except Unlike as unlike:
            _same_again(runs, record)
            raise depends_on_size(unlike, runs.of[0].batch) from None
        return runs


def _same_again(runs: Runs, record: Callable[[Point], Run]) -> None:
    """CaptureError where one size does not run twice alike, as layers do that chance leaves out."""
    again = record(runs.fit.points[0]).recorder
    try:
        same_sequence([runs.of[0].recorder, again])
    except Unlike as unlike:
        raise CaptureError(
            f"what it runs differs from run to run at one size ({unlike}): chance decides, as in "
            "layers that are left out; switch that off, and capture what runs the most"
        ) from None


def write(
    runs: Runs, name: str, precision: str, path: str | Path | None, ranks: int = 1,
    axis: str = "tensor",
) -> Captured:  # fmt: skip
    """Into `path`, else NAME.model.json; `ranks`: that share layers or tables, of which it is one."""
    name = name.strip("<>")
    place = Path(path) if path else Path(f"{name}.model.json")
    try:
        content = document(
            name, precision, runs.fit, [run.recorder for run in runs.of],
            [run.module for run in runs.of], [run.batch for run in runs.of], runs.checked, ranks, axis,
        )  # fmt: skip
    except Unlike as unlike:
        raise depends_on_size(unlike, runs.of[0].batch) from None
    place.write_text(json.dumps(content, separators=(",", ":")) + "\n")
    first = runs.of[0]
    return Captured(
        place, sum(own_part(each).numel() for each in first.module.parameters()),
        [unit.name for unit in first.recorder.units], content["captured_at"]["peak_bytes"],
        sum(len(unit.forward) + len(unit.backward) for unit in first.recorder.units),
        [f"{line}\n  how many elements this has is a matter of the batch's values: it is captured "
         "with those of `inputs`" for line in first.by_value],
    )  # fmt: skip
