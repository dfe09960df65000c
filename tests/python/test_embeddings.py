"""Embedding tables that ranks share: what one rank holds and exchanges in closed form, and the
program's answer of it."""

from __future__ import annotations

import json
import tempfile
import unittest
from pathlib import Path
from typing import Any

import support

import rehearse_sim

if support.has("torch"):
    import torch
    from torch import nn

    from rehearse_sim import EmbeddingBags, Table

    TABLES = [Table(100_000, hot=3), Table(50), Table(4_000_000, hot=2)]

    class Ranker(nn.Module):
        def __init__(self, **sharded: Any) -> None:
            super().__init__()
            self.bags = EmbeddingBags(TABLES, WIDTH, **sharded)
            self.over = nn.Linear(3 * WIDTH, 1)

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            out: torch.Tensor = self.over(self.bags(ids).flatten(1)).mean()
            return out


WIDTH, RANKS, HOT = 128, 4, 6


@support.needs("torch")
class SharedTables(unittest.TestCase):
    def setUp(self) -> None:
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.path = Path(scratch.name) / "ranker.model.json"

    def capture(self, ranks: Any = RANKS, **sharded: Any) -> Any:
        return rehearse_sim.capture(
            lambda: Ranker(**sharded), lambda batch: torch.zeros(batch, HOT, dtype=torch.long),
            path=self.path, embedding_parallel=ranks,
        )  # fmt: skip

    def unit(self, **sharded: Any) -> Any:
        """The tables of one rank."""
        self.capture(**sharded)
        rank = json.loads(self.path.with_name("ranker.ep4.model.json").read_text())
        return next(each for each in rank["units"] if each["name"] == "bags")

    def exchanged(self, unit: Any) -> list[tuple[bool, str, str, int]]:
        """Pass, collective, type, and elements of a sample."""
        found = []
        for backward, kind, (dtype, shape), *_ in unit["exchanges"]:
            elements = 1
            for side in shape:
                elements *= side if isinstance(side, int) else side[1]
            found.append((backward, kind, dtype, elements))
        return found

    def test_whole_tables_go_to_the_rank_with_least_to_do(self) -> None:
        unit = self.unit()
        rows = [shape[0] for _, shape, *_ in unit["parameters"]]
        self.assertEqual(rows, [100_000, 0, 0])  # three ids a sample, the most
        # A number for each row; and what the rank with most rows holds besides.
        self.assertEqual(unit["buffers"], 100_000 + (4_000_000 - 100_000) * (WIDTH + 1))
        pooled = RANKS * WIDTH
        self.assertEqual(self.exchanged(unit), [
            (False, "all_to_all", "int64", RANKS * 3), (False, "all_to_all", "fp32", pooled),
            (True, "all_to_all", "fp32", pooled)])  # fmt: skip

    def test_rows_are_summed_by_a_reduce_scatter(self) -> None:
        unit = self.unit(sharding="row_wise", optimizer="exact_adagrad")
        self.assertEqual(
            [shape for _, shape, *_ in unit["parameters"]], [[25_000, WIDTH], [13, WIDTH], [1_000_000, WIDTH]]
        )
        self.assertEqual(unit["buffers"], 1_025_013 * WIDTH)
        pooled = RANKS * 3 * WIDTH
        self.assertEqual(self.exchanged(unit), [
            (False, "all_to_all", "int64", HOT), (False, "reduce_scatter", "fp32", pooled),
            (True, "all_gather", "fp32", pooled)])  # fmt: skip

    def test_columns_are_of_all_ranks(self) -> None:
        unit = self.unit(sharding="column_wise", optimizer="sgd")
        self.assertEqual([shape[1] for _, shape, *_ in unit["parameters"]], [WIDTH // RANKS] * 3)
        self.assertEqual(unit["buffers"], 0)
        self.assertEqual(self.exchanged(unit)[0], (False, "all_to_all", "int64", RANKS * HOT))

    def test_a_lookup_reads_each_row_and_an_update_writes_it(self) -> None:
        self.unit()
        rank = json.loads(self.path.with_name("ranker.ep4.model.json").read_text())
        kernels = {each["op"]: each for each in rank["kernels"]}
        rows = ["fp32", [[0, RANKS * 3 * WIDTH]]]
        self.assertEqual(kernels["embedding_bags"]["reads"][0], rows)
        self.assertEqual(kernels["embedding_bags_update"]["writes"][0], rows)

    def predict(self, **strategy: Any) -> Any:
        return rehearse_sim.predict({
            "model": {"captured": str(self.path), "batch_per_gpu": 4096}, "cluster": {"use": "dgx_h100", "gpus_per_node": 4},
            "strategy": strategy, "optimizer": {"sgd": {}}, "run": {"jitter": "none"}})  # fmt: skip

    def test_wrong_arguments_are_named_with_what_is_right(self) -> None:
        for make, kind, said in (
            (lambda: Table(-5), ValueError, r"Table.rows is 1 or more, not -5: Table\(40_000_000, hot=3\)"),
            (lambda: Table(5, hot=0), ValueError, "Table.hot is 1 or more, not 0"),
            (lambda: Table(1.5), TypeError, "Table.rows is a whole number, not 1.5"),  # type: ignore[arg-type]
            (lambda: EmbeddingBags(TABLES, 0), ValueError, "width is 1 or more, not 0"),
            (lambda: EmbeddingBags([(5, 1)], 8), TypeError, r"tables\[0\] is a Table, not \(5, 1\)"),  # type: ignore[list-item]
            (lambda: EmbeddingBags([], 8), ValueError, "tables is empty"),
            (lambda: EmbeddingBags(Table(5), 8), TypeError, "tables is a list of Table, not Table"),  # type: ignore[arg-type]
            (lambda: EmbeddingBags([Table(5)], 8)((1, 2)), TypeError, "ids of EmbeddingBags is a tensor, not tuple"),
            (lambda: self.capture("4"), TypeError, "embedding_parallel is a whole number, not '4'"),
            (lambda: self.capture(1), ValueError, "embedding_parallel is 2 ranks or more, not 1"),
        ):
            with self.subTest(said), self.assertRaisesRegex(kind, said):
                make()

    @unittest.skipUnless(support.has_program(), "the program is not built")
    def test_a_prediction_has_the_ranks_memory_and_the_networks_parameters(self) -> None:
        made = self.capture(sharding="row_wise")
        found = self.predict(ddp={}, embedding_parallel=RANKS)
        self.assertEqual(found["architecture.parameters"], made.parameters)
        whole = self.predict(ddp={})
        tables = sum(table.rows for table in TABLES) * WIDTH * 4
        less = whole["memory.allocated_peak_bytes"] - found["memory.allocated_peak_bytes"]
        self.assertAlmostEqual(less / (tables * (1 - 1 / RANKS)), 1, delta=0.02)
        pooled = 4 * RANKS * 3 * WIDTH * 4096
        kinds = {each["collective"]: each["bytes"] for each in found["collectives"]}
        self.assertEqual((kinds["reduce_scatter"], kinds["all_gather"], kinds["all_to_all"]),
                         (pooled, pooled, 8 * HOT * 4096))  # fmt: skip

    @unittest.skipUnless(support.has_program(), "the program is not built")
    def test_what_no_rank_can_do_is_refused(self) -> None:
        self.capture()
        for strategy, said in (({"ddp": {}, "embedding_parallel": 2}, "embedding_parallel=2) writes it"),
                               ({"fsdp2": {}, "embedding_parallel": 4}, "sharded once more"),
                               ({"ddp": {}, "expert_parallel": 4}, "was captured whole")):  # fmt: skip
            with self.assertRaisesRegex(rehearse_sim.InputError, said.replace("(", r"\(").replace(")", r"\)")):
                self.predict(**strategy)
        with self.assertRaisesRegex(rehearse_sim.InputError, "captured whole and at embedding_parallel 4, and"):
            self.predict(ddp={}, embedding_parallel=2)
        with self.assertRaisesRegex(Exception, "the network has none"):
            rehearse_sim.capture(nn.Linear(4, 1), torch.zeros(2, 4), loss=torch.sum, path=self.path,
                                 batches=(2, 4, 7), embedding_parallel=4)  # fmt: skip

    def test_ids_are_whole_numbers(self) -> None:
        bags = rehearse_sim.EmbeddingBags([rehearse_sim.Table(8)], 32)
        with self.assertRaisesRegex(Exception, r"int64 or int32, not torch.float32: ids.long\(\)"):
            bags(torch.zeros(2, 1))

    def test_columns_of_a_rank_are_fbgemms(self) -> None:
        for width, remedy in ((100, 108), (128, 132)):
            bags = rehearse_sim.EmbeddingBags([rehearse_sim.Table(8)], width, sharding="column_wise")
            with self.assertRaisesRegex(Exception, f"multiples of 4: a width of {remedy}, or sharding"):
                bags._placed(3)
            even = rehearse_sim.EmbeddingBags([rehearse_sim.Table(8)], remedy, sharding="column_wise")
            self.assertEqual(sum(part.width for parts in even._placed(3) for part in parts), remedy)


if __name__ == "__main__":
    unittest.main()
