"""Captured networks beside the built-in ones of the same name: the same step within 5 %."""

from __future__ import annotations

import tempfile
import unittest
from pathlib import Path
from typing import Any

import support
from support import needs

import rehearse_sim

if support.has("torch"):
    import networks
    import torch

CLOSE = 0.05
SHAPE = {
    "layers": 4, "hidden_size": 2048, "heads": 32, "kv_heads": 8, "intermediate_size": 8192, "vocab_size": 32000,
}  # fmt: skip


@needs("torch", "transformers")
class BuiltIn(unittest.TestCase):
    """Steps that wait for the host, and steps that do not."""

    def setUp(self) -> None:
        self.scratch = tempfile.TemporaryDirectory()
        self.addCleanup(self.scratch.cleanup)

    def step(self, model: dict[str, Any]) -> Any:
        scenario = {"model": model, "cluster": {"use": "dgx_h100", "gpus_per_node": 1}, "strategy": {"ddp": {}},
                    "optimizer": {"sgd": {}},
                    "run": {"steps": 3, "efficiency": {"host_launch": "49us"}}}  # fmt: skip
        return rehearse_sim.predict(scenario)

    def check(self, make: Any, inputs: Any, built_in: dict[str, Any], **given: Any) -> None:
        batch = built_in["batch_per_gpu"]
        captured = rehearse_sim.capture(make, inputs, precision="bf16", batches=(batch,),
                                        path=Path(self.scratch.name) / "own.model.json", **given)  # fmt: skip
        own = self.step({"captured": captured.path, "batch_per_gpu": batch})
        other = self.step({**built_in, "precision": "bf16"})
        for name in ("step_time_s", "allocated_peak_bytes"):
            found, wanted = [
                each["memory"].get(name, each.get(name)) for each in (own.to_dict(), other.to_dict())
            ]
            self.assertLess(abs(found / wanted - 1), CLOSE, f"{built_in}: {name} {found} and {wanted}")

    def language(self, config: Any, kind: str, batch: int, length: int, built_in: dict[str, Any]) -> None:
        if support.has("torchvision"):
            networks.torchvision_models()  # transformers loads it
        import transformers

        config.use_cache = False

        def make() -> Any:
            return getattr(transformers, kind).from_config(config, attn_implementation="sdpa")

        def inputs(count: int) -> Any:
            ids = torch.zeros(count, length, dtype=torch.long)
            return {"input_ids": ids, "labels": ids}

        said = {"sequence": length, "batch_per_gpu": batch, **built_in}
        self.check(make, inputs, said)

    def test_gpt2(self) -> None:
        import transformers

        for batch in (2, 16):
            self.language(transformers.GPT2Config(), "AutoModelForCausalLM", batch, 1024,
                          {"use": "gpt2", "activation": "gelu_new", "dropout": 0.1})  # fmt: skip

    def test_llama(self) -> None:
        import transformers

        config = transformers.LlamaConfig(num_hidden_layers=4, hidden_size=2048, intermediate_size=8192,
                                          num_attention_heads=32, num_key_value_heads=8)  # fmt: skip
        for batch in (1, 4):
            self.language(config, "AutoModelForCausalLM", batch, 2048, {"transformer": SHAPE})

    @needs("torchvision")
    def test_images(self) -> None:
        for name, batch in (("resnet50", 64), ("resnet50", 2), ("vit_l_16", 32), ("convnext_large", 16)):
            net = getattr(networks.torchvision_models(), name)
            self.check(net, torch.zeros(batch, 3, 224, 224), {"use": name, "image": 224, "batch_per_gpu": batch},
                       targets=lambda count: torch.zeros(count, dtype=torch.long))  # fmt: skip


if __name__ == "__main__":
    unittest.main()
