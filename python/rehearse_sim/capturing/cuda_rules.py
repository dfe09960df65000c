"""What PyTorch does on CUDA and not on a CPU, for fake tensors that say they lie on a CPU.

A build of torch without CUDA refuses fake tensors of that device. So they are a CPU's, and inside
`as_on_cuda()` the operators that differ are CUDA's: what autocast runs in fp32, fused attention,
dropout in one kernel, RMS norms, cuDNN's recurrent networks.
"""

from __future__ import annotations

import contextlib
import sys
import warnings
from unittest import mock
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.overrides import TorchFunctionMode

aten = torch.ops.aten

# Autocast's lists for CUDA (aten/src/ATen/autocast_mode.h, AT_FORALL_FP32) that a CPU's lack.
FP32 = (
    "acos asin cosh erfinv exp expm1 log log10 log2 log1p reciprocal rsqrt sinh tan pow.Tensor_Scalar "
    "pow.Tensor_Tensor pow.Scalar softplus layer_norm group_norm rms_norm cosine_similarity nll_loss "
    "nll_loss_nd nll_loss2d cross_entropy_loss kl_div l1_loss smooth_l1_loss huber_loss mse_loss "
    "binary_cross_entropy_with_logits logsumexp softmax.int log_softmax.int cumsum cumprod prod "
    "prod.dim_int sum sum.dim_IntList norm.Scalar linalg_vector_norm"
).split()
NARROW = (torch.bfloat16, torch.float16)


def _operator(name: str) -> Any:
    packet, _, overload = name.partition(".")
    return getattr(getattr(aten, packet), overload or "default")


def _wide(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.float() if value.dtype in NARROW else value
    if isinstance(value, (list, tuple)):
        return type(value)(_wide(each) for each in value)
    return value


def _in_fp32(name: str) -> Callable[..., Any]:
    operator = _operator(name)
    outside = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU)

    def run(*args: Any, **kwargs: Any) -> Any:
        with torch._C._ExcludeDispatchKeyGuard(outside):
            return operator(*map(_wide, args), **{key: _wide(each) for key, each in kwargs.items()})

    return run


def _rnn_backward(
    input: torch.Tensor, weight: list[torch.Tensor], weight_stride0: int, weight_buf: Any,
    hx: torch.Tensor, cx: torch.Tensor | None, *rest: Any,
) -> tuple[Any, ...]:  # fmt: skip
    return (
        torch.empty_like(input),
        torch.empty_like(hx),
        None if cx is None else torch.empty_like(cx),
        [torch.empty_like(each) for each in weight],
    )


def attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0, is_causal: bool = False, *, scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:  # fmt: skip
    """scaled_dot_product_attention as PyTorch picks it on Hopper (sdp_utils.cpp): cuDNN in 16 bits,
    the memory-efficient kernel with masks and in fp32, written out where no kernel takes it."""
    saves = torch.is_grad_enabled() and any(each.requires_grad for each in (q, k, v))
    wide = q.shape[-1]
    fits = wide % 8 == 0 and (wide <= 128 or wide == 256)
    if q.dim() == 4 and attn_mask is None and q.dtype in NARROW and fits:
        return aten._scaled_dot_product_cudnn_attention(
            q, k, v, None, saves, dropout_p, is_causal, False, scale=scale
        )[0]
    if q.dim() != 4 or (enable_gqa and q.shape[1] != k.shape[1] and q.dtype == torch.float32):
        return aten._scaled_dot_product_attention_math(
            q, k, v, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
        )[0]
    if enable_gqa and q.shape[1] != k.shape[1]:
        times = q.shape[1] // k.shape[1]
        k, v = k.repeat_interleave(times, 1), v.repeat_interleave(times, 1)
    bias = attn_mask
    if bias is not None and bias.dtype == torch.bool:
        zeros = torch.zeros(bias.shape, dtype=q.dtype, device=q.device)
        bias = zeros.masked_fill_(bias.logical_not(), float("-inf"))
    if bias is not None:
        bias = bias.to(q.dtype).expand(q.shape[0], q.shape[1], q.shape[2], k.shape[2])
    return aten._scaled_dot_product_efficient_attention(
        q, k, v, bias, saves, dropout_p, is_causal, scale=scale
    )[0]


def _dropout(input: torch.Tensor, p: float, train: bool) -> Any:
    return aten.native_dropout(input, p, True)[0] if train and 0 < p < 1 else input


def _rms_norm(
    input: torch.Tensor, normalized_shape: Any, weight: Any = None, eps: float | None = None
) -> Any:
    return aten._fused_rms_norm(input, normalized_shape, weight, eps)[0]


def _recurrent(mode: int) -> Callable[..., Any]:
    """lstm and gru of padded batches, by cuDNN."""

    def run(input: torch.Tensor, hx: Any, weights: Any, bias: bool, layers: int, dropout: float,
            train: bool, bidirectional: bool, batch_first: bool) -> Any:  # fmt: skip
        kind = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else input.dtype
        state = hx if isinstance(hx, (tuple, list)) else (hx,)
        hidden, cell = state[0].to(kind), state[1].to(kind) if len(state) > 1 else None
        each = [weight.to(kind) for weight in weights]
        out = aten._cudnn_rnn(
            input.to(kind), each, len(each) // layers // (2 if bidirectional else 1),
            each[0].detach().view(-1), hidden, cell, mode, hidden.shape[-1], 0, layers, batch_first,
            dropout, train, bidirectional, [], None,
        )  # fmt: skip
        return tuple(out[:3] if cell is not None else out[:2])

    return run


# Composite operators, which end in other kernels on CUDA.
COMPOSITES: dict[str, Callable[..., Any]] = {
    "scaled_dot_product_attention": attention,
    "dropout": _dropout,
    "rms_norm": _rms_norm,
    "lstm.input": _recurrent(2),
    "gru.input": _recurrent(3),
}


def _has_numbers(args: Any) -> bool:
    tensors = [each for each in args if isinstance(each, torch.Tensor)]
    return bool(tensors) and all(
        type(each) is torch.Tensor and each.device.type == "cpu" for each in tensors
    )


class _Building(TorchFunctionMode):
    """While a module is made: initialisers have nothing to fill, and widths and rates of stochastic
    depth are numbers, because their values are asked for."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in (torch.linspace, torch.arange, torch.tensor) or _has_numbers(args):
            with unset_fake_temporarily():
                return func(*args, **kwargs)
        if getattr(func, "__module__", "") == "torch.nn.init" and (args or "tensor" in kwargs):
            return args[0] if args else kwargs["tensor"]
        return func(*args, **kwargs)


def _on_cpu(value: Any) -> Any:
    if isinstance(value, torch.device) and value.type == "cuda":
        return torch.device("cpu")
    return "cpu" if isinstance(value, str) and value.split(":")[0] == "cuda" else value


class _OnCpu(TorchFunctionMode):
    """What is made on a GPU, or moved there, stays with the tensors that stand for a GPU's."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is torch.Tensor.cuda:
            return args[0]
        if "device" in kwargs or func is torch.Tensor.to:
            args = tuple(map(_on_cpu, args))
            kwargs = {key: _on_cpu(each) for key, each in kwargs.items()}
        return func(*args, **kwargs)


def _apply_anew(known: dict[int, Any]) -> Callable[..., Any]:
    """Module._apply with parameters that are made anew: fake tensors cannot be swapped. A tied one
    stays tied, as `known` says of those that were there before."""

    def apply(self: torch.nn.Module, fn: Callable[[Any], Any], recurse: bool = True) -> Any:
        for each in self.children() if recurse else ():
            each._apply(fn)  # type: ignore[no-untyped-call]
        for name, own in list(self._parameters.items()):
            if own is None:
                continue
            made = known.get(id(own), (None, None))[1]
            if made is None:
                with torch.no_grad():
                    value = fn(own)
                made = own if value is own else torch.nn.Parameter(value, own.requires_grad)
                known[id(own)] = (own, made)
            self._parameters[name] = made
        for name, buffer in self._buffers.items():
            if buffer is not None:
                self._buffers[name] = fn(buffer)
        return self

    return apply


@contextlib.contextmanager
def building() -> Iterator[None]:
    patch = mock.patch.object(torch.nn.init, "_no_grad_trunc_normal_", _as_it_is)
    anew = mock.patch.object(torch.nn.Module, "_apply", _apply_anew({}))
    with _Building(), patch, anew:
        yield


def _as_it_is(tensor: torch.Tensor, *_: Any, **__: Any) -> torch.Tensor:
    return tensor


@contextlib.contextmanager
def transformers_masks() -> Iterator[None]:
    """Hugging Face's masks ask for the positions' values: is it several sequences in one? Tensors
    without numbers cannot say, and a mask would be made that real runs do without."""
    masks = sys.modules.get("transformers.masking_utils")
    if masks is None or not hasattr(masks, "find_packed_sequence_indices"):
        yield
        return
    with mock.patch.object(masks, "find_packed_sequence_indices", lambda *_, **__: None):
        yield


@contextlib.contextmanager
def as_on_cuda() -> Iterator[None]:
    """Operators as CUDA has them, until the block ends."""
    library: Any = torch.library.Library("aten", "IMPL")  # type: ignore[no-untyped-call]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that the CPU's own rule is replaced
            for name in FP32:
                library.impl(name, _in_fp32(name), "AutocastCPU", allow_override=True)
            for name, rule in COMPOSITES.items():
                library.impl(name, rule, "CompositeImplicitAutograd", allow_override=True)
        library.impl("_cudnn_rnn_backward", _rnn_backward, "Meta")
        with _OnCpu():
            yield
    finally:
        library._destroy()
