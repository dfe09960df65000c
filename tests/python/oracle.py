"""What PyTorch itself says of a network without numbers, beside what a capture of it predicts."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

import rehearse_sim
from rehearse_sim.capturing import cuda_rules
from rehearse_sim.capturing.running import call
from rehearse_sim.capturing.values import Known

CUBLAS = 64 << 20  # its workspaces on Hopper, forward's and autograd's thread's, which no tensor is


def _grouped_flops(rows: Any, weights: Any, *_: Any, **__: Any) -> int:
    """Of torch._grouped_mm, which FlopCounterMode does not know: each row meets one of the weights."""
    return 2 * int(rows[0]) * int(rows[1]) * int(weights[-1])


class Live(TorchDispatchMode):
    """Bytes of storages that are alive, in pieces of 512, and the most of them."""

    def __init__(self) -> None:
        super().__init__()
        self.now = self.most = 0
        self.seen: set[int] = set()

    def own(self, tensor: torch.Tensor) -> None:
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key in self.seen:
            return
        size = (storage.nbytes() + 511) // 512 * 512
        self.seen.add(key)
        self.now += size
        self.most = max(self.most, self.now)
        weakref.finalize(storage, self.gone, key, size)

    def gone(self, key: int, size: int) -> None:
        self.seen.discard(key)
        self.now -= size

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        for each in tree_leaves(out):
            if isinstance(each, torch.Tensor):
                self.own(each)
        return out


@dataclass
class Case:
    """A network, what it is called with, and its loss of what it returns."""

    make: Callable[[], Any]
    inputs: Callable[[int], Any]
    targets: Callable[[int], Any] | None = None
    loss: Callable[..., Any] | None = None
    batch: int = 4
    cublas: bool = True  #: whether it has a product that is no convolution
    uncounted: float = 0  #: FLOPs of a sample's forward that FlopCounterMode does not know

    def run(self, module: Any, batch: int) -> Any:
        out = call(module, self.inputs(batch))
        if self.targets is None:
            return self.loss(out) if self.loss else getattr(out, "loss", out)
        loss = self.loss or torch.nn.functional.cross_entropy
        return loss(out, self.targets(batch))


@dataclass
class Found:
    """By PyTorch's own counters, and by the program of a capture."""

    parameters: tuple[int, int]
    flops: tuple[float, float]  #: of a sample's forward
    peak_bytes: tuple[int, int]

    @property
    def flops_ratio(self) -> float:
        return self.flops[1] / self.flops[0]

    @property
    def peak_ratio(self) -> float:
        return self.peak_bytes[1] / self.peak_bytes[0]


def _counted(case: Case) -> tuple[int, float, int]:
    with FakeTensorMode(allow_non_fake_inputs=True), cuda_rules.as_on_cuda(), contextlib.ExitStack() as stack:
        known = Known()
        with cuda_rules.building(), known.building():
            module = known.forget_weights(case.make().train())
        stack.enter_context(known)
        live = Live()
        given = case.inputs(case.batch), case.targets(case.batch) if case.targets else None
        for each in (*module.parameters(), *module.buffers(), *tree_leaves(given)):
            if isinstance(each, torch.Tensor):
                live.own(each)
        again = Case(case.make, lambda _: given[0], (lambda _: given[1]) if case.targets else None,
                     case.loss)  # fmt: skip
        with torch.autograd.set_multithreading_enabled(False), live, cuda_rules.transformers_masks():
            grouped = {torch.ops.aten._grouped_mm: _grouped_flops}
            with FlopCounterMode(display=False, custom_mapping=grouped) as counter:
                loss = again.run(module, case.batch)
            loss.backward()
        parameters = sum(each.numel() for each in module.parameters())
    return parameters, counter.get_total_flops() / case.batch + case.uncounted, live.most


def compare(case: Case, path: Path) -> Found:
    captured = rehearse_sim.capture(
        case.make, case.inputs, targets=case.targets, loss=case.loss, path=path
    )
    parameters, flops, most = _counted(case)
    found = rehearse_sim.predict({
        "model": {"captured": captured.path, "batch_per_gpu": case.batch},
        "cluster": {"use": "dgx_h100", "gpus_per_node": 1}, "strategy": {"ddp": {}},
        "optimizer": {"sgd": {}}, "run": {"jitter": "none"},
    })  # fmt: skip
    return Found(
        (parameters, captured.parameters), (flops, found["architecture.flops_forward"]),
        (most, int(found["memory.allocated_peak_bytes"]) - CUBLAS * case.cublas),
    )  # fmt: skip
