"""From captures at several sizes to one that holds at any: each dimension as a sum of a constant,
the batch, the length, and their product."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from .recorder import Kernel, Recorder, Shaped

Form = int | list[Any]
Point = tuple[int, int]  # batch, length


class Unlike(Exception):
    """Captures that no sum fits; says where."""


def _plain(value: Fraction) -> Any:
    return int(value) if value.denominator == 1 else float(value)


class Fit:
    """`points`: two batches, or two batches at each of two lengths; one: nothing varies."""

    def __init__(self, points: list[Point]) -> None:
        self.points = points

    def number(self, values: list[int]) -> Form:
        if len(set(values)) == 1:
            return values[0]
        (b1, l1), (b2, _) = self.points[:2]
        each = Fraction(values[1] - values[0], b2 - b1)
        if len(values) == 2:
            return [_plain(values[0] - each * b1), _plain(each)]
        l2 = self.points[2][1]
        longer = Fraction(values[3] - values[2], b2 - b1)
        both = (longer - each) / (l2 - l1)
        alone = Fraction(values[2] - values[0], l2 - l1) - both * b1
        per_sample = each - both * l1
        constant = values[0] - per_sample * b1 - alone * l1 - both * b1 * l1
        return [_plain(part) for part in (constant, per_sample, alone, both)]

    @staticmethod
    def at(form: Form, point: Point) -> float:
        if isinstance(form, int):
            return form
        batch, length = point
        return float(sum(part * by for part, by in zip(form, (1, batch, length, batch * length))))

    def shape(self, shapes: list[tuple[int, ...]]) -> list[Form]:
        if len({len(shape) for shape in shapes}) != 1:
            raise Unlike(f"shapes {shapes}")
        return [self.number(list(sizes)) for sizes in zip(*shapes)]

    def tensor(self, tensors: list[Shaped]) -> list[Any]:
        kinds = {(kind, layout) for kind, _, layout in tensors}
        kind, layout = tensors[0][0], tensors[0][2] if len(kinds) == 1 else "strided"
        shape = self.shape([each[1] for each in tensors])
        return [kind, shape, layout] if layout else [kind, shape]

    def kernel(self, kernels: list[Kernel]) -> dict[str, Any]:
        first = kernels[0]
        if any(each.name != first.name or len(each.reads) != len(first.reads)
               or len(each.writes) != len(first.writes) for each in kernels):  # fmt: skip
            raise Unlike(" and ".join(sorted({each.name for each in kernels})))
        made: dict[str, Any] = {"op": first.name}
        for key, sides in (("reads", [each.reads for each in kernels]),
                           ("writes", [each.writes for each in kernels])):  # fmt: skip
            made[key] = [self.tensor(list(each)) for each in zip(*sides)]
        if not first.node:
            made["same_node"] = True
        options = {key: value for key, value in first.options
                   if all((key, value) in each.options for each in kernels)}  # fmt: skip
        if options:
            made["with"] = options
        return made


def same_sequence(recorders: list[Recorder]) -> None:
    """Raises Unlike unless all ran the same operators in the same units."""
    first = recorders[0]
    for other in recorders[1:]:
        if [unit.name for unit in first.units] != [unit.name for unit in other.units]:
            raise Unlike("units")
        for one, two in zip(first.units, other.units):
            for mine, theirs in ((one.forward, two.forward), (one.backward, two.backward)):
                for here, there in zip(mine, theirs):
                    if here.name != there.name:
                        raise Unlike(f"{one.name}: {here.name} and {there.name}")
                if len(mine) != len(theirs):
                    raise Unlike(f"{one.name}: {len(mine)} and {len(theirs)} operators")
        if len(first.taken) != len(other.taken):
            raise Unlike("memory")


def check_at(fit: Fit, recorders: list[Recorder], checked: Recorder, point: Point) -> None:
    """Raises Unlike where the third capture is not what the others say."""
    same_sequence([recorders[0], checked])
    runs = [[kernel for unit in each.units for kernel in unit.forward + unit.backward]
            for each in [*recorders, checked]]  # fmt: skip
    for kernels in zip(*runs):
        for side in ("reads", "writes"):
            for tensors in zip(*(getattr(each, side) for each in kernels)):
                _check_shape(fit, [each[1] for each in tensors], point, kernels[0].name)
    for taken in zip(*(each.taken for each in [*recorders, checked])):
        _check_shape(fit, [each.shape for each in taken], point, "a tensor")


def _check_shape(fit: Fit, shapes: list[tuple[int, ...]], point: Point, what: str) -> None:
    forms = fit.shape(shapes[:-1])
    if len(shapes[-1]) != len(forms) or any(
        fit.at(form, point) != size for form, size in zip(forms, shapes[-1])
    ):
        raise Unlike(f"{what} of {shapes[-1]} where {shapes[:-1]} say otherwise")
