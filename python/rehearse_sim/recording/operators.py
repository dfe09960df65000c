"""What an operator of a trace is, by its name, its shapes and its types."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

# Copies between gradients and buckets, and between shards and whole parameters: `run` adds them
# itself, from the bytes and the rate of copies.
COPIES = ("torch::distributed::reducer::", "torch.distributed.ddp.reducer::", "fsdp::")
# Operators of torch.distributed on the host's thread: they launch or wait.
CALLS = ("c10d::", "_c10d_functional::", "record_param_comms", "nccl:")
WIDTH = {"float": 4, "float32": 4, "Float": 4, "c10::BFloat16": 2, "BFloat16": 2, "c10::Half": 2,
         "Half": 2, "double": 8, "Double": 8, "long int": 8, "Long": 8, "int": 4, "Int": 4,
         "unsigned char": 1, "Byte": 1, "bool": 1, "Bool": 1, "signed char": 1}  # fmt: skip


def computes(event: dict[str, Any]) -> bool:
    """An operator in which no thread waits for another rank. Those of autograd's engine hold hooks,
    and so may wait."""
    name = event["name"]
    return "::" in name and not name.startswith((*CALLS, "autograd::", "torch::autograd::"))


def described(args: dict[str, Any]) -> tuple[str, str]:
    """Shapes and types of an operator's inputs, as a table has them."""
    shapes = [each for each in args.get("Input Dims") or [] if each]
    kinds = [str(each) for each in args.get("Input type") or [] if each in WIDTH]
    return " ".join(str(each).replace(" ", "") for each in shapes), " ".join(kinds)


def bytes_of(args: dict[str, Any]) -> float:
    """Of an operator's first input, which may be a list of tensors."""
    kinds = args.get("Input type") or [""]
    dims = args.get("Input Dims") or [[]]
    width = WIDTH.get(kinds[0], 4)
    if dims[0] and isinstance(dims[0][0], list):
        return width * sum(product(shape) for shape in dims[0])
    return width * product(dims[0]) if dims[0] else 0.0


def product(shape: Iterable[int]) -> float:
    total = 1.0
    for each in shape:
        total *= each
    return total


def product_flops(event: dict[str, Any]) -> float:
    """Operations of a matrix product or a convolution, by the shapes of its inputs."""
    name, dims = event["name"], event.get("args", {}).get("Input Dims") or []
    try:
        if name in ("aten::mm", "aten::bmm"):
            return float(2 * product(dims[0]) * dims[1][-1])
        if name in ("aten::addmm", "aten::baddbmm"):
            return float(2 * product(dims[1]) * dims[2][-1])
        if name in ("aten::convolution", "aten::_convolution"):
            return 0  # counted at its inner operator
        if name in ("aten::mkldnn_convolution", "aten::cudnn_convolution",
                    "aten::thnn_conv2d", "aten::slow_conv2d_forward"):  # fmt: skip
            (n, _, h, w), weight = dims[0], dims[1]
            return float(2 * n * h * w * product(weight))  # of stride 1
        if name in ("aten::scaled_dot_product_attention",):
            q, k = dims[0], dims[1]
            return float(4 * product(q) * k[-2])
    except (IndexError, TypeError, ValueError):
        pass
    return 0
