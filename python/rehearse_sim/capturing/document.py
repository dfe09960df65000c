"""What `capture` writes: rehearse.captured/1, which src/model/captured reads."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from .fitting import Fit, Point
from .recorder import DTYPES, Exchange, Recorder, Unit, describe, own_part

SIZES = {"fp64": 8, "fp32": 4, "int64": 8, "int32": 4, "bf16": 2, "fp16": 2, "int16": 2,
         "complex64": 8}  # fmt: skip


class Table:
    """Equal entries once, each with its number."""

    def __init__(self) -> None:
        self.entries: list[Any] = []
        self.numbers: dict[str, int] = {}

    def number(self, entry: Any) -> int:
        key = json.dumps(entry)
        if key not in self.numbers:
            self.numbers[key] = len(self.entries)
            self.entries.append(entry)
        return self.numbers[key]


def peak_bytes(recorder: Recorder) -> int:
    """The most that the step takes at a time; pieces are rounded up to 512 bytes, as PyTorch does."""
    now = most = 0
    for way in (0, 1):
        for unit in recorder.units if way == 0 else reversed(recorder.units):
            for event in unit.events[way]:
                taken = recorder.taken[event if event >= 0 else -event - 1]
                size = SIZES.get(taken.dtype, 1)
                for each in taken.shape:
                    size *= each
                size = (size + 511) // 512 * 512
                now += size if event >= 0 else -size
                most = max(most, now)
    return most


@dataclass
class Pass:
    """A unit's kernels, equal ones between two exchanges once with their number."""

    kernels: list[list[int]]
    cuts: dict[int, int]  #: how many of them come before what so many calls come before


def _counted(table: Table, fit: Fit, sides: list[list[Any]], cuts: set[int]) -> Pass:
    made = Pass([], {})
    counts: dict[int, int] = {}
    for place, kernels in enumerate(zip(*sides)):
        if place in cuts:
            made.kernels += [[number, count] for number, count in counts.items()]
            made.cuts[place] = len(made.kernels)
            counts = {}
        number = table.number(fit.kernel(list(kernels)))
        counts[number] = counts.get(number, 0) + 1
    made.kernels += [[number, count] for number, count in counts.items()]
    return made


def _awaited(exchange: Exchange, unit: int) -> int:
    """Where its unit waits for it; -1: at its pass's end, as another unit or nobody does."""
    return exchange.awaited[1] if exchange.awaited and exchange.awaited[0] == unit else -1


def _exchanges(fit: Fit, number: int, units: list[Unit], passes: dict[bool, Pass]) -> list[Any]:
    """Of a unit: in backward or forward, which collective, of what, and kernels of its pass before
    its issue and before the wait for it."""
    found = []
    for alike in zip(*(unit.exchanges for unit in units)):
        one = alike[0]
        of = passes[one.backward]
        place = [of.cuts.get(each, len(of.kernels)) for each in (one.issued, _awaited(one, number))]
        found.append([one.backward, one.kind, fit.tensor([each.sized for each in alike]), *place])
    return found


def _cuts(unit: Unit, number: int, backward: bool) -> set[int]:
    own = [each for each in unit.exchanges if each.backward == backward]
    return {place for each in own for place in (each.issued, _awaited(each, number))}


def _parameters(module: torch.nn.Module, recorder: Recorder) -> list[list[str]]:
    """By unit, in the order of module.parameters(); those that nothing used go with the one before.
    A unit without kernels has none, and none is of a unit whose backward is over before its
    gradient begins: the later one has it."""
    of = {name: number for number, unit in enumerate(recorder.units) for name in unit.parameters}
    runs = [bool(unit.forward or unit.backward) for unit in recorder.units]
    for name, number in of.items():
        of[name] = next((i for i in range(number, len(runs)) if runs[i]), number)
    for taken in recorder.taken:
        if taken.gradient_of in of:
            of[taken.gradient_of] = min(of[taken.gradient_of], taken.unit)
    by_unit: list[list[str]] = [[] for _ in recorder.units]
    number = 0
    for name, _ in module.named_parameters():
        number = of.get(name, number)
        by_unit[number].append(name)
    return by_unit


#: Parameters that are kept as several of four bytes.
PARTS = {torch.complex64: [2], torch.float64: [2], torch.complex128: [4]}


def _parameter(name: str, tensor: torch.Tensor, summed: bool) -> list[Any]:
    """A number of eight bytes counts as two of four."""
    parts = PARTS.get(tensor.dtype, [])
    kind = "fp32" if parts else DTYPES.get(tensor.dtype, "fp32")
    shape = [*own_part(tensor).shape, *parts]
    return [name, shape, kind, tensor.requires_grad, *(["summed"] if summed else [])]


def _buffers(module: torch.nn.Module, units: Sequence[Unit]) -> list[int]:
    """Elements of four bytes, by unit."""
    bytes_of = [0] * len(units)
    for name, buffer in module.named_buffers():
        place = next((i for i, unit in enumerate(units) if name.startswith(unit.name + ".")), 0)
        bytes_of[place] += buffer.numel() * buffer.element_size()
    return [(each + 3) // 4 for each in bytes_of]


def document(
    name: str, precision: str, fit: Fit, recorders: list[Recorder],
    modules: list[torch.nn.Module], batches: list[list[torch.Tensor]], checked: Point | None,
    ranks: int, axis: str,
) -> dict[str, Any]:  # fmt: skip
    first, module = recorders[0], modules[0]
    kernels, kinds = Table(), Table()
    tensors = [
        kinds.number([each[0].dtype, fit.shape([one.shape for one in each])])
        for each in zip(*(recorder.taken for recorder in recorders))
    ]
    names = _parameters(module, first)
    place = {each: (i, j) for i, unit in enumerate(names) for j, each in enumerate(unit)}
    known = dict(module.named_parameters())
    buffers = _buffers(module, first.units)
    units = []
    for i, unit in enumerate(first.units):
        others = [recorder.units[i] for recorder in recorders]
        passes = {
            False: _counted(kernels, fit, [each.forward for each in others], _cuts(unit, i, False)),
            True: _counted(kernels, fit, [each.backward for each in others], _cuts(unit, i, True)),
        }
        exchanges = _exchanges(fit, i, others, passes)
        units.append({
            "name": unit.name,
            **({"block": unit.block} if unit.block else {}),
            "parameters": [_parameter(each, known[each], each in first.summed) for each in names[i]],
            "buffers": buffers[i],
            "forward": passes[False].kernels,
            "backward": passes[True].kernels,
            "tape": [unit.events[0], unit.events[1]],
            "enters": sorted(unit.enters),
            **({"exchanges": exchanges} if exchanges else {}),
        })  # fmt: skip
    shapes = [[describe(each)[1] for each in batch] for batch in batches]
    inputs = [
        [DTYPES.get(each.dtype, "fp32"), fit.shape([one[i] for one in shapes])]
        for i, each in enumerate(batches[0])
    ]
    return {
        "schema": "rehearse.captured/1",
        "name": name,
        "precision": precision,
        "torch": torch.__version__,
        "batch": None if len(fit.points) > 1 else fit.points[0][0],
        "length": fit.points[0][1] or None,
        **({f"{axis}_parallel": ranks} if ranks > 1 else {}),
        "lengths": len({each[1] for each in fit.points}) > 1,
        "captured_at": {
            "points": [list(each) for each in fit.points],
            "checked": list(checked) if checked else None,
            "peak_bytes": peak_bytes(first),
        },
        "inputs": inputs,
        "units": units,
        "kernels": kernels.entries,
        "kinds": kinds.entries,
        "tensors": tensors,
        "copies": [[i, *place[t.copy_of]] for i, t in enumerate(first.taken) if t.copy_of],
        "gradients": [
            [i, *place[t.gradient_of]] for i, t in enumerate(first.taken) if t.gradient_of
        ],
    }
