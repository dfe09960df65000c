"""Captures as one of several tensor ranks: what PyTorch's parallelize_module leaves of a module, in
closed form, and the program's answer of it."""

from __future__ import annotations

import json
import math
import tempfile
import unittest
from pathlib import Path
from typing import Any

import support

import rehearse_sim

if support.has("torch"):
    import torch
    from torch import nn

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.up, self.down = nn.LayerNorm(64), nn.Linear(64, 256), nn.Linear(256, 64)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            out: torch.Tensor = x + self.down(torch.relu(self.up(self.norm(x))))
            return out

    class Blocks(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList(Block() for _ in range(3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for each in self.layers:
                x = each(x)
            return x.mean()


PLAN = {"layers.*.up": "colwise", "layers.*.down": "rowwise"}
TOKENS, WIDTH = 32, 64


@support.needs("torch")
class TensorRanks(unittest.TestCase):
    def setUp(self) -> None:
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.path = Path(scratch.name) / "blocks.model.json"

    def capture(self, plan: Any = None, ranks: Any = 4) -> Any:
        return rehearse_sim.capture(
            Blocks, lambda batch: torch.zeros(batch, TOKENS, WIDTH), path=self.path,
            tensor_parallel=ranks, plan=plan or PLAN,
        )  # fmt: skip

    def rank(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.path.with_name("blocks.tp4.model.json").read_text())
        return found

    def predict(self, strategy: dict[str, Any]) -> Any:
        return rehearse_sim.predict({
            "model": {"captured": self.path, "batch_per_gpu": 8},
            "cluster": {"use": "dgx_h100", "gpus_per_node": 4}, "strategy": strategy,
            "optimizer": {"sgd": {}}, "run": {"jitter": "none"},
        })  # fmt: skip

    def test_a_rank_has_its_part_of_the_products_and_all_of_the_rest(self) -> None:
        self.capture()
        rank = self.rank()
        own = sum(math.prod(each[1]) for unit in rank["units"] for each in unit["parameters"])
        # Weights and the wide layer's bias are divided; norms and the narrow bias are not.
        self.assertEqual(own, 3 * ((2 * 64 * 256 + 256) // 4 + 64 + 2 * 64))
        self.assertEqual(rank["tensor_parallel"], 4)

    def test_a_pair_of_layers_exchanges_its_output_and_its_inputs_gradient(self) -> None:
        self.capture()
        exchanges = [each for unit in self.rank()["units"] for each in unit.get("exchanges", [])]
        sized = ["fp32", [[0, 1], TOKENS, WIDTH]]
        kinds = sorted((backward, kind) for backward, kind, *_ in exchanges)
        self.assertEqual(kinds, [(False, "all_reduce")] * 3 + [(True, "all_reduce")] * 3)
        self.assertEqual([each[2] for each in exchanges], [sized] * 6)

    def test_the_program_exchanges_what_was_captured(self) -> None:
        captured = self.capture()
        answer = self.predict({"ddp": {}, "tensor_parallel": 4})
        self.assertEqual(answer["architecture.parameters"], captured.parameters)
        found = {each["bytes"]: each["count"] for each in answer["collectives"]
                 if each["collective"] == "all_reduce"}  # fmt: skip
        self.assertEqual(found[8 * TOKENS * WIDTH * 4], 6)

    def test_a_degree_that_was_not_captured_is_refused_with_the_way_to_it(self) -> None:
        self.capture()
        with self.assertRaisesRegex(rehearse_sim.InputError, r"capture\(..., tensor_parallel=2\)"):
            self.predict({"ddp": {}, "tensor_parallel": 2})

    def test_a_plan_that_names_no_module_or_no_style_is_refused(self) -> None:
        for plan, why in (({"blocks.*.up": "colwise"}, "no module has a name of the plan"),
                          ({"layers.*.up": "columns"}, "'columns' of layers.*.up is not known")):  # fmt: skip
            with self.assertRaisesRegex(Exception, why):
                self.capture(plan)

    def test_a_class_without_a_plan_asks_for_one(self) -> None:
        with self.assertRaisesRegex(Exception, "give plan="):
            rehearse_sim.capture(Blocks, lambda batch: torch.zeros(batch, TOKENS, WIDTH),
                                 path=self.path, tensor_parallel=4)  # fmt: skip


if __name__ == "__main__":
    unittest.main()
