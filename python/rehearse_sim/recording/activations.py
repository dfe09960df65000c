"""What parts of the network hand to one another and keep for the backward pass, looked at in one
step under the profiler whose times nobody takes. Sizes alone are kept, never numbers."""

from __future__ import annotations

import contextlib
import weakref
from typing import Any


class Activations:
    """Bytes by the number of a part, of one forward pass of the whole batch."""

    def __init__(self, torch: Any, modules: list[Any]) -> None:
        self.torch = torch
        self.handed: dict[int, int] = {}  # by one tensor; more than one, or none: no entry
        self.reads: dict[int, list[int]] = {}  # parts before, whose outputs it reads
        self.saved: dict[int, int] = {}
        self.fixed: dict[int, int] = {}  # of it as large at any batch: weights in another type
        self.order: list[int] = []
        self.made: dict[int, tuple[int, Any]] = {}  # by storage: the part, and whether it lives
        self.seen: set[int] = set()
        self.hooks: Any = None
        self.shapes = {tuple(sorted(weight.shape)) for module in modules
                       for weight in module.parameters() if weight.dim() > 1}  # fmt: skip

    def start(self) -> None:
        self.hooks = self.torch.autograd.graph.saved_tensors_hooks(self.keep, lambda kept: kept)
        self.hooks.__enter__()

    def stop(self) -> None:
        if self.hooks is not None:
            hooks, self.hooks = self.hooks, None
            hooks.__exit__(None, None, None)
        self.made, self.seen = {}, set()

    def keep(self, tensor: Any) -> Any:
        """Autograd keeps the tensor: its storage counts for the part that keeps it first."""
        with contextlib.suppress(Exception):
            base = tensor if tensor._base is None else tensor._base
            if not (base.is_leaf and base.requires_grad):
                storage = self.storage(tensor)
                if storage.data_ptr() not in self.seen:
                    self.seen.add(storage.data_ptr())
                    of_weight = tuple(sorted(tensor.shape)) in self.shapes
                    table = self.fixed if of_weight else self.saved
                    unit = self.order[-1] if self.order else 0
                    table[unit] = table.get(unit, 0) + storage.nbytes()
        return tensor

    def storage(self, tensor: Any) -> Any:
        """Of a tensor of ranks, the own part's."""
        return getattr(tensor, "_local_tensor", tensor).untyped_storage()

    def floating(self, data: Any) -> list[Any]:
        """Tensors in it that a gradient goes back to."""
        found: dict[int, Any] = {}

        def visit(each: Any, depth: int) -> None:
            if isinstance(each, self.torch.Tensor):
                if each.is_floating_point() and each.requires_grad and not (
                    isinstance(each, self.torch.nn.Parameter)
                ):  # fmt: skip
                    found[id(each)] = each
            elif isinstance(each, dict) or hasattr(each, "items"):
                for inner in list(each.values())[:32]:
                    visit(inner, depth + 1)
            elif isinstance(each, (list, tuple)) and depth < 4:
                for inner in each[:32]:
                    visit(inner, depth + 1)

        visit(data, 0)
        return list(found.values())

    def before(self, number: int, args: Any) -> None:
        """A part begins; of a step with several micro-batches the first one counts."""
        if self.hooks is None or number in self.order:
            return
        given = self.floating(args)
        sizes = {self.storage(each).data_ptr(): each.numel() * each.element_size()
                 for each in given}  # fmt: skip
        if self.order and len(sizes) == 1:
            self.handed[number] = next(iter(sizes.values()))
        reads = set()
        for place in sizes:
            unit, lives = self.made.get(place, (-1, None))
            if unit >= 0 and lives() is not None:
                reads.add(unit)
        self.reads[number] = sorted(reads)
        self.order.append(number)

    def after(self, number: int, output: Any) -> None:
        if self.hooks is None:
            return
        for each in self.floating(output):
            place = self.storage(each).data_ptr()
            if place not in self.made or self.made[place][1]() is None:
                self.made[place] = (number, weakref.ref(each))

    def facts(self) -> dict[str, Any]:
        """By parts in the order in which they ran."""
        places = {number: place for place, number in enumerate(self.order)}
        for number, reads in self.reads.items():
            for source in reads:
                # What passes a cut beside the output before it.
                for between in self.order[places[source] + 2 : places[number] + 1]:
                    self.handed.pop(between, None)
        return {"order": self.order, "handed": self.handed, "saved": self.saved,
                "fixed": self.fixed}  # fmt: skip


def fill_activations(found: Any, seen: dict[str, Any], taken: dict[int, int]) -> None:
    """What was seen of a step's activations; of parts without a forward of their own with others'."""
    for key in ("saved", "fixed"):
        for number, size in seen.get(key, {}).items():
            if int(number) in taken:
                unit = found.units[taken[int(number)]]
                unit.saved += size
                unit.fixed_saved += size if key == "fixed" else 0
    if seen.get("order") == list(taken):
        for number, size in seen["handed"].items():
            found.units[taken[int(number)]].handed = size / max(1, found.batch)
