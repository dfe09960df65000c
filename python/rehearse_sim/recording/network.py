"""The network that an optimizer trains: found among the living objects, and cut into units."""

from __future__ import annotations

import gc
import sys
from typing import Any

MOST_UNITS = 120


def objects_of(kinds: dict[str, Any]) -> dict[str, list[Any]]:
    """Living objects by class: the interpreter's own list is read once."""
    found: dict[str, list[Any]] = {name: [] for name in kinds}
    for each in gc.get_objects():
        line = type(each).__mro__
        for name, kind in kinds.items():
            if kind in line if not isinstance(kind, str) else any(k.__name__ == kind for k in line):
                found[name].append(each)
    return found


def elements(tensor: Any) -> int:
    """Of the whole parameter, where ranks hold parts."""
    return int(getattr(tensor, "ds_numel", None) or tensor.numel())


def trained_sizes(module: Any, taken: set[int], direct: bool = False) -> list[int]:
    sizes = []
    for each in module.parameters(recurse=not direct):
        if id(each) in taken or not each.requires_grad:
            continue
        taken.add(id(each))
        numels = getattr(each, "_numels", None)  # of FSDP's flat parameter
        sizes += [int(n) for n in numels] if numels else [elements(each)]
    return [size for size in sizes if size > 0]


def optimizer(found: Any) -> dict[str, Any]:
    return {
        "class": type(found).__name__,
        "line": [each.__name__ for each in type(found).__mro__[:-1]],
        "options": {k: v for k, v in found.defaults.items()
                    if k in ("fused", "foreach", "momentum", "amsgrad", "capturable")
                    and isinstance(v, (bool, int, float))},
    }  # fmt: skip


def find_model(torch: Any, stepping: Any) -> tuple[list[tuple[int, Any]], dict[str, Any], Any]:
    """The module that holds most of what the optimizer trains, cut into units; its sizes; itself."""
    modules = objects_of({"module": torch.nn.Module})["module"]
    inner = {id(child) for module in modules for child in module._modules.values() if child}
    roots = [module for module in modules if id(module) not in inner]
    trained = {id(each) for group in getattr(stepping, "param_groups", []) for each in
               group["params"]}  # fmt: skip

    def share(root: Any) -> int:
        return sum(each.numel() for each in root.parameters()
                   if not trained or id(each) in trained or each.requires_grad)  # fmt: skip

    # Of two roots with the same weights (an engine and its module), the one with fewer wrappers.
    roots = [root for root in roots if next(root.parameters(), None) is not None]
    if not roots:
        return [], {}, None
    most = max(share(root) for root in roots)
    best = min((r for r in roots if share(r) == most), key=lambda r: len(list(r.modules())))
    kinds: dict[str, int] = {}
    for each in best.parameters():
        kinds[str(each.dtype)] = kinds.get(str(each.dtype), 0) + elements(each)
    every: set[int] = set()
    sizes = trained_sizes(best, every)
    model = {
        "parameters": sum(elements(each) for each in best.parameters()),
        "trained": sum(sizes),
        "dtypes": kinds,
        "class": type(unwrapped(best)).__name__,
        "compiled": any(type(m).__name__ == "OptimizedModule" or
                        getattr(m, "_compiled_call_impl", None) for m in best.modules()),  # fmt: skip
        "buffers": sum(each.numel() for each in best.buffers()),
    }
    units, model["units"] = cut(torch, unwrapped(best))
    if model["compiled"]:
        units = []  # hooks would break graphs
    return units, model, best


def unwrapped(module: Any) -> Any:
    """The user's own, within wrappers that hold one module."""
    for _ in range(8):
        inner = getattr(module, "module", None) or getattr(module, "_orig_mod", None)
        if inner is None or not hasattr(inner, "_modules"):
            children = [child for child in module._modules.values() if child is not None]
            holds = type(module).__name__ in ("DeepSpeedEngine", "OptimizedModule") or (
                len(children) == 1 and "Lightning" in type(module).__name__)  # fmt: skip
            if not holds or not children:
                return module
            inner = children[0]
        module = inner
    return module


def cut(torch: Any, root: Any) -> tuple[list[tuple[int, Any]], list[dict[str, Any]]]:
    """Blocks that repeat, and what stands around them as single modules, in the order of their
    registration. Parameters of a module that is none of them go with the next unit."""
    own = sys.modules.get("_rehearse_agent")
    find_blocks = own.sibling("../capturing/units").find_blocks if own else None
    blocks = find_blocks(root) if find_blocks else {}
    chosen: list[tuple[Any, str]] = []

    def visit(module: Any, path: str, depth: int) -> None:
        if module in blocks or (depth and not any(c is not None for c in module._modules.values())):
            if next(module.parameters(), None) is not None:
                chosen.append((module, path))
            return
        own = depth > 0 and next(module.parameters(recurse=False), None) is not None
        if own and not any(block in set(module.modules()) for block in blocks):
            chosen.append((module, path))
            return
        for name, child in module._modules.items():
            if child is not None:
                visit(child, f"{path}.{name}" if path else name, depth + 1)

    visit(root, "", 0)
    while len(chosen) > MOST_UNITS:
        chosen = chosen[::2]
    taken: set[int] = set()
    units: list[tuple[int, Any]] = []
    described: list[dict[str, Any]] = []
    for number, (module, path) in enumerate(chosen):
        sizes = trained_sizes(module, taken)
        described.append({"name": path, "class": type(module).__name__, "tensors": sizes})
        units.append((number, module))
    rest = trained_sizes(root, taken)
    if rest and described:
        described[0]["tensors"] = rest + described[0]["tensors"]
    elif rest:
        described.append({"name": "model", "class": type(root).__name__, "tensors": rest})
    return units, described
