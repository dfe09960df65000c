"""Calls of PyTorch within each part's forward, in order, with the times that their kernels take
both ways: what a layout of other ranks splits."""

from __future__ import annotations

import bisect
import statistics
from dataclasses import dataclass, field
from typing import Any

from .operators import computes, product

# They compute nothing: their time goes with the call before.
VIEWS = {
    "view", "t", "transpose", "reshape", "permute", "as_strided", "detach", "expand", "unsqueeze",
    "squeeze", "slice", "select", "split", "chunk", "unbind", "flatten", "unflatten", "empty",
    "empty_like", "contiguous", "to", "alias", "narrow", "expand_as", "view_as", "lift_fresh",
    "movedim", "swapaxes", "split_with_sizes", "_unsafe_view", "is_nonzero", "item", "size",
}  # fmt: skip
# Of attention by a function: the dimension of heads in its queries.
ATTENTION = {"scaled_dot_product_attention": 1, "_flash_attn_forward": 2, "_flash_attn": 2}


@dataclass
class Part:
    """Times are of a step, in microseconds."""

    name: str
    dims: list[Any]
    forward: float = 0
    backward: float = 0


@dataclass
class Parts:
    """Of one step."""

    by_unit: dict[int, list[Part]] = field(default_factory=dict)

    def call(self, unit: int, place: int, event: dict[str, Any]) -> Part:
        parts = self.by_unit.setdefault(unit, [])
        if place == len(parts):
            dims = event.get("args", {}).get("Input Dims") or []
            parts.append(Part(event["name"].split("::")[-1], dims))
        return parts[place]

    def places(self, reader: Any, inside: list[dict[str, Any]]) -> list[Part | None]:
        """Of each operator of a step the call that it belongs to: within it, or within the backward
        of what it made, whose sequence numbers it has."""
        numbers: list[int] = []
        owners: list[Part] = []
        counts: dict[tuple[int, int], int] = {}
        until: dict[Any, float] = {}
        current: dict[Any, Part] = {}
        behind: Part | None = None
        found: list[Part | None] = []
        for e in inside:
            begin, tid = e["ts"], e["tid"]
            phase = reader.phase_at(begin)
            number = e.get("args", {}).get("Sequence number")
            if phase == "optimizer":
                found.append(None)
            elif phase == "forward" or reader.recomputes(begin):
                if begin >= until.get(tid, float("-inf")) and computes(e):
                    until[tid] = begin + e["dur"]
                    unit = reader.unit_at(begin)
                    instance = max(1, bisect.bisect_right(reader.unit_begins, begin))
                    place = counts.get((unit, instance), 0)
                    if place and e["name"].split("::")[-1] in VIEWS:
                        place -= 1
                    counts[unit, instance] = place + 1
                    current[tid] = self.call(unit, place, e)
                own = current.get(tid) if begin < until.get(tid, float("-inf")) else None
                if own is not None and number is not None and (
                    not numbers or number > numbers[-1]
                ):  # fmt: skip
                    numbers.append(number)
                    owners.append(own)
                found.append(own or current.get(tid))
            else:
                if e["name"].startswith("autograd::engine") and number is not None and numbers:
                    behind = owners[max(0, bisect.bisect_right(numbers, number) - 1)]
                found.append(behind)
        return found


def settled(steps: list[Parts], unit: int) -> list[Part]:
    """Medians over the steps that have as many calls as most of them."""
    lists = [step.by_unit.get(unit, []) for step in steps]
    if not lists:
        return []
    count = statistics.mode([len(each) for each in lists])
    alike = [each for each in lists if len(each) == count]
    return [
        Part(calls[0].name, calls[0].dims, statistics.median([c.forward for c in calls]),
             statistics.median([c.backward for c in calls]))
        for calls in zip(*alike)
    ]  # fmt: skip


def shape_of(part: Part, batch: int) -> dict[str, Any]:
    """Of a product with a weight its rows of one sample and its features; of attention its heads."""
    dims = part.dims
    try:
        if part.name == "linear":
            rows, inner, columns = product(dims[0][:-1]), dims[1][1], dims[1][0]
            return {"rows": rows / batch, "inner": inner, "columns": columns,
                    **({"bias": True} if len(dims) > 2 and dims[2] else {})}  # fmt: skip
        if part.name == "addmm" and len(dims[2]) == 2:
            return {"rows": dims[1][0] / batch, "inner": dims[2][0], "columns": dims[2][1],
                    "bias": True}  # fmt: skip
        if part.name in ("mm", "matmul") and len(dims[1]) == 2 and len(dims[0]) > 1:
            return {"rows": product(dims[0][:-1]) / batch, "inner": dims[1][0],
                    "columns": dims[1][1]}  # fmt: skip
        if part.name in ATTENTION:
            at = ATTENTION[part.name]
            return {"heads": dims[0][at], "kv_heads": dims[1][at]}
        if part.name == "matmul" and len(dims[0]) == 4 and len(dims[1]) == 4:
            return {"heads": dims[0][1], "kv_heads": dims[1][1]}
    except (IndexError, TypeError):
        pass
    return {}


def described_parts(parts: list[Part], batch: int) -> list[dict[str, Any]]:
    """As a profile has them: with shares of the part's times."""
    forward, backward = sum(p.forward for p in parts), sum(p.backward for p in parts)
    shapes = [shape_of(part, batch) for part in parts]
    width = next((shape["inner"] for shape in shapes if "inner" in shape), 0)
    found: list[dict[str, Any]] = []
    for part, shape in zip(parts, shapes):
        one: dict[str, Any] = {"name": part.name.strip("_") or part.name, **shape}
        dims = part.dims
        same = len(dims) > 1 and dims[0] == dims[1] and len(dims[0] or []) > 1
        if part.name in ("add", "add_") and same and dims[0][-1] == width:
            one["sum"] = True
        one["forward"] = round(part.forward / forward, 4) if forward > 0 else 0
        one["backward"] = round(part.backward / backward, 4) if backward > 0 else 0
        found.append(one)
    return found
