"""Steps of more than one network or loss, each as one module: its counts beside PyTorch's own."""

from __future__ import annotations

import os
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any
from unittest import mock

import support

import rehearse_sim
from rehearse_sim.program import program

sys.path.append(str(support.ROOT / "tests/capture"))

from requested import requested_peak  # noqa: E402

if support.has("torch"):
    import torch
    from oracle import Case, _counted
    from torch import nn
    from torch.nn import functional as F

    def layers(*widths: int) -> nn.Sequential:
        made: list[nn.Module] = []
        for fan_in, fan_out in zip(widths, widths[1:]):
            made += [nn.Linear(fan_in, fan_out), nn.ReLU()]
        return nn.Sequential(*made[:-1])

    class Crops(nn.Module):
        """Images of two sizes through one network, as DINO has them."""

        def __init__(self) -> None:
            super().__init__()
            self.net = nn.Sequential(nn.Conv2d(3, 32, 3, 2), nn.ReLU(), nn.Conv2d(32, 32, 3, 2))

        def forward(self, large: Any, small: Any) -> Any:
            return self.net(large).mean() + self.net(small).mean()

    class Adversaries(nn.Module):
        """Both losses of a GAN, added up."""

        def __init__(self) -> None:
            super().__init__()
            self.maker, self.judge = layers(64, 256, 128), layers(128, 256, 1)

        def forward(self, noise: Any, real: Any) -> Any:
            made = self.maker(noise)
            told = F.softplus(-self.judge(real)).mean() + F.softplus(self.judge(made.detach())).mean()
            return told + F.softplus(-self.judge(made)).mean()

    class Pairs(nn.Module):
        """Chosen and rejected answers beside a frozen reference, as DPO has them."""

        def __init__(self) -> None:
            super().__init__()
            self.policy, self.reference = self.tokens(), self.tokens().requires_grad_(False)

        @staticmethod
        def tokens() -> nn.Sequential:
            return nn.Sequential(nn.Embedding(1000, 64), nn.Linear(64, 1000))

        @staticmethod
        def scored(network: nn.Module, tokens: Any) -> Any:
            return network(tokens).log_softmax(-1).gather(-1, tokens[..., None]).sum((1, 2))

        def forward(self, chosen: Any, rejected: Any) -> Any:
            with torch.no_grad():
                usual = self.scored(self.reference, chosen) - self.scored(self.reference, rejected)
            margin = self.scored(self.policy, chosen) - self.scored(self.policy, rejected)
            return -F.logsigmoid(0.1 * (margin - usual)).mean()


def numbers(*shapes: tuple[int, ...]) -> Any:
    return lambda batch: tuple(torch.zeros(batch * times, *rest) for times, *rest in shapes)


@support.needs("torch")
class SeveralInOne(unittest.TestCase):
    def check(self, make: Any, inputs: Any) -> None:
        """What tensors take, without what the allocator leaves unsplit of a small network's."""
        batch = 16
        parameters, flops, most = _counted(Case(make, inputs, batch=batch))
        own = mock.patch.dict(os.environ, REHEARSE=program())
        with tempfile.TemporaryDirectory() as folder, own:
            captured = rehearse_sim.capture(make, inputs, path=Path(folder) / "own.model.json")
            question: dict[str, Any] = {
                "model": {"captured": str(captured.path), "batch_per_gpu": batch},
                "cluster": {"use": "dgx_h100", "gpus_per_node": 1}, "strategy": {"ddp": {}},
                "optimizer": {"sgd": {}}, "run": {"jitter": "none"}}  # fmt: skip
            found = rehearse_sim.predict(question)
            peak = requested_peak(question, folder)
        self.assertEqual(captured.parameters, parameters)
        self.assertAlmostEqual(found["architecture.flops_forward"] / flops, 1, places=9)
        self.assertAlmostEqual(peak / most, 1, delta=0.01)

    def test_images_of_two_sizes(self) -> None:
        self.check(Crops, numbers((1, 3, 64, 64), (2, 3, 32, 32)))

    def test_both_losses_of_a_gan(self) -> None:
        self.check(Adversaries, numbers((1, 64), (1, 128)))

    def test_pairs_beside_a_reference(self) -> None:
        self.check(Pairs, lambda batch: tuple(torch.zeros(batch, length, dtype=torch.long)
                                              for length in (64, 48)))  # fmt: skip


if __name__ == "__main__":
    unittest.main()
