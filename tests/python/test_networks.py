"""Networks that nobody has built in: parameters, FLOPs and memory beside PyTorch's own counters."""

from __future__ import annotations

import json
import os
import tempfile
import unittest
from pathlib import Path
from typing import Any

import support

if support.has("torch"):
    import networks
    import torch
    from oracle import Case, compare

LENGTH = 24


def tokens(batch: int) -> Any:
    return torch.zeros(batch, LENGTH, dtype=torch.long)


class Scratch(unittest.TestCase):
    def setUp(self) -> None:
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = Path(scratch.name)


@support.needs("torch")
class ByHand(Scratch):
    def compare(self, make: Any, uncounted: float = 0) -> None:
        found = compare(Case(make, tokens, uncounted=uncounted), self.folder / "own.model.json")
        self.assertEqual(*found.parameters)
        self.assertAlmostEqual(found.flops_ratio, 1, places=9)
        self.assertEqual(*found.peak_bytes)

    def test_a_mamba(self) -> None:
        self.compare(lambda: networks.Tokens([networks.MambaBlock(64) for _ in range(2)]))

    def test_an_rwkv(self) -> None:
        self.compare(lambda: networks.Tokens([networks.RwkvBlock(64) for _ in range(2)]))

    def test_an_lstm(self) -> None:
        gates, layers = 4 * 64 * (64 + 64), 2
        self.compare(networks.LstmTokens, 2.0 * gates * layers * LENGTH)

    def test_stages_whose_output_is_saved(self) -> None:
        """ReLU keeps what it gives: the stage that sends it gives it back in its own backward."""
        import rehearse_sim

        def make() -> Any:
            blocks = [torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU()) for _ in range(4)]
            return torch.nn.Sequential(*blocks)

        own = rehearse_sim.capture(
            make, lambda batch: torch.zeros(batch, 64), loss=lambda output: output.sum(),
            path=self.folder / "relu.model.json",
        )  # fmt: skip
        step = rehearse_sim.predict({
            "framework": "torch", "model": {"captured": str(own.path), "batch_per_gpu": 8},
            "cluster": {"use": "dgx_h100"}, "strategy": {"ddp": {}, "pipeline_parallel": 2},
            "optimizer": {"adamw": {}},
        })  # fmt: skip
        sizes = {one["name"] for one in step.stages}
        self.assertEqual(len(sizes), 2)

    @support.needs("transformers")
    def test_code_that_comes_with_a_model_of_the_hub(self) -> None:
        from transformers import AutoConfig, AutoModel

        (self.folder / "modeling_own.py").write_text(networks.OWN_CODE)
        (self.folder / "config.json").write_text(json.dumps({
            "model_type": "own_code", "width": 64, "layers": 3, "words": 512,
            "auto_map": {"AutoConfig": "modeling_own.OwnConfig",
                         "AutoModel": "modeling_own.OwnModel"},
        }))  # fmt: skip
        config = AutoConfig.from_pretrained(self.folder, trust_remote_code=True)
        AutoModel.from_config(config, trust_remote_code=True)  # its code is imported for real
        self.compare(lambda: AutoModel.from_config(config, trust_remote_code=True))


@support.needs("torch")
@unittest.skipUnless(os.environ.get("REHEARSE_LONG"), "takes minutes: REHEARSE_LONG=1")
class ThatPeopleTrain(Scratch):
    """Parameters and FLOPs exactly, the peak of memory within 1 %; each is printed."""

    def check(self, names: list[str]) -> None:
        for name in names:
            with self.subTest(name):
                found = compare(networks.PEOPLE[name](), self.folder / f"{name}.model.json")
                print(f"{name}: {found.parameters[0]} parameters, FLOPs x {found.flops_ratio:.9f}, "
                      f"peak x {found.peak_ratio:.5f}", flush=True)  # fmt: skip
                self.assertEqual(*found.parameters)
                self.assertAlmostEqual(found.flops_ratio, 1, places=9)
                self.assertAlmostEqual(found.peak_ratio, 1, delta=0.01)

    @support.needs("torchvision")
    def test_of_torchvision(self) -> None:
        self.check(["swin_t", "resnext50_32x4d", "regnet_y_8gf", "mobilenet_v3_large", "maxvit_t",
                    "convnext_tiny", "inception_v3"])  # fmt: skip

    @support.needs("timm")
    def test_of_timm(self) -> None:
        self.check(["swin_base", "vit_giant"])

    def test_of_papers(self) -> None:
        self.check(["unet", "dit_xl_2", "lstm"])


if __name__ == "__main__":
    unittest.main()
