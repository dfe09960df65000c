"""What users' code does around a network: copies, devices, checkpoints, inner gradients, GANs."""

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
    from torch.utils.checkpoint import checkpoint

    class Blocks(nn.Module):
        """Four blocks after a linear layer, each run again in backward where that is asked for."""

        def __init__(self, reentrant: bool | None = None) -> None:
            super().__init__()
            self.reentrant, self.enter = reentrant, nn.Linear(128, 128)
            self.blocks = nn.ModuleList(Block() for _ in range(4))

        def forward(self, x: Any) -> Any:
            x = self.enter(x)
            for block in self.blocks:
                if self.reentrant is None:
                    x = block(x)
                else:
                    x = checkpoint(block, x, use_reentrant=self.reentrant)
            return x.square().mean()

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.up, self.down = nn.LayerNorm(128), nn.Linear(128, 512), nn.Linear(512, 128)

        def forward(self, x: Any) -> Any:
            return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


def batch_of(batch: int) -> Any:
    return torch.zeros(batch, 128)


@support.needs("torch")
class UsersCode(unittest.TestCase):
    def setUp(self) -> None:
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.path = Path(scratch.name) / "own.model.json"

    def peak(self, make: Any, **model: Any) -> int:
        captured = rehearse_sim.capture(make, batch_of, path=self.path)
        found = rehearse_sim.predict({
            "model": {"captured": captured.path, "batch_per_gpu": 256, **model},
            "cluster": {"use": "dgx_h100", "gpus_per_node": 1}, "strategy": {"ddp": {}},
            "optimizer": {"sgd": {}}, "run": {"jitter": "none"},
        })  # fmt: skip
        return int(found["memory.allocated_peak_bytes"])

    def test_blocks_are_named_by_their_class_and_checkpointed_by_it(self) -> None:
        plain = self.peak(Blocks)
        units = json.loads(self.path.read_text())["units"]
        self.assertEqual([each.get("block") for each in units], [None, *["Block"] * 4])
        again = self.peak(Blocks, activation_checkpointing="per_unit")
        self.assertLess(again, plain)
        self.assertEqual(self.peak(Blocks, activation_checkpointing={"every_layer": 1}), again)

    def test_a_reentrant_checkpoint_is_one_that_is_not(self) -> None:
        ratio = self.peak(lambda: Blocks(True)) / self.peak(lambda: Blocks(False))
        self.assertAlmostEqual(ratio, 1, delta=0.01)

    def test_a_gpu_that_is_not_there_changes_nothing(self) -> None:
        plain = self.peak(Blocks)
        self.assertEqual(self.peak(lambda: Blocks().to("cuda")), plain)
        self.assertEqual(self.peak(lambda: Blocks().cuda()), plain)

    def test_copied_layers_are_like_those_that_were_made(self) -> None:
        def make(copied: bool) -> Any:
            layer = nn.TransformerEncoderLayer(128, 4, 256, batch_first=True, norm_first=True)
            return nn.Sequential(nn.TransformerEncoder(layer, 2) if copied else layer)

        def capture(module: Any) -> Any:
            rehearse_sim.capture(module, lambda batch: torch.zeros(batch, 8, 128), path=self.path,
                                 loss=lambda output: output.mean())  # fmt: skip
            document = json.loads(self.path.read_text())
            return sorted({each["op"] for each in document["kernels"]}), len(document["tensors"])

        self.assertEqual(capture(lambda: make(True)), capture(make(True)))

    def test_an_inner_gradient_is_predicted(self) -> None:
        class Inner(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.net = nn.Linear(128, 128)

            def forward(self, x: Any) -> Any:
                own = dict(self.net.named_parameters())

                def loss(p: Any) -> Any:
                    return torch.func.functional_call(self.net, p, (x,)).square().mean()

                slope = torch.func.grad(loss)(own)
                return loss({key: own[key] - 0.1 * slope[key] for key in own})

        self.assertGreater(self.peak(Inner), 0)

    def test_numbers_of_eight_bytes_count_as_such(self) -> None:
        class Complex(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.weight = nn.Parameter(torch.zeros(1024, 128, dtype=torch.cfloat))

            def forward(self, x: Any) -> Any:
                return (x.to(torch.cfloat) @ self.weight.T).abs().mean()

        captured = rehearse_sim.capture(Complex, batch_of, path=self.path)
        found = rehearse_sim.predict({
            "model": {"captured": captured.path, "batch_per_gpu": 4},
            "cluster": {"use": "dgx_h100", "gpus_per_node": 1}, "strategy": {"ddp": {}},
            "optimizer": {"adamw": {}},
        })  # fmt: skip
        self.assertEqual(found["memory.by_kind.parameters_bytes"], 8 * 1024 * 128)
        self.assertEqual(found["memory.by_kind.optimizer_state_bytes"], 2 * 8 * 1024 * 128)

    def test_constants_that_a_network_makes_decide_what_runs(self) -> None:
        class Grid(nn.Module):
            """Boxes on a grid, of which those within the image are picked."""

            def __init__(self) -> None:
                super().__init__()
                self.sides, self.lin = torch.tensor([1.0, 2.0, 4.0]), nn.Linear(128, 128)

            def forward(self, x: Any) -> Any:
                places = torch.arange(128)[:, None] * self.sides[None, :]
                inside = torch.where((places < 64).all(dim=1))[0]
                return self.lin(x)[:, inside].square().mean()

        captured = rehearse_sim.capture(Grid, batch_of, path=self.path)
        picked = [each for each in json.loads(captured.path.read_text())["kernels"] if each["op"] == "index"]
        self.assertEqual(len(picked), 1)
        self.assertEqual(picked[0]["writes"][0][1][1], 16)

    def test_what_chance_draws_is_not_known(self) -> None:
        class Chance(nn.Linear):
            def forward(self, x: Any) -> Any:
                scale = torch.empty(1).uniform_(0.0, 2.0)
                return super().forward(x).mean() * (2 if scale.item() > 1 else 1)

        with self.assertRaisesRegex(rehearse_sim.CaptureError, "scale.item"):
            rehearse_sim.capture(lambda: Chance(128, 128), batch_of, path=self.path)

    def test_layers_that_chance_leaves_out_are_told(self) -> None:
        runs = iter(range(100))

        class Own(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.one, self.two = nn.Linear(128, 128), nn.Linear(128, 128)

            def forward(self, x: Any) -> Any:
                return (self.two(self.one(x)) if next(runs) else self.one(x)).mean()

        with self.assertRaisesRegex(rehearse_sim.CaptureError, "differs from run to run at one size .* chance decides"):
            self.peak(Own)

    def test_sparse_gradients_are_refused(self) -> None:
        def make() -> Any:
            return nn.Sequential(nn.Embedding(64, 8, sparse=True))

        with self.assertRaisesRegex(Exception, r"as 0 \(Embedding\(sparse=True\)\) makes it: sparse=False"):
            rehearse_sim.capture(make, lambda batch: torch.zeros(batch, 3, dtype=torch.long),
                                 loss=lambda output: output.mean(), path=self.path)  # fmt: skip


@support.needs("torch")
class UsersMistakes(unittest.TestCase):
    def test_what_pytorch_refuses_has_the_users_line(self) -> None:
        class Wrong(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.enter = nn.Linear(8, 8)

            def forward(self, x: Any) -> Any:
                return (self.enter(x) @ x).mean()

        for width, line in ((9, "return"), (8, "return")):
            said = rf"at .*{Path(__file__).name}:\d+: {line} .*reduction dim.*; are `inputs` shaped"
            with self.assertRaisesRegex(rehearse_sim.CaptureError, said), tempfile.TemporaryDirectory() as scratch:
                rehearse_sim.capture(Wrong, lambda batch, width=width: torch.zeros(batch, width),
                                     path=Path(scratch) / "own.model.json")  # fmt: skip

    def test_the_modules_own_words_stay(self) -> None:
        class Own(nn.Linear):
            def forward(self, input: Any) -> Any:
                raise ValueError("eight channels")

        with self.assertRaisesRegex(ValueError, "^eight channels$"), tempfile.TemporaryDirectory() as scratch:
            rehearse_sim.capture(lambda: Own(8, 8), lambda batch: torch.zeros(batch, 8),
                                 path=Path(scratch) / "own.model.json")  # fmt: skip


@support.needs("torch")
class UsersSteps(unittest.TestCase):
    def step(self, run: Any) -> Any:
        """A step that `run` takes with the network and its optimizer."""

        def make() -> Any:
            net = Blocks()
            optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
            return net, lambda x: run(net, optimizer, x)

        with tempfile.TemporaryDirectory() as scratch:
            return rehearse_sim.capture_step(make, batch_of, path=Path(scratch) / "own.model.json")

    def test_what_comes_behind_the_step_may_ask_for_values(self) -> None:
        def run(net: Any, optimizer: Any, x: Any) -> None:
            loss = net(x)
            loss.backward()
            optimizer.step()
            print(float(loss))

        self.assertEqual(self.step(run).gradient_accumulation, 1)

    def test_a_second_backward_behind_the_step_is_refused(self) -> None:
        def run(net: Any, optimizer: Any, x: Any) -> None:
            net(x).backward()
            optimizer.step()
            net(x).backward()

        with self.assertRaisesRegex(
            Exception, r"a second backward behind .* at .*test_users_code.py:\d+: net\(x\)"
        ):
            self.step(run)

    def test_a_second_backward_of_other_products_is_no_micro_batch(self) -> None:
        def run(net: Any, optimizer: Any, x: Any) -> None:
            net(x).backward()
            net.enter(x).sum().backward()
            optimizer.step()

        with self.assertRaisesRegex(
            Exception, r"test_users_code.py:\d+: net.enter\(x\).* is of 2 products, the first one of 26"
        ):
            self.step(run)

    def test_a_batch_that_is_cut_inside_is_refused(self) -> None:
        def run(net: Any, optimizer: Any, x: Any) -> None:
            for part in x.chunk(2):
                net(part).backward()
            optimizer.step()

        with self.assertRaisesRegex(Exception, "cuts its batch of 2 into 2 micro-batches"):
            self.step(run)
