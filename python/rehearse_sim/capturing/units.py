"""Where a network is cut: repeated blocks, and what stands between them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import torch

Blocks = dict[torch.nn.Module, str]
CONTAINERS = (torch.nn.Sequential, torch.nn.ModuleList, torch.nn.ModuleDict)


def _size(module: torch.nn.Module) -> int:
    return sum(each.numel() for each in module.parameters())


def _children(module: torch.nn.Module, path: str) -> list[tuple[str, torch.nn.Module]]:
    """Those that run by themselves: containers are looked through."""
    found = []
    for name, child in module.named_children():
        own = f"{path}.{name}" if path else name
        if isinstance(child, CONTAINERS):
            found += _children(child, own)
        else:
            found.append((own, child))
    return found


def _repeated(module: torch.nn.Module, path: str) -> list[tuple[str, torch.nn.Module]]:
    """Children of a class that comes more than once and has children of its own."""
    children = _children(module, path)
    classes = Counter(
        type(child) for _, child in children if next(child.children(), None) and _size(child)
    )
    return [(name, child) for name, child in children if classes[type(child)] > 1]


def _alike(blocks: list[tuple[str, torch.nn.Module]]) -> float:
    """The share of blocks that are as large as most are."""
    sizes = Counter(_size(block) for _, block in blocks)
    return max(sizes.values()) / len(blocks) if blocks else 0


def _collect(module: torch.nn.Module, path: str, found: Blocks) -> None:
    repeated = _repeated(module, path)
    for name, child in repeated:
        # Stages differ in width, and hold blocks that are alike; layers with experts are alike.
        inner = [] if _alike(repeated) == 1 else _repeated(child, name)
        if _alike(inner) > 0.5 and 2 * sum(_size(block) for _, block in inner) > _size(child):
            _collect(child, name, found)
        else:
            found[child] = name
    taken = {child for _, child in repeated}
    for name, child in _children(module, path):
        if child not in taken and next(child.children(), None) is not None:
            _collect(child, name, found)


def find_blocks(module: torch.nn.Module, wanted: Iterable[str | type] = ()) -> Blocks:
    """The modules that become units, with their paths: `wanted` names classes or paths; without
    it, blocks that a network repeats. The rest is grouped as it runs."""
    wanted = list(wanted)
    found: Blocks = {}
    if not wanted:
        _collect(module, "", found)
        return found
    for path, child in module.named_modules():
        kinds = (path, type(child).__name__, type(child))
        if path and any(each in kinds for each in wanted):
            found[child] = path
    missing = [each for each in wanted if isinstance(each, str) and each not in set(found.values())
               and each not in {type(block).__name__ for block in found}]  # fmt: skip
    if missing:
        raise ValueError(f"units: no module and no class of modules is called {missing[0]!r}")
    return found
