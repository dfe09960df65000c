"""Embedding tables of a recommender that ranks share, as torchrec shards them.

torchrec's EmbeddingBagCollection runs FBGEMM's kernels, which tensors without numbers do not reach.
EmbeddingBags stands in its place: its lookups, updates and exchanges are written down as those do.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from . import table_kernels  # noqa: F401  it has the operators
from .counts import whole
from .running import CaptureError

#: torchrec's ShardingTypes (torchrec/distributed/types.py): of a table all, its rows or its columns
#: are of one rank.
SHARDINGS = ("table_wise", "row_wise", "column_wise")
#: FBGEMM's fused optimizers, by what each keeps: nothing, as much as a row, a number of each row.
OPTIMIZERS = ("sgd", "exact_adagrad", "exact_row_wise_adagrad")


class _Bags(torch.autograd.Function):
    """Backward updates the rows in the same kernel: tables have no gradients."""

    @staticmethod
    def forward(ctx: Any, _: Any, bags: EmbeddingBags, ids: Any, hots: list[int], count: int) -> Any:
        ctx.bags, ctx.hots = bags, hots
        ctx.save_for_backward(ids)
        return torch.ops.rehearse.embedding_bags(bags.tables(), ids, hots, count)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        (ids,) = ctx.saved_tensors
        bags = ctx.bags
        states = [getattr(bags, f"state{place}") for place in range(len(bags.of))]
        torch.ops.rehearse.embedding_bags_update(
            gradients[0], bags.tables(), states, ids, ctx.hots
        )
        return None, None, None, None, None


@dataclass(frozen=True)
class Table:
    """A table of `rows`; each sample has `hot` ids of it, whose rows are summed."""

    rows: int
    hot: int = 1

    def __post_init__(self) -> None:
        whole("Table.rows", self.rows, "Table(40_000_000, hot=3)")
        whole("Table.hot", self.hot, "Table(40_000_000, hot=3)")


@dataclass(frozen=True)
class _Part:
    """What a rank has of a table."""

    table: int
    width: int


class EmbeddingBags(torch.nn.Module):
    """Tables of one width, whose pooled rows a network reads: torchrec's EmbeddingBagCollection.

        bags = EmbeddingBags([Table(40_000_000, hot=3), Table(39_060)], 128)
        pooled = bags(ids)  # int64 (batch, 4), a table's ids behind the other's -> (batch, 2, 128)

    `sharding`: of all tables, or of each: "table_wise", "row_wise" or "column_wise". It says what one
    of N ranks has, which `capture(..., embedding_parallel=N)` writes. `min_partition`: columns that a
    rank has at least of a table that is divided by columns. `optimizer` of the tables, a part of
    backward: "sgd", "exact_adagrad" or "exact_row_wise_adagrad". Tables are fp32.
    """

    holds_tables = True  #: which are no measure of the units that the rest is cut into

    def __init__(
        self,
        tables: Sequence[Table],
        width: int,
        *,
        sharding: str | Sequence[str] = "table_wise",
        min_partition: int = 32,
        optimizer: str = "exact_row_wise_adagrad",
    ) -> None:
        super().__init__()
        if isinstance(tables, Table) or not isinstance(tables, Sequence):
            raise TypeError(f"tables is a list of Table, not {type(tables).__name__}: [Table(1000)]")
        if not tables:
            raise ValueError("tables is empty: at least one, as [Table(1000)]")
        for place, each in enumerate(tables):
            if not isinstance(each, Table):
                raise TypeError(f"tables[{place}] is a Table, not {each!r}: Table(1000, hot=1)")
        whole("width", width, "EmbeddingBags([Table(1000)], 128)")
        whole("min_partition", min_partition, "min_partition=32")
        kinds = [sharding] * len(tables) if isinstance(sharding, str) else list(sharding)
        if len(kinds) != len(tables) or not set(kinds) <= set(SHARDINGS):
            raise CaptureError(f"sharding: one of {', '.join(SHARDINGS)}, for all tables or for each")
        if optimizer not in OPTIMIZERS:
            raise CaptureError(f"optimizer {optimizer!r} of tables: one of {', '.join(OPTIMIZERS)}")
        self.of, self.width, self.kinds, self.optimizer = tuple(tables), width, kinds, optimizer
        self.min_partition = min_partition
        self.mesh: Any = None  #: of the ranks that share the tables
        self._hold([(table.rows, width) for table in tables])

    def _hold(self, shapes: Sequence[tuple[int, int]]) -> None:
        for place, (rows, width) in enumerate(shapes):
            table = torch.nn.Parameter(torch.empty(rows, width), requires_grad=False)
            self.register_parameter(f"table{place}", table)
            kept = {"sgd": 0, "exact_adagrad": rows * width, "exact_row_wise_adagrad": rows}
            self.register_buffer(f"state{place}", torch.empty(kept[self.optimizer]))

    def tables(self) -> list[torch.nn.Parameter]:
        return [getattr(self, f"table{place}") for place in range(len(self.of))]

    def share(self, mesh: Any) -> None:
        """It is from now on what one of the ranks has: of whole tables and columns that rank which
        has most to look up. If another has more rows, so much is held besides, as memory alone."""
        self.mesh = mesh
        self.owned = self._placed(mesh.size())
        self.own = max(self.owned, key=self._load)
        widths = {part.table: part.width for part in self.own}
        self._hold([(math.ceil(table.rows / mesh.size()), self.width) if self.kinds[i] == "row_wise"
                    else (table.rows if i in widths else 0, widths.get(i, self.width))
                    for i, table in enumerate(self.of)])  # fmt: skip
        further = max(self._held(parts) for parts in self.owned) - self._held(self.own)
        self.register_buffer("further", torch.empty(further))

    def _held(self, parts: Sequence[_Part]) -> int:
        """Elements of these tables, and of their optimizer's states."""
        kept = {"sgd": 0, "exact_adagrad": 1, "exact_row_wise_adagrad": 0}[self.optimizer]
        rows = self.optimizer == "exact_row_wise_adagrad"
        return sum(self.of[part.table].rows * (part.width * (1 + kept) + rows) for part in parts)

    def _load(self, parts: Sequence[_Part]) -> int:
        """Elements that are read for a sample, and sent."""
        return sum((self.of[part.table].hot + 1) * part.width for part in parts)

    def _placed(self, ranks: int) -> list[list[_Part]]:
        """Whole tables and columns by rank: the largest first, each where the least is
        (torchrec's GreedyPerfPartitioner)."""
        parts = []
        for place, kind in enumerate(self.kinds):
            each = self.width if kind == "table_wise" else max(self.min_partition, math.ceil(self.width / ranks))
            if kind != "row_wise":
                parts += [_Part(place, min(each, self.width - at)) for at in range(0, self.width, each)]
        odd = next((part.width for part in parts if part.width % 4), 0)
        if odd:  # fbgemm_gpu: construct_split_state
            even = 4 * ranks * math.ceil(self.width / (4 * ranks))
            raise CaptureError(
                f"column_wise tables of {self.width} columns leave one of {ranks} ranks {odd} of them, and "
                f"FBGEMM takes multiples of 4: a width of {even}, or sharding=\"row_wise\""
            )
        owned: list[list[_Part]] = [[] for _ in range(ranks)]
        for part in sorted(parts, key=lambda part: -self._load([part])):
            without = [has for has in owned if all(part.table != each.table for each in has)]
            min(without, key=self._load).append(part)
        return owned

    def _ids(self, ids: Any, places: Sequence[int]) -> Any:
        """Columns of these tables, one behind the other."""
        ends = [0]
        for table in self.of:
            ends.append(ends[-1] + table.hot)
        return torch.cat([ids[:, ends[i] : ends[i + 1]] for i in places], dim=1).flatten()

    def _pooled(self, ids: Any, places: Sequence[int], count: int) -> Any:
        begins = torch.empty(0, requires_grad=True)  # FBGEMM's placeholder_autograd_tensor
        hots = [table.hot if i in places else 0 for i, table in enumerate(self.of)]
        return _Bags.apply(begins, self, ids, hots, count)  # type: ignore[no-untyped-call]

    def _by_owner(self, ids: Any) -> Any:
        """Ids go to the owners of tables and columns, and pooled rows come back."""
        from torch.distributed._functional_collectives import (
            all_to_all_single, all_to_all_single_autograd,
        )  # fmt: skip

        batch, ranks = ids.shape[0], len(self.owned)
        given = [batch * sum(self.of[part.table].hot for part in parts) for parts in self.owned]
        mine = batch * sum(self.of[part.table].hot for part in self.own)
        sent = self._ids(ids, [part.table for parts in self.owned for part in parts])
        asked = all_to_all_single(sent, [mine] * ranks, given, self.mesh)
        pooled = self._pooled(asked, [part.table for part in self.own], batch * ranks)
        own = batch * sum(part.width for part in self.own)
        widths = [batch * sum(part.width for part in parts) for parts in self.owned]
        back = all_to_all_single_autograd(pooled.flatten(), widths, [own] * ranks, self.mesh)
        found: Any = torch.split(back, widths)
        return torch.cat([each.view(batch, -1) for each in found if each.numel()], dim=1)

    def _by_rows(self, ids: Any, places: Sequence[int]) -> Any:
        """Ids go to the owners of their rows. Each pools its own, and a reduce_scatter sums these."""
        from torch.distributed import _functional_collectives as collectives

        name = "reduce_scatter_{}_autograd"  # PyTorch 2.13 calls it so, and warns of the name before
        later = getattr(collectives, name.format("single"), None)
        scatter = later or getattr(collectives, name.format("tensor"))
        sent = self._ids(ids, places)
        each, more = divmod(sent.numel(), self.mesh.size())
        even = [each + (rank < more) for rank in range(self.mesh.size())]
        asked = collectives.all_to_all_single(sent, even, even, self.mesh)
        partly = self._pooled(asked, places, ids.shape[0] * self.mesh.size())
        return scatter(partly, "sum", 0, self.mesh)

    def forward(self, ids: Any) -> Any:
        if not isinstance(ids, torch.Tensor):
            raise TypeError(f"ids of EmbeddingBags is a tensor, not {type(ids).__name__}")
        if ids.dtype not in (torch.int64, torch.int32):
            raise CaptureError(f"ids of EmbeddingBags are int64 or int32, not {ids.dtype}: ids.long()")
        all_hot = sum(table.hot for table in self.of)
        if ids.dim() != 2 or ids.shape[1] != all_hot:
            raise CaptureError(f"ids of EmbeddingBags are (batch, {all_hot}), not {tuple(ids.shape)}")
        if self.mesh is None:
            pooled = self._pooled(ids.flatten(), range(len(self.of)), ids.shape[0])
            return pooled.view(ids.shape[0], len(self.of), self.width)
        by_rows = [i for i, kind in enumerate(self.kinds) if kind == "row_wise"]
        found = [self._by_owner(ids)] if len(by_rows) < len(self.of) else []
        if by_rows:
            found.append(self._by_rows(ids, by_rows))
        pooled = torch.cat(found, dim=1) if len(found) > 1 else found[0]
        return pooled.view(ids.shape[0], len(self.of), self.width)


def share(module: torch.nn.Module, mesh: Any) -> None:
    """Divides all EmbeddingBags of a network among the ranks."""
    found = [each for each in module.modules() if isinstance(each, EmbeddingBags)]
    if not found:
        raise CaptureError(
            "embedding_parallel divides rehearse_sim.EmbeddingBags, and the network has none: put it "
            "in the place of torchrec's EmbeddingBagCollection"
        )
    for each in found:
        each.share(mesh)
