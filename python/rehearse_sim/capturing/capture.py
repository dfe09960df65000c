"""Any PyTorch module as a model that Rehearse can predict: no weights, no GPU, no compiler.

    captured = rehearse_sim.capture(torchvision.models.swin_t, inputs=images, targets=classes,
                                    precision="bf16")
    rehearse_sim.predict({"model": {"captured": captured.path, "batch_per_gpu": 64}, ...})
"""

from __future__ import annotations

import copy
import gc
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from . import cuda_rules
from .document import document
from .fitting import Fit, Point, Unlike, check_at, same_sequence
from .recorder import Recorder
from .units import find_blocks

AUTOCAST = {"bf16": torch.bfloat16, "fp16": torch.float16}
PURE = {"bf16_pure": torch.bfloat16, "bf16_master": torch.bfloat16}
PRECISIONS = ("fp32", "tf32", *AUTOCAST, *PURE)


class CaptureError(Exception):
    """The module cannot be captured like this; the message says where and what helps."""


@dataclass
class Captured:
    """What `capture` wrote."""

    path: Path
    parameters: int
    units: list[str]
    peak_bytes: int  #: of activations, gradients and copies at the smallest batch
    operators: int
    notes: list[str] = field(default_factory=list)


Maker = Callable[..., Any]


@dataclass
class _Question:
    module: Any
    inputs: Any
    targets: Any
    loss: Maker | None
    precision: str
    units: Sequence[str | type]
    hold_output: bool
    base: Point


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


def _made(value: Any, base: Point, point: Point) -> Any:
    if callable(value):
        return value(*point) if point[1] else value(point[0])
    return _resized(value, base, point)


def _tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return [tensor for each in value for tensor in _tensors(each)]
    return []


def _fake(module: Any) -> torch.nn.Module:
    """A factory's module, or one that is there: its tensors without numbers."""
    if not isinstance(module, torch.nn.Module):
        made = module()
        if not isinstance(made, torch.nn.Module):
            raise CaptureError(f"the factory made no torch.nn.Module, but {type(made).__name__}")
        return made
    memo: dict[int, Any] = {}
    for each in (*module.parameters(), *module.buffers()):
        plain = torch.empty_strided(each.shape, each.stride(), dtype=each.dtype)
        own = isinstance(each, torch.nn.Parameter)
        memo[id(each)] = torch.nn.Parameter(plain, each.requires_grad) if own else plain
    return copy.deepcopy(module, memo)


def _convert(module: torch.nn.Module, dtype: torch.dtype) -> None:
    """module.to(dtype), which fake tensors refuse; nothing where the parameters are of it."""
    if all(each.dtype == dtype for each in module.parameters() if each.is_floating_point()):
        return
    known: dict[int, torch.nn.Parameter] = {}
    for each in module.modules():
        for name, parameter in list(each._parameters.items()):
            if parameter is not None and parameter.is_floating_point():
                made = torch.nn.Parameter(parameter.detach().to(dtype), parameter.requires_grad)
                each._parameters[name] = known.setdefault(id(parameter), made)
        for name, buffer in list(each._buffers.items()):
            if buffer is not None and buffer.is_floating_point():
                each._buffers[name] = buffer.to(dtype)


def _loss_of(output: Any, targets: Any, loss: Maker | None) -> torch.Tensor:
    if loss is not None:
        found = loss(output, targets) if targets is not None else loss(output)
    elif getattr(output, "loss", None) is not None:
        found = output.loss
    elif isinstance(output, torch.Tensor) and output.dim() == 0:
        found = output
    elif targets is not None and isinstance(output, torch.Tensor):
        found = torch.nn.functional.cross_entropy(output, targets)
    else:
        raise CaptureError(
            "no loss: give `loss=`, a function of the output (and the targets), or `targets=`, "
            "whose cross entropy it is"
        )
    if not isinstance(found, torch.Tensor) or found.dim() != 0:
        raise CaptureError("the loss is no scalar tensor: its mean or sum is")
    return found


def _call(module: torch.nn.Module, inputs: Any) -> Any:
    if isinstance(inputs, dict):
        return module(**inputs)
    return module(*inputs) if isinstance(inputs, (list, tuple)) else module(inputs)


def _record(question: _Question, point: Point) -> tuple[Recorder, torch.nn.Module, list[Any]]:
    """One step at one size, on tensors without numbers."""
    precision = question.precision
    with FakeTensorMode(allow_non_fake_inputs=True), cuda_rules.as_on_cuda():
        with cuda_rules.building():
            module = _fake(question.module).train()
        inputs = _made(question.inputs, question.base, point)
        targets = _made(question.targets, question.base, point)
        if precision in PURE:
            _convert(module, PURE[precision])
            inputs = _narrow(inputs, PURE[precision])
        recorder = Recorder(module, find_blocks(module, question.units))
        recorder.watch_resident([*module.buffers(), *_tensors(inputs), *_tensors(targets)])
        gc.collect()
        gc.disable()
        try:
            own = torch.autograd.set_multithreading_enabled(False)  # or its threads lack the modes
            with recorder, own, cuda_rules.transformers_masks():
                with torch.autocast("cpu", AUTOCAST.get(precision), enabled=precision in AUTOCAST):
                    output = _call(module, inputs)
                    loss = _loss_of(output, targets, question.loss)
                    if not question.hold_output:
                        output = None
                recorder.start_backward()
                loss.backward()  # type: ignore[no-untyped-call]
                output = None
                del loss
                gc.collect()
                recorder.finish()
        except Exception as error:
            raise _explained(error) from error
        finally:
            gc.enable()
    return recorder, module, [*_tensors(inputs), *_tensors(targets)]


def _narrow(value: Any, dtype: torch.dtype) -> Any:
    if isinstance(value, torch.Tensor):
        return value.to(dtype) if value.is_floating_point() else value
    if isinstance(value, dict):
        return {key: _narrow(each, dtype) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_narrow(each, dtype) for each in value)
    return value


def _explained(error: Exception) -> Exception:
    if type(error).__name__ in ("DataDependentOutputException", "DynamicOutputShapeException"):
        return CaptureError(
            f"the module asks for a tensor's value, which nothing has here ({error}); take the "
            "branch by a flag, or an implementation of fixed shapes"
        )
    return error


def capture(
    module: Any,
    inputs: Any,
    *,
    targets: Any = None,
    loss: Maker | None = None,
    precision: str = "fp32",
    name: str = "",
    path: str | Path | None = None,
    batches: Sequence[int] = (2, 4, 7),
    lengths: Sequence[int] = (),
    units: Iterable[str | type] = (),
    hold_output: bool = False,
) -> Captured:
    """Runs forward, loss and backward of `module` on tensors without numbers, and writes
    NAME.model.json, which a scenario names by `model: {captured: NAME.model.json, ...}`.

    `module`: a torch.nn.Module, or a function that makes one (then no weights are ever made).
    `inputs`: what it is called with: a tensor, a tuple or a dict of examples whose first dimension
    is the batch, or a function of the batch (and the length). `targets`: the same, for the loss.
    `loss`: a function of the output and the targets; without it the output's `.loss`, the output if
    it is a scalar, or the cross entropy with `targets`.
    `batches`: two to fit, and one to check; a single one: the file is of that batch alone.
    `lengths`: the same of tokens, where the file shall hold at other lengths.
    `units`: classes or paths of the modules that are timed, sharded and bucketed together; without
    it the blocks that the network repeats.
    """
    if precision not in PRECISIONS:
        raise CaptureError(f"precision {precision!r}: one of {', '.join(PRECISIONS)}")
    if len(batches) not in (1, 3) or len(lengths) not in (0, 1, 3):
        raise CaptureError("batches and lengths: one size, or two to fit and one to check")
    examples = [each for each in _tensors(inputs) if each.dim() > 0]
    base = (examples[0].shape[0] if examples else 0, lengths[0] if lengths else 0)
    if examples and lengths and not any(base[1] in each.shape[1:] for each in examples):
        raise CaptureError(f"no example has a dimension of {base[1]}, the first of `lengths`")
    question = _Question(
        module, inputs, targets, loss, precision, list(units), hold_output, base
    )
    lasting = list(lengths[:2]) or [0]
    points = [(batch, length) for length in lasting for batch in batches[:2]]
    runs = [_record(question, point) for point in points]
    recorders = [run[0] for run in runs]
    fit = Fit(points)
    checked: Point | None = None
    try:
        same_sequence(recorders)
        if len(batches) == 3:
            checked = (batches[2], lengths[2] if len(lengths) == 3 else lasting[0])
            check_at(fit, recorders, _record(question, checked)[0], checked)
    except Unlike as unlike:
        raise CaptureError(
            f"what it runs depends on the size in no simple way ({unlike}); capture it at one size:"
            f" batches=({batches[0]},)"
        ) from None
    made = runs[0][1]
    called = name or getattr(module, "__name__", "") or type(made).__name__.lower()
    called = called.strip("<>")
    place = Path(path) if path else Path(f"{called}.model.json")
    content = document(
        called, precision, fit, recorders, [run[1] for run in runs], [run[2] for run in runs], checked
    )
    place.write_text(json.dumps(content, separators=(",", ":")) + "\n")
    first = recorders[0]
    return Captured(
        place, sum(each.numel() for each in made.parameters()), [unit.name for unit in first.units],
        content["captured_at"]["peak_bytes"],
        sum(len(unit.forward) + len(unit.backward) for unit in first.units),
    )  # fmt: skip
