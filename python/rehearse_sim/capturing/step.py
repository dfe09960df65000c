"""A user's whole training step: what it runs, and how it updates.

    def make():
        net, optimizer = Net(), torch.optim.AdamW(...)
        def step(images, classes):
            with torch.autocast("cuda", dtype=torch.bfloat16):
                loss = F.cross_entropy(net(images), classes)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
        return net, step

    captured = rehearse_sim.capture_step(make, lambda batch: (images(batch), classes(batch)))
    rehearse_sim.predict({**captured.scenario, "cluster": {"use": "dgx_h100"}})
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.optim.optimizer import register_optimizer_step_pre_hook

from . import cuda_rules
from .fitting import Point
from .recorder import Recorder
from .running import Captured, CaptureError, Run, Sizes, made, place_now, recording, tensors, write
from .units import find_blocks
from .values import Known

# Classes of optimizers, by the names that scenarios have for them.
OPTIMIZERS = {
    "SGD": "sgd", "Adam": "adam", "AdamW": "adamw", "Adafactor": "adafactor", "Lamb": "lamb",
    "LAMB": "lamb", "AdamW8bit": "adamw_8bit", "PagedAdamW8bit": "adamw_8bit", "Muon": "muon",
}  # fmt: skip
NORMS = {"_foreach_norm", "linalg_vector_norm"}
#: Of these a micro-batch has as many as any other.
PRODUCTS = {"mm", "addmm", "bmm", "baddbmm", "convolution", "convolution_backward"}
SCALED = "_amp_foreach_non_finite_check_and_unscale_"
PRECISIONS = {torch.bfloat16: "bf16", torch.float16: "fp16"}


@dataclass
class CapturedStep(Captured):
    """What `capture_step` wrote, and the keys of a scenario that say the rest of the step."""

    optimizer: dict[str, Any] = field(default_factory=dict)
    gradient_accumulation: int = 1
    batch: int = 1  #: the smallest that it ran at

    @property
    def scenario(self) -> dict[str, Any]:
        """A scenario on one's own cluster wants `cluster` beside this."""
        return {
            "model": {"captured": self.path, "batch_per_gpu": self.batch},
            "optimizer": self.optimizer,
            "strategy": {"ddp": {"gradient_accumulation": self.gradient_accumulation}},
        }


@dataclass
class _Seen:
    """What a step does around its forward and backward."""

    backwards: int = 0
    autocast: torch.dtype | None = None
    optimizer: dict[str, Any] = field(default_factory=dict)
    samples: int = 0  #: of what the network is called with first
    products: int = 0  #: of the first forward and backward


def _optimizer(found: torch.optim.Optimizer, after: Sequence[str]) -> dict[str, Any]:
    """`{"adamw": {"fused": True, "clip_grad": 1.0}}`. Which norm gradients are clipped to takes no
    time, so that it is 1."""
    kinds = [each.__name__ for each in type(found).__mro__]
    kind = next((each for each in kinds if each in OPTIMIZERS), "")
    if not kind:
        raise CaptureError(
            f"the optimizer {kinds[0]} is not known; known: {', '.join(sorted(OPTIMIZERS))}"
        )
    given, options = found.defaults, dict[str, Any]()
    if given.get("amsgrad"):
        raise CaptureError(
            f"{kinds[0]}(amsgrad=True) keeps the largest second moments beside the others, 4 bytes "
            "a parameter, which no scenario's optimizer has; capture it with amsgrad=False"
        )
    if given.get("fused"):
        options["fused"] = True
    elif given.get("foreach") is False:
        options["foreach"] = False
    if kind.startswith("Paged"):
        options["paged"] = True
    if NORMS & set(after):
        options["clip_grad"] = 1.0
    if SCALED in after:
        options["grad_scaler"] = True
    name = OPTIMIZERS[kind]
    return {"sgd_momentum" if name == "sgd" and given.get("momentum") else name: options}


@contextlib.contextmanager
def _watched(recorder: Recorder, seen: _Seen) -> Iterator[None]:
    """Notes autocast, the first backward and all others, and the optimizer. CaptureError where
    another optimizer or another backward comes behind its step."""
    backward, begin = torch.autograd.backward, torch.autocast.__init__

    def run_backward(*args: Any, **given: Any) -> Any:
        if seen.optimizer:
            raise CaptureError(
                f"a second backward behind the optimizer's step, as a GAN has it, at {place_now()}; "
                "capture_step takes one forward and backward: capture each in a step of its own"
            )
        seen.backwards += 1
        if seen.backwards == 1:
            recorder.start_backward()
        backward(*args, **given)
        if seen.backwards == 1:
            gc.collect()
            recorder.finish()
            seen.products = sum(kernel.name in PRODUCTS for unit in recorder.units
                                for kernel in (*unit.forward, *unit.backward))  # fmt: skip
        elif (found := sum(name in PRODUCTS for name in recorder.afterwards)) != seen.products:
            raise CaptureError(
                f"the backward at {place_now()} is of {found} products, the first one of "
                f"{seen.products}: they are no micro-batches of one network; add the losses up, or "
                "capture each in a step of its own"
            )
        recorder.afterwards.clear()

    def begin_autocast(self: Any, device_type: str, *args: Any, **given: Any) -> None:
        begin(self, "cpu", *args, **given)
        kind = given.get("dtype") or (args[0] if args else None)
        if kind is None and device_type == "cuda":  # whose default it is
            self.fast_dtype = torch.float16
        if self._enabled:
            seen.autocast = self.fast_dtype

    def reach(optimizer: torch.optim.Optimizer, *_: Any) -> None:
        if seen.optimizer:
            raise CaptureError(
                f"a second optimizer's step, {type(optimizer).__name__}'s, at {place_now()}; "
                "capture_step takes one, and a scenario's `optimizer` is that of all parameters"
            )
        seen.optimizer = _optimizer(optimizer, recorder.afterwards)
        for group in optimizer.param_groups:
            for each in group["params"]:
                each.grad = None  # its step has nothing to do

    hook = register_optimizer_step_pre_hook(reach)
    try:
        with mock.patch.object(torch.autograd, "backward", run_backward):
            with mock.patch.object(torch.autocast, "__init__", begin_autocast):
                yield
    except CaptureError:
        raise
    except Exception:  # what comes behind the step may ask for values
        if not seen.optimizer:
            raise
    finally:
        hook.remove()


def _record(make: Callable[[], Any], inputs: Any, base: Point, units: Sequence[str | type],
            point: Point, seen: _Seen) -> Run:  # fmt: skip
    with FakeTensorMode(allow_non_fake_inputs=True), cuda_rules.as_on_cuda(), contextlib.ExitStack() as stack:
        with cuda_rules.building():
            module, step = make()
        module.train()
        known = stack.enter_context(Known())
        given = made(inputs, base, point)
        known.mark(given)
        recorder = Recorder(module, find_blocks(module, units))
        recorder.watch_resident([*module.buffers(), *tensors(given)])
        def called(_: Any, args: Any, kwargs: Any) -> None:
            found = [each for each in tensors((*args, *kwargs.values())) if each.dim() > 0]
            seen.samples = seen.samples or (found[0].shape[0] if found else 0)

        module.register_forward_pre_hook(called, with_kwargs=True)
        with recording(recorder), _watched(recorder, seen):
            if isinstance(given, dict):
                step(**given)
            else:
                step(*given) if isinstance(given, (list, tuple)) else step(given)
        if not seen.backwards:
            raise CaptureError("the step calls no backward()")
        if not seen.optimizer:
            raise CaptureError("the step calls no step() of a torch.optim.Optimizer")
        if seen.backwards > 1 and seen.samples * seen.backwards == point[0]:
            raise CaptureError(
                f"the step cuts its batch of {point[0]} into {seen.backwards} micro-batches: let it "
                f"take {seen.samples} samples of its own for each, and gradient_accumulation follows"
            )
    return Run(recorder, module, tensors(given), list(known.by_value))


def _precision(module: torch.nn.Module, seen: _Seen) -> str:
    if seen.autocast is not None:
        return PRECISIONS.get(seen.autocast, "fp32")
    kinds = {each.dtype for each in module.parameters() if each.is_floating_point()}
    if torch.bfloat16 in kinds:
        return "bf16_pure"
    if kinds - {torch.float32}:
        raise CaptureError(f"parameters of {kinds}: take fp32 under autocast, or bf16")
    narrow = torch.get_float32_matmul_precision() != "highest"
    return "tf32" if narrow or torch.backends.cuda.matmul.allow_tf32 else "fp32"


def capture_step(
    make: Callable[[], tuple[torch.nn.Module, Callable[..., Any]]],
    inputs: Any,
    *,
    name: str = "",
    path: str | Path | None = None,
    batches: Sequence[int] = (2, 4, 7),
    lengths: Sequence[int] = (),
    units: Iterable[str | type] = (),
) -> CapturedStep:
    """Runs a whole training step on tensors without numbers, up to its optimizer's step(): writes
    what `capture` writes, counts micro-batches, and finds the optimizer, clipping and loss scaling.

    `make` makes the network and the optimizer, and returns the network, and the step as a function.
    The step is called with `inputs`: a tensor, a tuple or a dict, or a function of the batch (and
    the length). Autocast is followed; nothing may be moved to a device. `batches`, `lengths` and
    `units` are as in `capture`.
    """
    examples = [each for each in tensors(inputs) if each.dim() > 0]
    base = (examples[0].shape[0] if examples else 0, lengths[0] if lengths else 0)
    all_seen: list[_Seen] = []

    def record(point: Point) -> Run:
        all_seen.append(_Seen())
        return _record(make, inputs, base, list(units), point, all_seen[-1])

    runs = Sizes(batches, lengths).runs(record)
    module, seen = runs.of[0].module, all_seen[0]
    if any(each.backwards != seen.backwards for each in all_seen):
        raise CaptureError("how many micro-batches it has depends on the batch; capture it at one")
    wrote = write(runs, name or type(module).__name__.lower(), _precision(module, seen), path)
    return CapturedStep(
        **vars(wrote), optimizer=seen.optimizer, gradient_accumulation=seen.backwards,
        batch=batches[0],
    )  # fmt: skip
