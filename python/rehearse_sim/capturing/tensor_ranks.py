"""A network as one of several tensor ranks runs it: PyTorch's own parallelize_module divides it, on
a process group without peers."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import torch

from .running import CaptureError

#: What a plan may say of a module in the place of a ParallelStyle: words of transformers'
#: base_model_tp_plan. Of a replicated one each rank has a gradient of its own part, which an
#: all_reduce sums once in a step.
REPLICATED = "replicated_with_grad_allreduce"
STYLES = (
    "colwise", "packed_colwise", "colwise_gather_output", "colwise_rep", "rowwise",
    "packed_rowwise", "rowwise_split_input", "embedding_rowwise", "sequence_parallel", REPLICATED,
)  # fmt: skip


def _style(name: str, said: Any) -> Any:
    from torch.distributed.tensor import Replicate
    from torch.distributed.tensor.parallel import (
        ColwiseParallel, ParallelStyle, RowwiseParallel, SequenceParallel,
    )  # fmt: skip

    if isinstance(said, ParallelStyle):
        return said
    if said not in STYLES or said == REPLICATED:
        raise CaptureError(
            f"the plan's style {said!r} of {name} is not known: {', '.join(STYLES)}, or a "
            "ParallelStyle of torch.distributed.tensor.parallel"
        )
    if said in ("colwise_gather_output", "colwise_rep"):
        return ColwiseParallel(output_layouts=Replicate())
    if said in ("rowwise_split_input", "embedding_rowwise"):
        return RowwiseParallel(input_layouts=Replicate())
    if said == "sequence_parallel":
        return SequenceParallel()
    return ColwiseParallel() if said.endswith("colwise") else RowwiseParallel()


@contextlib.contextmanager
def ranks(number: int) -> Iterator[Any]:
    """A mesh of so many ranks, of which this process is the first and the only one."""
    import torch.distributed as dist
    from torch.testing._internal.distributed.fake_pg import FakeStore

    if dist.is_initialized():
        raise CaptureError(
            "tensor ranks are captured on a process group of their own, and one is initialised "
            "here: call capture before torch.distributed.init_process_group"
        )
    dist.init_process_group("fake", rank=0, world_size=number, store=FakeStore())
    try:
        with _shapes_apart():
            yield dist.device_mesh.init_device_mesh("cpu", (number,))
    finally:
        dist.destroy_process_group()


@contextlib.contextmanager
def _shapes_apart() -> Iterator[None]:
    """DTensor runs an operator whole, to learn its shapes, the first time that it meets these: that
    is no part of what a rank runs."""
    from torch.distributed.tensor._sharding_prop import ShardingPropagator
    from torch.utils._python_dispatch import _disable_current_modes

    name = "_propagate_tensor_meta_non_cached"
    plain = getattr(ShardingPropagator, name)

    def propagate(self: Any, schema: Any) -> Any:
        with _disable_current_modes():
            return plain(self, schema)

    with mock.patch.object(ShardingPropagator, name, propagate):
        yield


def own_plan(module: torch.nn.Module) -> dict[str, Any]:
    """What a class of transformers says of itself."""
    said = getattr(module, "tp_plan", None)
    if isinstance(said, Mapping) and said:
        return dict(said)
    raise CaptureError(
        f"{type(module).__name__} has no plan for tensor ranks of its own: give "
        'plan={"layers.*.up": "colwise", "layers.*.down": "rowwise"}, as parallelize_module has it'
    )


def divide(module: torch.nn.Module, plan: Mapping[str, Any], mesh: Any) -> set[str]:
    """Divides it in place. Returns the names of parameters whose gradients are summed over the
    ranks once in a step."""
    from fnmatch import fnmatchcase

    from torch.distributed.tensor.parallel import parallelize_module

    summed = set()
    for path, child in module.named_modules():
        if any(said == REPLICATED and fnmatchcase(path, each) for each, said in plan.items()):
            summed |= {f"{path}.{name}" for name, _ in child.named_parameters()}
    names = [path for path, _ in module.named_modules()]
    unknown = [each for each in plan if not any(fnmatchcase(path, each) for path in names)]
    if len(unknown) == len(plan):
        raise CaptureError(f"no module has a name of the plan: {', '.join(unknown)}")
    styles = {
        each: _style(each, said) for each, said in plan.items()
        if said != REPLICATED and each not in unknown
    }  # fmt: skip
    parallelize_module(module, mesh, styles, src_data_rank=None)
    return summed


#: Of ranks that share layers, or embedding tables.
SUFFIXES = {"tensor": "tp", "embedding": "ep"}


def file_of(path: Path, number: int, axis: str = "tensor") -> Path:
    """Where the capture of one of so many ranks lies: beside that of the whole network."""
    name = path.name.removesuffix(".json").removesuffix(".model")
    return path.with_name(f"{name}.{SUFFIXES[axis]}{number}.model.json")
