"""A user's whole training step: what `capture_step` finds around forward and backward."""

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
    from torch.nn import functional as F


def images(batch: int) -> Any:
    return torch.zeros(batch, 16), torch.zeros(batch, dtype=torch.long)


def network() -> Any:
    return nn.Sequential(nn.Linear(16, 32), nn.LayerNorm(32), nn.GELU(), nn.Linear(32, 4))


@support.needs("torch")
class Steps(unittest.TestCase):
    def setUp(self) -> None:
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = Path(scratch.name)

    def step(
        self, optimizer: Any, *, micro: int = 1, clip: bool = False, autocast: Any = None
    ) -> Any:
        def make() -> Any:
            net = network()
            own = optimizer(net.parameters())

            def step(x: Any, y: Any) -> None:
                own.zero_grad()
                for part, answer in zip(x.chunk(micro), y.chunk(micro)):
                    with torch.autocast("cuda", autocast, enabled=autocast is not None):
                        loss = F.cross_entropy(net(part), answer)
                    loss.backward()
                if clip:
                    torch.nn.utils.clip_grad_norm_(net.parameters(), 0.5)
                own.step()
                raise AssertionError("nothing runs behind the optimizer")

            return net, step

        return rehearse_sim.capture_step(
            make, lambda batch: images(micro * batch), path=self.folder / "own.model.json"
        )

    def test_a_step_is_what_capture_writes(self) -> None:
        stepped = self.step(lambda p: torch.optim.SGD(p, 0.1), autocast=torch.bfloat16)
        document = json.loads(stepped.path.read_text())
        other = rehearse_sim.capture(
            network, lambda batch: images(batch)[0], targets=lambda batch: images(batch)[1],
            precision="bf16", path=self.folder / "other.model.json",
        )  # fmt: skip
        again = json.loads(other.path.read_text())
        self.assertEqual(document["precision"], "bf16")
        for key in ("kernels", "kinds", "tensors", "copies", "gradients"):
            self.assertEqual(document[key], again[key], key)
        for one, two in zip(document["units"], again["units"]):
            for key in ("name", "parameters", "forward", "backward"):
                self.assertEqual(one[key], two[key], key)

    def test_micro_batches_clipping_and_the_optimizer_are_found(self) -> None:
        found = self.step(lambda p: torch.optim.AdamW(p, fused=True), micro=3, clip=True)
        self.assertEqual(found.gradient_accumulation, 3)
        self.assertEqual(found.optimizer, {"adamw": {"fused": True, "clip_grad": 1.0}})
        self.assertEqual(json.loads(found.path.read_text())["precision"], "fp32")

    def test_optimizers_have_the_names_of_scenarios(self) -> None:
        for optimizer, name in (
            (lambda p: torch.optim.SGD(p, 0.1, momentum=0.9), {"sgd_momentum": {}}),
            (lambda p: torch.optim.Adam(p, foreach=False), {"adam": {"foreach": False}}),
            (torch.optim.Adafactor, {"adafactor": {}}),
        ):
            self.assertEqual(self.step(optimizer).optimizer, name)
        with self.assertRaisesRegex(Exception, "the optimizer Rprop is not known; known: Ada"):
            self.step(torch.optim.Rprop)

    def test_its_scenario_is_predicted(self) -> None:
        found = self.step(torch.optim.AdamW, micro=2)
        answer = rehearse_sim.predict({**found.scenario, "cluster": {"use": "dgx_h100"}})
        self.assertEqual(answer["architecture.parameters"], found.parameters)
        samples = answer.samples_per_s * answer.step_time_s
        self.assertAlmostEqual(samples, 2 * found.batch * answer["ranks"], places=6)

    def test_a_step_without_an_optimizer_is_told_so(self) -> None:
        def make() -> Any:
            net = network()
            return net, lambda x, y: F.cross_entropy(net(x), y).backward()

        with self.assertRaisesRegex(Exception, "no step\\(\\) of a torch.optim.Optimizer"):
            rehearse_sim.capture_step(make, images, path=self.folder / "own.model.json")


if __name__ == "__main__":
    unittest.main()
