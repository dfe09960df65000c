"""Values of tensors that have none: those that follow from numbers which are known.

A network asks for values where its masks, positions or image tokens decide what runs. Those come
from the batch's whole numbers and from constants, and never from weights. So what is made of known
tensors alone is worked out beside the tensor without numbers, and answers when it is asked for. Of
numbers that nobody knows one thing is stated: they are finite.
"""

from __future__ import annotations

import contextlib
import math
import traceback
from collections.abc import Iterator
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, unset_fake_temporarily
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

aten = torch.ops.aten

#: Elements of what is worked out: a mask of 2,048 tokens by as many, and no activations.
MOST = 1 << 22
#: While a network is made: sides of boxes and frequencies, and no weights.
MOST_OF_CONSTANTS = 1 << 12
CHANCE = ("rand", "bernoulli", "multinomial", "normal", "uniform", "dropout", "exponential")
#: What other ranks send, and tables whose numbers nothing has.
ELSEWHERE = ("_c10d_functional", "rehearse::")
#: Comparisons that ask whether numbers are finite, or whether they are none (isfinite, isnan, isinf).
ALIKE = {aten.eq.Tensor: True, aten.ne.Tensor: False}
BESIDE = {aten.ne.Scalar: True, aten.eq.Scalar: False}
ASKED = (aten._local_scalar_dense.default, aten.is_nonzero.default)
BY_MASK = (aten.index.Tensor, aten.index_put.default, aten.index_put_.default,
           aten._index_put_impl_.default)  # fmt: skip


class Held:
    """A tensor's numbers, which go with a copy of it."""

    def __init__(self, value: torch.Tensor) -> None:
        self.value = value

    def __deepcopy__(self, _: Any) -> Held:
        with unset_fake_temporarily():
            return Held(self.value.clone())


class Known(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Pushed inside FakeTensorMode, below the recorder."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.most = MOST
        self.stale: set[int] = set()  # storages that something unknown was written to
        self.kept: list[Any] = []  # or another storage would get a stale one's number
        self.by_value: dict[str, None] = {}  # lines whose shapes the batch's values decide, in order

    @contextlib.contextmanager
    def building(self) -> Iterator[None]:
        """Constants of a network that is being made."""
        self.most = MOST_OF_CONSTANTS
        with self:
            yield
        self.most = MOST

    @staticmethod
    def forget_weights(module: torch.nn.Module) -> torch.nn.Module:
        """Of what a network trains nobody knows the numbers, whatever they began with."""
        for each in module.parameters():
            each.__dict__.pop("_known", None)
        return module

    def value(self, tensor: torch.Tensor) -> torch.Tensor | None:
        held = getattr(tensor, "_known", None)
        found = (held and held.value) if isinstance(tensor, FakeTensor) else tensor
        if found is None or found.numel() > self.most or found.device.type != "cpu":
            return None
        return None if found.untyped_storage()._cdata in self.stale else found

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if func in ASKED and (answer := self.worked_out(func, args, kwargs)) is not None:
            return answer
        given = args
        if func in BY_MASK:
            args = self.without_masks(args)
        elif func is aten.masked_select.default and (mask := self.value(args[1])) is not None:
            self.note(args[1])
            return aten.index.Tensor(args[0], self.places(mask.expand(args[0].shape)))
        try:
            out = func(*args, **kwargs)
        except Exception as error:
            if "Dynamic" not in type(error).__name__:
                raise
            real = self.worked_out(func, given, kwargs)
            if real is None:
                raise
            self.note((given, kwargs))
            out = tree_map(lambda each: torch.empty_like(each) if isinstance(each, torch.Tensor)
                           else each, real)  # fmt: skip
        else:
            real = None
            if self.is_small(out):
                real = self.worked_out(func, given, kwargs)
            else:
                self.forget(func, given)
        if real is not None:
            self.attach(out, real)
            if self.is_of_batch((given, kwargs)):
                self.mark(out)
        return out

    @staticmethod
    def mark(value: Any) -> None:
        """As the batch's, or made of it."""
        for each in tree_leaves(value):
            if isinstance(each, FakeTensor):
                each._of_batch = True  # type: ignore[attr-defined]

    @staticmethod
    def is_of_batch(value: Any) -> bool:
        return any(getattr(each, "_of_batch", False) for each in tree_leaves(value)
                   if isinstance(each, FakeTensor))  # fmt: skip

    def note(self, asked: Any) -> None:
        """The user's line, where the batch's values decide how many elements there are."""
        if self.is_of_batch(asked) and torch._C._current_autograd_node() is None:
            frames = [each for each in traceback.extract_stack()[:-2]
                      if "/torch/" not in each.filename and "rehearse_sim" not in each.filename]  # fmt: skip
            if frames:
                last = frames[-1]
                self.by_value[f"{last.filename}:{last.lineno}: {last.line}"] = None

    def worked_out(self, func: Any, args: Any, kwargs: Any) -> Any:
        """What `func` gives of known values; None where one is not known, or chance decides."""
        name = func._schema.name.removeprefix("aten::")
        tensors = [each for each in tree_leaves((args, kwargs)) if isinstance(each, torch.Tensor)]
        if any(self.value(each) is None for each in tensors):
            self.forget(func, args)
            return self.finite(func, args)
        if name.startswith((*CHANCE, *ELSEWHERE)) or "device" in kwargs and str(kwargs["device"]).startswith("meta"):
            self.forget(func, args)
            return None
        own = tree_map(lambda each: self.value(each) if isinstance(each, torch.Tensor) else each, (args, kwargs))
        try:
            with unset_fake_temporarily(), torch.no_grad():
                made = func(*own[0], **own[1])
                if name.startswith(("empty", "new_empty")):
                    made.zero_()
        except Exception:
            return None
        return made if self.is_small(made) else None

    def is_small(self, value: Any) -> bool:
        return all(each.numel() <= self.most for each in tree_leaves(value) if isinstance(each, torch.Tensor))

    def forget(self, func: Any, args: Any) -> None:
        if not func._schema.is_mutable:
            return
        for argument, given in zip(func._schema.arguments, args):
            if argument.alias_info is not None and argument.alias_info.is_write:
                for each in tree_leaves(given):
                    value = self.value(each) if isinstance(each, torch.Tensor) else None
                    if value is not None:
                        self.stale.add(value.untyped_storage()._cdata)
                        self.kept.append(value)

    def finite(self, func: Any, args: Any) -> torch.Tensor | None:
        """Numbers that are not known are finite: none is unlike itself, or infinite."""
        answer = None
        if func in ALIKE and args[0] is args[1]:
            answer = ALIKE[func]
        elif func in BESIDE and isinstance(args[1], float) and math.isinf(args[1]):
            answer = BESIDE[func]
        elif func is aten.isnan.default or func is aten.isinf.default:
            answer = False
        if answer is None or args[0].numel() > self.most:
            return None
        with unset_fake_temporarily():
            return torch.full(args[0].shape, answer)

    def without_masks(self, args: Any) -> Any:
        """Known masks among indices as the places that they pick, whose number is known then."""
        indices: list[Any] = []
        for each in args[1]:
            is_mask = isinstance(each, torch.Tensor) and each.dtype in (torch.bool, torch.uint8)
            mask = self.value(each) if is_mask else None
            if mask is not None:
                self.note(each)
            indices += self.places(mask) if mask is not None else [each]
        return (args[0], indices, *args[2:])

    def places(self, mask: torch.Tensor) -> list[torch.Tensor]:
        with unset_fake_temporarily():
            found = list(mask.bool().nonzero(as_tuple=True))
        made = [torch.empty(each.shape, dtype=torch.long) for each in found]
        self.attach(made, found)
        return made

    @staticmethod
    def attach(out: Any, real: Any) -> None:
        for fake, value in zip(tree_leaves(out), tree_leaves(real)):
            if isinstance(fake, FakeTensor) and isinstance(value, torch.Tensor) and fake.shape == value.shape:
                fake._known = Held(value)  # type: ignore[attr-defined]
