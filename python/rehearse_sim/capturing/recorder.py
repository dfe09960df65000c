"""Writes down what one step calls and which memory it takes and gives back."""

from __future__ import annotations

import bisect
import weakref
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.distributed._functional_collectives import AsyncCollectiveTensor
from torch.distributed.tensor import DTensor
from torch.utils._python_dispatch import TorchDispatchMode

from . import table_kernels
from .units import Blocks

aten = torch.ops.aten
DTYPES = {
    torch.float32: "fp32", torch.bfloat16: "bf16", torch.float16: "fp16", torch.float64: "fp64",
    torch.int64: "int64", torch.int32: "int32", torch.int16: "int16", torch.int8: "int8",
    torch.uint8: "uint8", torch.bool: "bool", torch.complex64: "complex64",
    torch.float8_e4m3fn: "fp8",
}  # fmt: skip
# They launch nothing.
QUIET = {
    "empty", "empty_like", "new_empty", "empty_strided", "new_empty_strided", "detach", "alias",
    "_unsafe_view", "lift_fresh", "lift", "_local_scalar_dense", "is_same_size",
    "as_strided_", "squeeze_", "unsqueeze_", "transpose_", "t_",
}  # fmt: skip
# Gathered units end when they hold this share of all parameters, so that gradients of a network
# without blocks are ready one after the other.
SHARE = 0.02

Shaped = tuple[str, tuple[int, ...], str]

# Tensors of which a rank has a part, and those that a collective fills.
PARTED = (AsyncCollectiveTensor, DTensor)
COLLECTIVES = "_c10d_functional::"
TABLES = "rehearse::"
EXCHANGES = {
    "all_reduce": "all_reduce", "all_gather_into_tensor": "all_gather",
    "reduce_scatter_tensor": "reduce_scatter", "all_to_all_single": "all_to_all",
}  # fmt: skip


def own_part(tensor: torch.Tensor) -> torch.Tensor:
    """What of a tensor this rank holds."""
    part: torch.Tensor = getattr(tensor, "_local_tensor", tensor)
    return part


def describe(tensor: torch.Tensor) -> Shaped:
    """Type, shape, and the layout: contiguous, channels_last, or strided ("s").  A dimension that
    is expanded is 1."""
    shape, strides = tuple(tensor.shape), tensor.stride()
    layout = ""
    if not tensor.is_contiguous():
        last = tensor.dim() == 4 and tensor.is_contiguous(memory_format=torch.channels_last)
        layout = "last" if last else "strided"
    if 0 in strides:
        shape = tuple(1 if stride == 0 else size for size, stride in zip(shape, strides))
    return DTYPES.get(tensor.dtype, str(tensor.dtype)), shape, layout


@dataclass(frozen=True)
class Kernel:
    """One call: equal ones are told once, with their number."""

    name: str
    reads: tuple[Shaped, ...]
    writes: tuple[Shaped, ...]
    options: tuple[tuple[str, Any], ...] = ()
    node: bool = True  #: the first kernel of its node of autograd, or of forward


@dataclass
class Exchange:
    """A collective of tensor ranks: so many kernels of its unit's pass come before it."""

    kind: str
    sized: Shaped  #: the gathered output of an all_gather; else what one rank gives
    backward: bool
    issued: int
    awaited: tuple[int, int] | None = None  #: the unit that waits for it, and its kernels before


@dataclass
class Unit:
    name: str
    sequence: int  #: of autograd's nodes, where it begins
    forward: list[Kernel] = field(default_factory=list)
    backward: list[Kernel] = field(default_factory=list)
    events: tuple[list[int], list[int]] = field(default_factory=lambda: ([], []))
    parameters: list[str] = field(default_factory=list)
    held: int = 0  #: elements of parameters first used in it
    enters: set[int] = field(default_factory=set)  #: what units before made and its forward reads
    block: str = ""  #: the class of the module that it is, of those that a network repeats
    exchanges: list[Exchange] = field(default_factory=list)


@dataclass
class Taken:
    """A piece of memory that the step takes from the allocator."""

    shape: tuple[int, ...]  #: of its elements; of bytes, where it is a part of no dense tensor
    dtype: str
    unit: int
    backward: bool
    copy_of: str = ""  #: the parameter that it is autocast's copy of
    gradient_of: str = ""


def _flat(values: Any) -> list[torch.Tensor]:
    found: list[torch.Tensor] = []
    for value in values:
        if isinstance(value, torch.Tensor):
            found.append(value)
        elif isinstance(value, (list, tuple)):
            found += _flat(value)
    return found


def _told(path: str, module: torch.nn.Module) -> str:
    return f"{path or 'the module'} ({type(module).__name__}(sparse=True))"


class SparseGradient(Exception):
    """A tensor whose memory depends on values."""


class UnknownExchange(Exception):
    """A collective that units do not have."""


class Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Pushed inside FakeTensorMode: it sees each operator below autograd."""

    def __init__(self, module: torch.nn.Module, blocks: Blocks) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.blocks = blocks
        self.units: list[Unit] = []
        self.taken: list[Taken] = []
        self.live: dict[int, int] = {}  # by storage: which of `taken`
        self.in_backward = False
        self.unit = -1
        self.depth = 0
        self.waiting: dict[int, Exchange] = {}  # by the storage that they fill
        self.afterwards: list[str] = []  # operators once the first backward is over
        self.last_node: Any = None
        self.is_first = True  # of its node in backward; what launches nothing leaves it so
        self.names = {id(each): name for name, each in module.named_parameters()}
        self.owners = dict(module.named_parameters())
        self.parameters = {
            own_part(each).untyped_storage()._cdata: (name, own_part(each))
            for name, each in self.owners.items()
        }
        self.summed: set[str] = set()  # parameters whose gradients tensor ranks sum once in a step
        self.used: set[str] = set()
        self.tables = {each for place, child in module.named_modules() if hasattr(child, "holds_tables")
                       for each in (f"{place}.{name}" for name, _ in child.named_parameters())}  # fmt: skip
        self.total = max(1, sum(each.numel() for name, each in self.parameters.values() if name not in self.tables))
        self.sparse = ", ".join(_told(path, child) for path, child in module.named_modules()
                                if getattr(child, "sparse", False) is True)  # fmt: skip
        self.hooks: list[Any] = []
        for block in blocks:
            self._follow(block, blocks[block], True)
        inside = {child for block in blocks for child in block.modules()}
        for path, child in module.named_modules():
            leaf = next(child.children(), None) is None
            if leaf and child not in inside and next(child.parameters(), None) is not None:
                self._follow(child, path, hasattr(child, "holds_tables"))

    # --- units ------------------------------------------------------------------------------
    def _follow(self, module: torch.nn.Module, path: str, block: bool) -> None:
        def enter(*_: Any) -> None:
            if self.in_backward:
                return
            self.depth += block
            if self.depth == (1 if block else 0):
                self._enter(path, block)
                if block and module in self.blocks:
                    self.units[self.unit].block = type(module).__name__

        def leave(*_: Any) -> None:
            if not self.in_backward and block:
                self.depth -= 1
                self.after_block = True

        self.hooks.append(module.register_forward_pre_hook(enter))
        if block:
            self.hooks.append(module.register_forward_hook(leave, always_call=True))

    def _enter(self, path: str, block: bool) -> None:
        if not block and self.units and not self.after_block:
            if self.units[self.unit].held < SHARE * self.total:
                return
        if len(self.units) == 1 and self.units[0].name == "input" and not self.units[0].parameters:
            self.units[0].name = path
        else:
            self._begin(path)
        self.after_block = False

    after_block = True

    def _begin(self, path: str) -> None:
        names = {each.name for each in self.units}
        path = path or "module"  # the network itself
        name, times = path, 1
        while name in names:
            times += 1
            name = f"{path}#{times}"
        # Inside of checkpoint(use_reentrant=True) the one node of all is made before its forward.
        reentrant = not torch.is_grad_enabled()
        self.units.append(Unit(name, torch.autograd._get_sequence_nr() - reentrant))  # type: ignore[attr-defined]
        self.unit = len(self.units) - 1

    def start_backward(self) -> None:
        self.in_backward = True
        self.starts = [each.sequence for each in self.units]
        self.unit = len(self.units) - 1

    def _place(self) -> None:
        """Moves to the unit of the node that runs, and notes whether a kernel is its first."""
        if not self.in_backward:
            if not self.units:
                self._begin("input")
            return
        node = torch._C._current_autograd_node()
        if node is None:  # the engine adds gradients up
            self.is_first = False
            return
        number, named = node._sequence_nr(), node.name()
        if number < 2**62:
            self.unit = min(self.unit, max(0, bisect.bisect_right(self.starts, number) - 1))
        if (number, named) != self.last_node:
            self.is_first = True
        self.last_node = (number, named)  # the node itself would hold what it saved

    # --- operators --------------------------------------------------------------------------
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if self.closed:
            self.afterwards.append(func._schema.name.removeprefix("aten::"))
            return func(*args, **(kwargs or {}))
        if any(issubclass(each, PARTED) for each in types):
            return NotImplemented  # it calls what its own rank runs
        self._place()
        if func is torch.ops._c10d_functional.wait_tensor.default:
            self._wait(args[0])
            return args[0]  # as on a GPU; without numbers it would be another tensor
        out = func(*args, **(kwargs or {}))
        reads = _flat(args) + _flat((kwargs or {}).values())
        writes = _flat(out if isinstance(out, (list, tuple)) else (out,))
        self._use_parameters(reads)
        before = len(self.taken)
        for each in writes:
            self._take(each)
        name = func._schema.name.removeprefix("aten::")
        if name == "_to_copy" and len(self.taken) > before and not self.in_backward:
            source = self.parameters.get(reads[0].untyped_storage()._cdata)
            if source:
                self.taken[-1].copy_of = source[0]
        if name.startswith(COLLECTIVES):
            self._exchange(name.removeprefix(COLLECTIVES), reads, writes)
            return out
        mutates = func._schema.is_mutable
        new = len(self.taken) > before or mutates
        if name in QUIET or not new or not (writes or mutates):
            return out
        if mutates and not writes:
            writes = reads[:1]
        written = tuple(map(describe, writes))
        calls = [(name, tuple(map(describe, reads)), written)]
        if name.startswith(TABLES):
            calls = table_kernels.calls_of(name.removeprefix(TABLES), args, written)
        unit = self.units[self.unit]
        for called, read, made in calls:
            kernel = Kernel(called, read, made, options_of(func, args, kwargs or {}), self.is_first)
            self.is_first = not self.in_backward
            (unit.backward if self.in_backward else unit.forward).append(kernel)
        return out

    def _exchange(self, name: str, reads: list[torch.Tensor], writes: list[torch.Tensor]) -> None:
        """A collective of tensor ranks."""
        if name not in EXCHANGES:
            raise UnknownExchange(f"tensor ranks call {name}, which no exchange of a unit is")
        sized = writes[0] if name == "all_gather_into_tensor" else reads[0]
        if name == "all_to_all_single":  # of unlike parts the fuller side
            sized = max(reads[0], writes[0], key=torch.Tensor.numel)
        made = Exchange(EXCHANGES[name], describe(sized), self.in_backward, self._kernels())
        self.units[self.unit].exchanges.append(made)
        self.waiting[writes[0].untyped_storage()._cdata] = made

    def _kernels(self) -> int:
        """Of this unit's pass so far."""
        unit = self.units[self.unit]
        return len(unit.backward if self.in_backward else unit.forward)

    def _wait(self, filled: torch.Tensor) -> None:
        made = self.waiting.pop(filled.untyped_storage()._cdata, None)
        if made is not None:
            made.awaited = (self.unit, self._kernels())

    def _use_parameters(self, reads: list[torch.Tensor]) -> None:
        if self.in_backward:
            return
        for each in reads:
            key = each.untyped_storage()._cdata
            made = self.live.get(key)
            if made is not None and self.taken[made].unit < self.unit:
                self.units[self.unit].enters.add(made)
            found = self.parameters.get(key)
            if found and found[0] not in self.used:
                self.used.add(found[0])
                self.units[self.unit].parameters.append(found[0])
                self.units[self.unit].held += found[1].numel() * (found[0] not in self.tables)

    # --- memory -----------------------------------------------------------------------------
    def watch_resident(self, tensors: list[torch.Tensor]) -> None:
        """What is there before the step: the batch, buffers."""
        self.resident = {each.untyped_storage()._cdata for each in tensors}

    resident: set[int] = set()

    def _take(self, tensor: torch.Tensor) -> None:
        if tensor.layout != torch.strided:
            raise SparseGradient(
                f"a sparse gradient, as {self.sparse or 'nn.Embedding(sparse=True)'} makes it: sparse=False is captured"
            )
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key in self.live or key in self.parameters or key in self.resident:
            return
        if tensor.dim() == 0 and storage.nbytes() <= 8 and tensor.device.type == "meta":
            return
        number = len(self.taken)
        dense = tensor.numel() * tensor.element_size() == storage.nbytes()
        shape = tuple(tensor.shape) if dense else (storage.nbytes(),)
        kind = DTYPES.get(tensor.dtype, str(tensor.dtype)) if dense else "uint8"
        self.taken.append(Taken(shape, kind, self.unit, self.in_backward))
        self.live[key] = number
        self.units[self.unit].events[self.in_backward].append(number)
        weakref.finalize(storage, self._give, key, number)

    def _give(self, key: int, number: int) -> None:
        if self.live.get(key) != number:
            return
        del self.live[key]
        if self.closed:
            return
        events = self.units[self.unit].events[self.in_backward]
        place = len(events)  # what goes at one moment goes in no order of Python's: by its number
        while place and 0 > events[place - 1] and -events[place - 1] - 1 > number:
            place -= 1
        events.insert(place, -number - 1)

    closed = False

    def finish(self) -> None:
        """After backward: what is left of the step is gradients. The loss, and what else is still
        held, goes as the next step makes it anew."""
        for name, parameter in self.owners.items():
            if parameter.grad is None:
                continue
            number = self.live.get(own_part(parameter.grad).untyped_storage()._cdata)
            if number is not None:
                self.taken[number].gradient_of = name
        for number in sorted(self.live.values()):
            if not self.taken[number].gradient_of:
                self.units[self.unit].events[1].append(-number - 1)
        self.closed = True
        for hook in self.hooks:
            hook.remove()


def options_of(func: Any, args: Any, kwargs: dict[str, Any]) -> tuple[tuple[str, Any], ...]:
    """Numbers and flags that decide what a kernel does: of convolutions, attention, recurrent
    networks, reductions."""
    name = func._schema.name.removeprefix("aten::")
    if not any(word in name for word in ("convolution", "attention", "rnn", "pool", "softmax")):
        return ()
    found = []
    for place, argument in enumerate(func._schema.arguments):
        value = args[place] if place < len(args) else kwargs.get(argument.name)
        if isinstance(value, (bool, int, float)) or (
            isinstance(value, (list, tuple)) and all(isinstance(each, (int, bool)) for each in value)
        ):
            if value not in ([], ()):
                each = value if isinstance(value, (list, tuple)) else [value]
                found.append((argument.name, tuple(float(one) for one in each)))
    return tuple(found)
