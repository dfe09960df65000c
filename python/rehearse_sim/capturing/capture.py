"""Any PyTorch module as a model that Rehearse can predict: no weights, no GPU, no compiler.

    captured = rehearse_sim.capture(torchvision.models.swin_t, inputs=images, targets=classes,
                                    precision="bf16")
    rehearse_sim.predict({"model": {"captured": captured.path, "batch_per_gpu": 64}, ...})
"""

from __future__ import annotations

import copy
import gc
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from . import cuda_rules, embeddings, tensor_ranks
from .counts import degrees
from .fitting import Point
from .recorder import Recorder
from .running import Captured, CaptureError, Run, Sizes, call, made, recording, tensors, write
from .units import find_blocks
from .values import Known

AUTOCAST = {"bf16": torch.bfloat16, "fp16": torch.float16}
PURE = {"bf16_pure": torch.bfloat16, "bf16_master": torch.bfloat16}
PRECISIONS = ("fp32", "tf32", *AUTOCAST, *PURE)


@dataclass
class _Question:
    module: Any
    inputs: Any
    targets: Any
    loss: Callable[..., Any] | None
    precision: str
    units: Sequence[str | type]
    hold_output: bool
    channels_last: bool
    base: Point
    ranks: int = 1
    axis: str = "tensor"  #: along which the ranks share: layers, or embedding tables
    plan: Mapping[str, Any] | None = None


def _own_storages(module: torch.nn.Module) -> torch.nn.Module:
    """The module with parameters that were just made: copies of fake tensors (copy.deepcopy) are no
    longer known by their storage."""
    known: dict[int, torch.nn.Parameter] = {}
    for each in module.modules():
        for name, own in list(each._parameters.items()):
            if own is not None and not torch.nn.parameter.is_lazy(own):
                plain = torch.empty_strided(own.shape, own.stride(), dtype=own.dtype)
                made = known.setdefault(id(own), torch.nn.Parameter(plain, own.requires_grad))
                each._parameters[name] = made
    return module


def _fake(module: Any) -> torch.nn.Module:
    """A factory's module, or one that is there: its tensors without numbers."""
    if not isinstance(module, torch.nn.Module):
        made = module()
        if not isinstance(made, torch.nn.Module):
            raise CaptureError(f"the factory made no torch.nn.Module, but {type(made).__name__}")
        return _own_storages(made)
    memo: dict[int, Any] = {}
    for each in (*module.parameters(), *module.buffers()):
        plain = torch.empty_strided(each.shape, each.stride(), dtype=each.dtype)
        own = isinstance(each, torch.nn.Parameter)
        memo[id(each)] = torch.nn.Parameter(plain, each.requires_grad) if own else plain
    return copy.deepcopy(module, memo)


def convert(module: torch.nn.Module, dtype: torch.dtype) -> None:
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


def _images_last(value: Any) -> Any:
    """Tensors of four dimensions in channels_last; of a module its parameters, as
    module.to(memory_format=torch.channels_last) has them, which fake tensors refuse."""
    if isinstance(value, torch.Tensor):
        return value.contiguous(memory_format=torch.channels_last) if value.dim() == 4 else value
    if isinstance(value, torch.nn.Module):
        for each in value.modules():
            for name, own in list(each._parameters.items()):
                if own is not None and own.dim() == 4:
                    made = torch.nn.Parameter(_images_last(own.detach()), own.requires_grad)
                    each._parameters[name] = made
        return value
    if isinstance(value, dict):
        return {key: _images_last(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_images_last(each) for each in value)
    return value


def _loss_of(output: Any, targets: Any, loss: Callable[..., Any] | None) -> torch.Tensor:
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


def _record(question: _Question, point: Point) -> Run:
    """One step at one size, on tensors without numbers."""
    with FakeTensorMode(allow_non_fake_inputs=True), cuda_rules.as_on_cuda():
        known = Known()
        with cuda_rules.building(), known.building():
            module = known.forget_weights(_fake(question.module).train())
        with known:
            if question.ranks == 1:
                return _run(question, point, module, known, None)
            with tensor_ranks.ranks(question.ranks) as mesh:
                return _run(question, point, module, known, mesh)


def _run(
    question: _Question, point: Point, module: torch.nn.Module, known: Known, mesh: Any
) -> Run:
    precision = question.precision
    inputs = made(question.inputs, question.base, point)
    targets = made(question.targets, question.base, point)
    known.mark((inputs, targets))
    if precision in PURE:
        convert(module, PURE[precision])
        inputs = narrow(inputs, PURE[precision])
    if question.channels_last:
        module, inputs = _images_last(module), _images_last(inputs)
    blocks, summed = find_blocks(module, question.units), set[str]()
    if mesh is not None and question.axis == "embedding":
        embeddings.share(module, mesh)
    elif mesh is not None:
        plan = question.plan or tensor_ranks.own_plan(module)
        summed = tensor_ranks.divide(module, plan, mesh)
    recorder = Recorder(module, blocks)
    recorder.summed = summed
    recorder.watch_resident([*module.buffers(), *tensors(inputs), *tensors(targets)])
    with recording(recorder):
        with torch.autocast("cpu", AUTOCAST.get(precision), enabled=precision in AUTOCAST):
            output = call(module, inputs)
            loss = _loss_of(output, targets, question.loss)
            if not question.hold_output:
                output = None
        recorder.start_backward()
        loss.backward()  # type: ignore[no-untyped-call]
        output = None
        del loss
        gc.collect()
        recorder.finish()
    return Run(recorder, module, [*tensors(inputs), *tensors(targets)], list(known.by_value))


def narrow(value: Any, dtype: torch.dtype) -> Any:
    """A batch's numbers as that type; its whole numbers stay."""
    if isinstance(value, torch.Tensor):
        return value.to(dtype) if value.is_floating_point() else value
    if isinstance(value, dict):
        return {key: narrow(each, dtype) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(narrow(each, dtype) for each in value)
    return value


def capture(
    module: Any,
    inputs: Any,
    *,
    targets: Any = None,
    loss: Callable[..., Any] | None = None,
    precision: str = "fp32",
    name: str = "",
    path: str | Path | None = None,
    batches: Sequence[int] = (2, 4, 7),
    lengths: Sequence[int] = (),
    units: Iterable[str | type] = (),
    hold_output: bool = False,
    channels_last: bool = False,
    tensor_parallel: int | Sequence[int] = (),
    plan: Mapping[str, Any] | None = None,
    embedding_parallel: int | Sequence[int] = (),
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
    it the blocks that the network repeats. `channels_last`: images and convolutions lie so, which
    takes cuDNN's conversions away.
    `tensor_parallel`: how many tensor ranks, one number or several. For each a file
    NAME.tpN.model.json beside the whole network's has what one of them runs and exchanges, as
    PyTorch's parallelize_module divides the module by `plan`: {"layers.*.up": "colwise",
    "layers.*.down": "rowwise"}, words of transformers' plans or ParallelStyles. Without a plan the
    class's own (transformers).
    `embedding_parallel`: how many ranks share the tables of EmbeddingBags, one number or several; for
    each a file NAME.epN.model.json.
    """
    if precision not in PRECISIONS:
        raise CaptureError(f"precision {precision!r}: one of {', '.join(PRECISIONS)}")
    tensor_ways = degrees("tensor_parallel", tensor_parallel)
    table_ways = degrees("embedding_parallel", embedding_parallel)
    sizes = Sizes(batches, lengths)
    examples = [each for each in tensors(inputs) if each.dim() > 0]
    base = (examples[0].shape[0] if examples else 0, lengths[0] if lengths else 0)
    if examples and lengths and not any(base[1] in each.shape[1:] for each in examples):
        raise CaptureError(f"no example has a dimension of {base[1]}, the first of `lengths`")
    question = _Question(
        module, inputs, targets, loss, precision, list(units), hold_output, channels_last, base
    )  # fmt: skip
    runs = sizes.runs(lambda point: _record(question, point))
    called = name or getattr(module, "__name__", "") or type(runs.of[0].module).__name__.lower()
    wrote = write(runs, called, precision, path)
    asked = [(axis, ranks) for axis, said in (("tensor", tensor_ways), ("embedding", table_ways))
             for ranks in said]  # fmt: skip
    for axis, ranks in asked:
        part = replace(question, ranks=ranks, axis=axis, plan=plan)
        own = sizes.runs(lambda point, part=part: _record(part, point))  # type: ignore[misc]
        write(own, called, precision, tensor_ranks.file_of(wrote.path, ranks, axis), ranks, axis)
    return wrote
