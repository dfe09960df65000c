"""Captured modules against PyTorch's own counters, and against the program's built-in networks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any

import support
from support import needs

import rehearse_sim

if support.has("torch"):
    import torch
    from torch import nn


def _read(captured: Any) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(Path(captured.path).read_text())
    return document


def _calls(document: dict[str, Any], way: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for unit in document["units"]:
        for number, calls in unit[way]:
            name = document["kernels"][number]["op"]
            found[name] = found.get(name, 0) + calls
    return found


@needs("torch")
class Capture(unittest.TestCase):
    def setUp(self) -> None:
        self.scratch = tempfile.TemporaryDirectory()
        self.addCleanup(self.scratch.cleanup)

    def capture(self, module: Any, inputs: Any, **given: Any) -> Any:
        return rehearse_sim.capture(
            module, inputs, path=Path(self.scratch.name) / "own.model.json", **given
        )

    def predict(self, captured: Any, batch: int, **more: Any) -> Any:
        scenario = {"model": {"captured": captured.path, "batch_per_gpu": batch, **more},
                    "cluster": {"use": "dgx_h100", "gpus_per_node": 1}, "strategy": {"ddp": {}},
                    "optimizer": {"sgd": {}}}  # fmt: skip
        return rehearse_sim.predict(scenario)

    def test_operators_of_a_perceptron_are_those_that_pytorch_runs(self) -> None:
        captured = self.capture(
            lambda: nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)),
            torch.zeros(2, 16), targets=torch.zeros(2, dtype=torch.long),
        )  # fmt: skip
        self.assertEqual(captured.parameters, 16 * 32 + 32 + 32 * 4 + 4)
        document = _read(captured)
        forward, backward = _calls(document, "forward"), _calls(document, "backward")
        self.assertEqual(forward["addmm"], 2)
        # No gradient of the batch: two weights' and one input's.
        self.assertEqual(backward["mm"], 3)

    def test_any_batch_is_what_pytorch_takes_at_that_batch(self) -> None:
        def make() -> Any:
            return nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(),
                                 nn.Linear(8 * 36, 10))  # fmt: skip

        def of(batches: tuple[int, ...]) -> Any:
            return self.capture(make, torch.zeros(2, 3, 8, 8),
                                targets=torch.zeros(2, dtype=torch.long), batches=batches)  # fmt: skip

        alone = self.predict(of((24,)), 24)["memory.allocated_peak_bytes"]
        fitted = self.predict(of((2, 4, 7)), 24)["memory.allocated_peak_bytes"]
        self.assertEqual(alone, fitted)

    def test_lengths_are_fitted_like_batches(self) -> None:
        def make() -> Any:
            class Attends(nn.Module):
                def __init__(self) -> None:
                    super().__init__()
                    self.embed, self.head = nn.Embedding(50, 64), nn.Linear(64, 50)

                def forward(self, tokens: Any) -> Any:
                    x = self.embed(tokens)
                    x = x + torch.softmax(x @ x.transpose(1, 2), -1) @ x
                    return self.head(x).transpose(1, 2)

            return Attends()

        def tokens(batch: int, length: int) -> Any:
            return torch.zeros(batch, length, dtype=torch.long)

        given = {"targets": tokens, "lengths": (16, 24, 40)}
        any_length = self.capture(make, tokens, **given)
        fitted = self.predict(any_length, 3, sequence=48)["memory.allocated_peak_bytes"]
        one = self.capture(make, tokens, targets=tokens, lengths=(48,), batches=(3,))
        self.assertEqual(fitted, self.predict(one, 3)["memory.allocated_peak_bytes"])

    def test_flops_are_those_that_flop_counter_mode_counts(self) -> None:
        from torch._subclasses.fake_tensor import FakeTensorMode
        from torch.utils.flop_counter import FlopCounterMode

        def make() -> Any:
            return nn.Sequential(nn.Conv2d(3, 16, 3, stride=2), nn.ReLU(),
                                 nn.Conv2d(16, 16, 3), nn.Flatten(),
                                 nn.Linear(16 * 13 * 13, 10))  # fmt: skip

        # Without groups: of a grouped convolution's weight gradient it counts all groups' pairs.
        captured = self.capture(make, torch.zeros(2, 3, 32, 32),
                                targets=torch.zeros(2, dtype=torch.long))  # fmt: skip
        with FakeTensorMode(), FlopCounterMode(display=False) as counter:
            make()(torch.zeros(1, 3, 32, 32)).sum().backward()
        found = self.predict(captured, 1)
        total = found["model_tflops_per_gpu"] * 1e12 / found.samples_per_s
        self.assertAlmostEqual(total / counter.get_total_flops(), 1, places=9)

    def test_repeated_blocks_are_units(self) -> None:
        class Block(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.inner = nn.Sequential(nn.Linear(8, 8), nn.GELU())

            def forward(self, x: Any) -> Any:
                return x + self.inner(x)

        captured = self.capture(
            lambda: nn.Sequential(nn.Linear(8, 8), *[Block() for _ in range(3)], nn.Linear(8, 2)),
            torch.zeros(2, 8), targets=torch.zeros(2, dtype=torch.long),
        )  # fmt: skip
        self.assertEqual(captured.units, ["0", "1", "2", "3", "4"])

    def test_a_module_that_asks_for_values_is_told_so(self) -> None:
        class Asks(nn.Linear):
            def forward(self, x: Any) -> Any:
                made = super().forward(x)
                return made if made.sum() > 0 else x

        class Leaves(nn.Linear):
            def forward(self, x: Any) -> Any:
                return torch.from_numpy(super().forward(x).detach().numpy())

        for module in (Asks, Leaves):
            expected = "asks for a tensor's value.*test_capture.py:"
            with self.assertRaisesRegex(rehearse_sim.CaptureError, expected) as told:
                self.capture(lambda module=module: module(4, 4), torch.zeros(2, 4))
            self.assertTrue(told.exception.file.endswith("test_capture.py"))
            self.assertIsInstance(told.exception.line, int)

    def test_what_a_weight_began_with_is_not_known(self) -> None:
        class Scaled(nn.Linear):
            def __init__(self) -> None:
                super().__init__(4, 4)
                self.scale = nn.Parameter(torch.ones(1))

            def forward(self, x: Any) -> Any:
                return super().forward(x).mean() * (2 if self.scale.item() > 1 else 1)

        with self.assertRaisesRegex(Exception, "asks for a tensor's value.*test_capture.py:"):
            self.capture(Scaled, torch.zeros(2, 4))

    def test_values_that_follow_from_the_batch_are_known(self) -> None:
        class Masked(nn.Module):
            """Half of its tokens are 1: those alone go through the layer, if all is finite."""

            def __init__(self) -> None:
                super().__init__()
                self.embed, self.inner = nn.Embedding(4, 8), nn.Linear(8, 8)

            def forward(self, tokens: Any) -> Any:
                x, mask = self.embed(tokens), tokens == 1
                if not mask.any() or int(tokens.max()) != 1 or not torch.isfinite(x).all():
                    raise AssertionError("these are not its tokens")
                mask[:, 0] = False
                return self.inner(x[mask]).mean() + x.mean()

        def inputs(batch: int) -> Any:
            tokens = torch.zeros(batch, 6, dtype=torch.long)
            tokens[:, :3] = 1
            return tokens

        captured = self.capture(Masked, inputs)
        kernels = json.loads(captured.path.read_text())["kernels"]
        product = next(each for each in kernels if each["op"] == "addmm")
        self.assertEqual(product["writes"], [["fp32", [[0, 2], 8]]])  # two of each sample's tokens

    def test_two_processes_write_the_same_bytes(self) -> None:
        """Whatever order Python's sets have when several tensors go at one moment."""
        own = Path(self.scratch.name)
        script = """
import sys
import torch, rehearse_sim
class Held(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(8, 8)
    def forward(self, x):
        made = {f"part{each}": torch.cat([x] * (each + 1)) for each in range(9)}
        held = [made[name] for name in set(made)]
        made.clear()
        held.clear()
        return self.inner(x).mean()
rehearse_sim.capture(Held, torch.zeros(2, 8), path=sys.argv[1], name="held")
"""
        wrote = []
        for seed in ("1", "2", "3"):
            path = own / f"{seed}.model.json"
            subprocess.run([sys.executable, "-c", script, str(path)], check=True,
                           env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(support.ROOT / "python")})  # fmt: skip
            wrote.append(path.read_bytes())
        self.assertEqual(len(set(wrote)), 1)

    def test_another_precision_or_batch_than_captured_is_refused(self) -> None:
        captured = self.capture(lambda: nn.Linear(4, 4), torch.zeros(2, 4), batches=(2,),
                                targets=torch.zeros(2, dtype=torch.long))  # fmt: skip
        for batch, more in ((3, {}), (2, {"precision": "bf16"})):
            with self.assertRaises(rehearse_sim.InputError):
                self.predict(captured, batch, **more)


if __name__ == "__main__":
    unittest.main()
