"""What FBGEMM's kernels of embedding tables read and write: lookups of pooled rows, and the update of
the rows that were read, which is a part of backward."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch

#: Elements of a table that fits a GPU's L2 (40 MB of A100, 50 MB of H100): however often its rows are
#: read, each goes over the memory's bus once.
IN_CACHE = 8 << 20
#: FBGEMM sorts a step's ids by radix (CUB), 8 bits in a pass, each with a place of four bytes.
BITS_OF_A_PASS = 8

Shaped = tuple[str, tuple[int, ...], str]
Call = tuple[str, tuple[Shaped, ...], tuple[Shaped, ...]]

# `hots`: ids of each table in a sample. Tables of no ids are other ranks' own.
_library: Any = torch.library.Library("rehearse", "DEF")  # type: ignore[no-untyped-call]
_library.define("embedding_bags(Tensor[] tables, Tensor ids, int[] hots, int bags) -> Tensor")
_library.define("embedding_bags_update(Tensor gradient, Tensor(a!)[] tables, Tensor(b!)[] states, "
                "Tensor ids, int[] hots) -> ()")  # fmt: skip


@torch.library.register_fake("rehearse::embedding_bags")  # type: ignore[untyped-decorator]
def _(tables: Any, ids: Any, hots: Sequence[int], bags: int) -> Any:
    return tables[0].new_empty(bags, sum(each.shape[1] for each, hot in zip(tables, hots) if hot))


@torch.library.register_fake("rehearse::embedding_bags_update")  # type: ignore[untyped-decorator]
def _(*_: Any) -> None:
    return None


def _looked_up(tables: Any, ids: Any, hots: Sequence[int]) -> Iterator[tuple[Any, int]]:
    """Each table with how many of its rows are read."""
    for place, (table, hot) in enumerate(zip(tables, hots)):
        if hot:
            yield place, ids.numel() * hot // sum(hots)


def _rows(tables: Any, ids: Any, hots: Sequence[int]) -> int:
    """Elements that come from memory."""
    return sum(tables[i].numel() if tables[i].numel() <= IN_CACHE else times * tables[i].shape[1]
               for i, times in _looked_up(tables, ids, hots))  # fmt: skip


def _flat(kind: str, elements: int) -> Shaped:
    return kind, (elements,), ""


def calls_of(name: str, args: Sequence[Any], written: Sequence[Shaped]) -> list[Call]:
    """Kernels of one operator of rehearse::, with what goes over the memory's bus. Rows of large
    tables are counted as if no two ids were alike."""
    if name == "embedding_bags":
        tables, ids, hots = args[:3]
        rows = _flat("fp32", _rows(tables, ids, hots))
        return [(name, (rows, _flat("int64", ids.numel())), tuple(written))]
    gradient, tables, states, ids, hots = args
    many = sum(tables[i].shape[0] for i, _ in _looked_up(tables, ids, hots))
    pair = (_flat("int64", ids.numel()), _flat("int32", ids.numel()))
    sort = ("embedding_bags_sort", pair, pair)
    touched = _rows(tables, ids, hots)
    kept = sum(states[i].numel() if states[i].numel() <= IN_CACHE else
               times * states[i].numel() // max(1, tables[i].shape[0])
               for i, times in _looked_up(tables, ids, hots))  # fmt: skip
    of_bags = sum(times * tables[i].shape[1] for i, times in _looked_up(tables, ids, hots))
    changed = (_flat("fp32", touched), _flat("fp32", kept))
    passes = math.ceil(max(1, many.bit_length()) / BITS_OF_A_PASS)
    return [*[sort] * passes, (name, (_flat("fp32", min(of_bags, gradient.numel() * max(hots))), *changed), changed)]
