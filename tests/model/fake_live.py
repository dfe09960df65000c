"""PyTorch's peak of allocated memory without a GPU: what a step holds under FakeTensorMode.

Live storages are counted, each rounded to the allocator's 512 bytes. Fake tensors are the CPU's, so
what CUDA's kernels do otherwise stands here: attention is cuDNN's where that takes it, autocast
computes in fp32 what CUDA's does, dropout keeps a mask of bytes. No fragmentation, no weights.
"""
import contextlib
import gc
import importlib
import weakref

import torch
import torch.nn.functional as F
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

ROUND = 512
ATEN = torch.ops.aten
NARROW = (torch.bfloat16, torch.float16)


class Live(TorchDispatchMode):
    """Bytes of the storages that anybody holds, and the most that they were."""

    def __init__(self) -> None:
        super().__init__()
        self.now = self.peak = 0
        self.at = self.running = ""
        self.sizes: dict = {}

    def gone(self, key: int) -> None:
        self.now -= self.sizes.pop(key, 0)

    def track(self, value: object) -> None:
        if isinstance(value, (list, tuple)):
            for one in value:
                self.track(one)
        if not isinstance(value, torch.Tensor):
            return
        storage = value.untyped_storage()
        key = storage._cdata
        if key in self.sizes or storage.nbytes() <= 8:  # a number
            return
        self.sizes[key] = (storage.nbytes() + ROUND - 1) // ROUND * ROUND
        weakref.finalize(storage, self.gone, key)
        self.now += self.sizes[key]
        if self.now > self.peak:
            self.peak, self.at = self.now, self.running

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.running = str(func)
        made = func(*args, **(kwargs or {}))
        self.track(made)
        return made


def is_cudnns(query: torch.Tensor, mask: object) -> bool:
    width = query.shape[-1]
    return mask is None and query.dtype in NARROW and width % 8 == 0 and (width <= 128
                                                                          or width == 256)


def attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None,
              enable_gqa=False):
    """What PyTorch 2.13 picks on Hopper."""
    mask = attn_mask
    if torch.is_autocast_enabled("cpu"):
        query, key, value = (one.to(torch.bfloat16) for one in (query, key, value))
        if mask is not None and mask.dtype == torch.float32:
            mask = mask.to(torch.bfloat16)
    keeps = torch.is_grad_enabled() and query.requires_grad
    groups = query.shape[1] // key.shape[1]
    if is_cudnns(query, mask):
        return ATEN._scaled_dot_product_cudnn_attention(query, key, value, None, keeps, dropout_p,
                                                        is_causal, False, scale=scale)[0]
    if enable_gqa and groups > 1 and mask is None and query.dtype == torch.float32:
        return ATEN._scaled_dot_product_attention_math(query, key, value, None, dropout_p,
                                                       is_causal, scale=scale, enable_gqa=True)[0]
    if enable_gqa and groups > 1:
        key, value = (one.repeat_interleave(groups, 1) for one in (key, value))
    if mask is not None and mask.dtype == torch.bool:
        zeros = torch.zeros(mask.shape, dtype=query.dtype, device=query.device)
        mask = zeros.masked_fill_(mask.logical_not(), float("-inf"))
    if mask is not None:
        mask = mask.expand(query.shape[0], query.shape[1], query.shape[2], key.shape[2])
    return ATEN._scaled_dot_product_efficient_attention(query, key, value, mask, keeps, dropout_p,
                                                        is_causal, scale=scale)[0]


def dropout(x, p=0.5, training=True, inplace=False):
    return ATEN.native_dropout(x, p, True)[0] if training and p > 0 else x


#: Operators that CUDA's autocast computes in fp32, and the CPU's does not.
WIDE = ("layer_norm", "group_norm", "softmax.int", "log_softmax.int", "nll_loss", "nll_loss_nd",
        "cross_entropy_loss", "pow.Tensor_Scalar", "pow.Tensor_Tensor", "rsqrt", "sum",
        "sum.dim_IntList", "cumsum", "exp", "log", "mse_loss", "prod", "norm.Scalar", "rms_norm")


def widen(library: torch.library.Library, name: str) -> None:
    op = ATEN
    for part in name.split("."):
        op = getattr(op, part)
    outside = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU)

    def cast(value):
        if isinstance(value, (list, tuple)):
            return type(value)(cast(one) for one in value)
        narrow = isinstance(value, torch.Tensor) and value.dtype == torch.bfloat16
        return value.float() if narrow else value

    def wide(*args, **kwargs):
        with torch._C._ExcludeDispatchKeyGuard(outside):
            return op(*cast(args), **{key: cast(value) for key, value in kwargs.items()})

    library.impl(name, wide, "AutocastCPU")


def as_cuda_does() -> torch.library.Library:
    """Patches PyTorch for good; what it returns has to be kept."""
    library = torch.library.Library("aten", "IMPL")
    for name in WIDE:
        with contextlib.suppress(Exception):
            widen(library, name)
    F.scaled_dot_product_attention = attention
    F.dropout = nn.functional.dropout = dropout
    # A step's number, which fake tensors lack; torch.optim deletes its modules' names.
    importlib.import_module("torch.optim.adam")._get_value = lambda _: 3.0
    with contextlib.suppress(ImportError):
        import transformers.masking_utils as masking
        if hasattr(masking, "find_packed_sequence_indices"):
            masking.find_packed_sequence_indices = lambda *_, **__: None  # it reads positions
    return library


def peak_of(build, step, steps: int = 2) -> tuple:
    """`build` makes a state under fake tensors, `step` takes one step with it; the peak of the last
    step, the operator that reached it, and the state."""
    with FakeTensorMode(), Live() as live:
        state = build()
        for _ in range(steps):
            gc.collect()
            live.peak = live.now
            step(state)
        return live.peak, live.at, state
