"""Networks of libraries by their names, captured once."""

from __future__ import annotations

import importlib.util
import json
import os
import tempfile
import unittest
from pathlib import Path

import rehearse_sim

VIT = {
    "model_type": "vit", "architectures": ["ViTForImageClassification"], "hidden_size": 64,
    "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128, "image_size": 32,
    "patch_size": 8, "num_labels": 10,
}  # fmt: skip
TINY = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 64,
    "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 4, "vocab_size": 256, "max_position_embeddings": 64,
}  # fmt: skip
T5 = {
    "model_type": "t5", "architectures": ["T5ForConditionalGeneration"], "d_model": 64, "d_kv": 16,
    "d_ff": 128, "num_layers": 2, "num_heads": 4, "vocab_size": 256,
}  # fmt: skip


@unittest.skipUnless(
    importlib.util.find_spec("torch") and importlib.util.find_spec("transformers"),
    "needs torch and transformers",
)
class Named(unittest.TestCase):
    def setUp(self) -> None:
        self.own = tempfile.TemporaryDirectory()
        self.addCleanup(self.own.cleanup)
        before = os.environ.get("XDG_CACHE_HOME")
        os.environ["XDG_CACHE_HOME"] = self.own.name
        self.addCleanup(
            lambda: os.environ.pop("XDG_CACHE_HOME")
            if before is None
            else os.environ.update(XDG_CACHE_HOME=before)
        )

    def folder(self, config: dict[str, object]) -> str:
        (Path(self.own.name) / "config.json").write_text(json.dumps(config))
        return self.own.name

    def test_a_folder_is_its_own_class_with_all_of_its_parameters(self) -> None:
        import transformers

        for config, tokens in ((VIT, 0), (T5, 32)):
            kind, name = config["model_type"], config["architectures"][0]  # type: ignore[index]
            with self.subTest(kind):
                found = rehearse_sim.capture_named(self.folder(config), sequence=tokens)
                self.assertIn(name, found.note)
                self.assertFalse(found.cached)
                settings = {key: value for key, value in config.items() if key not in ("model_type", "architectures")}
                module = getattr(transformers, name)(transformers.CONFIG_MAPPING[kind](**settings))
                predicted = rehearse_sim.predict({
                    "model": {"captured": str(found.path), "batch_per_gpu": 4},
                    "cluster": {"use": "dgx_h100"}, "strategy": {"ddp": {}}, "optimizer": {"adamw": {}},
                })  # fmt: skip
                parameters = sum(each.numel() for each in module.parameters())
                self.assertEqual(predicted["architecture.parameters"], parameters)

    def test_the_same_question_is_in_the_cache_and_another_is_not(self) -> None:
        name = self.folder(VIT)
        first, again = rehearse_sim.capture_named(name), rehearse_sim.capture_named(name)
        self.assertTrue(again.cached)
        self.assertEqual((first.path, first.note), (again.path, again.note))
        self.assertFalse(rehearse_sim.capture_named(name, precision="fp32").cached)

    def test_ranks_are_one_number_or_several_also_of_tied_embeddings(self) -> None:
        tied = self.folder({**TINY, "tie_word_embeddings": True})
        one = rehearse_sim.capture_named(tied, tensor_parallel=2)
        several = rehearse_sim.capture_named(tied, tensor_parallel=[2])
        self.assertEqual((one.path, several.cached), (several.path, True))
        self.assertTrue(one.path.with_name(one.path.name.replace(".model", ".tp2.model")).exists())

    def test_sizes_below_one_are_no_sizes(self) -> None:
        for wrong in ({"sequence": -1}, {"batch": -1}):
            with self.subTest(wrong), self.assertRaisesRegex(ValueError, "1 or more, not -1"):
                rehearse_sim.capture_named(self.folder(TINY), **wrong)

    def test_a_name_that_nobody_has_says_why(self) -> None:
        for name, words in (
            ("keras:resnet", "no library 'keras'"),
            ("/nowhere/at/all", "neither a file nor a config of the hub"),
            (self.folder({"model_type": "nonsense"}), "has no model_type 'nonsense'"),
        ):
            with self.subTest(name), self.assertRaisesRegex(rehearse_sim.UnknownNetwork, words):
                rehearse_sim.capture_named(name)


if __name__ == "__main__":
    unittest.main()
