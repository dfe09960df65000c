"""How networks of libraries are run: who makes them, with what, and for which loss."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any


class UnknownNetwork(Exception):
    """No network of this name, or none that can be run without being told more."""


@dataclass
class Plan:
    """How a named network is run."""

    make: Callable[[], Any]
    inputs: Callable[[int], Any]
    targets: Callable[[int], Any] | None
    loss: Callable[..., Any] | None
    note: str  #: whose class it is, and what it is run with
    precision: str = "bf16"  #: that it usually trains in
    batches: tuple[int, ...] = (2, 4, 7)  #: two to fit and one to check, or the only one


@contextlib.contextmanager
def quiet_tries() -> Iterator[None]:
    """Ways that do not fit are no errors of the user's: PyTorch does not log them."""
    log = logging.getLogger("torch._subclasses.fake_tensor")
    before = log.disabled
    log.disabled = True
    try:
        yield
    finally:
        log.disabled = before


def floats(output: Any) -> list[Any]:
    """All tensors of numbers that an output holds."""
    import torch

    if isinstance(output, torch.Tensor):
        return [output] if output.is_floating_point() else []
    if hasattr(output, "values"):
        output = list(output.values())
    if isinstance(output, (list, tuple)):
        return [each for one in output for each in floats(one)]
    return []


def mean(output: Any, *_: Any) -> Any:
    """Where a network has no loss of its own: the mean of what it gives and a gradient reaches."""
    found = [each for each in floats(output) if each.requires_grad]
    if not found:
        raise UnknownNetwork("its output has no tensor that a gradient reaches: "
                             "rehearse_sim.capture takes a `loss`")  # fmt: skip
    return sum(each.float().mean() for each in found)


def squared(output: Any, *_: Any) -> Any:
    """The mean square of what a network gives beside noise of the same shape, as diffusion trains."""
    import torch

    made = next((each for each in floats(output) if each.requires_grad), None)
    if made is None:
        return mean(output)
    return torch.nn.functional.mse_loss(made.float(), torch.zeros_like(made, dtype=torch.float32))


def says(shapes: dict[str, Any]) -> str:
    """Shapes behind the batch, to read."""
    return ", ".join(f"{name} {tuple(shape)}" for name, shape in shapes.items())
