"""Networks that nobody has built in: parameters, FLOPs and memory beside PyTorch's own counters."""

from __future__ import annotations

import json
import tempfile
import unittest
import weakref
from pathlib import Path
from typing import Any

import support

import rehearse_sim

if support.has("torch"):
    import networks
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_leaves
    from torch.utils.flop_counter import FlopCounterMode

    from rehearse_sim.capturing import cuda_rules

    class Live(TorchDispatchMode):
        """Bytes of storages that are alive, in pieces of 512, and the most of them."""

        def __init__(self) -> None:
            super().__init__()
            self.now = self.most = 0
            self.seen: set[int] = set()

        def own(self, tensor: torch.Tensor) -> None:
            storage = tensor.untyped_storage()
            key = storage._cdata
            if key in self.seen:
                return
            size = (storage.nbytes() + 511) // 512 * 512
            self.seen.add(key)
            self.now += size
            self.most = max(self.most, self.now)
            weakref.finalize(storage, self.gone, key, size)

        def gone(self, key: int, size: int) -> None:
            self.seen.discard(key)
            self.now -= size

        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            out = func(*args, **(kwargs or {}))
            for each in tree_leaves(out):
                if isinstance(each, torch.Tensor):
                    self.own(each)
            return out


BATCH, LENGTH = 4, 24
CUBLAS = 32 << 20  # its workspace on Hopper, which no tensor is


def tokens(batch: int) -> Any:
    return torch.zeros(batch, LENGTH, dtype=torch.long)


@support.needs("torch")
class Networks(unittest.TestCase):
    def setUp(self) -> None:
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = Path(scratch.name)

    def oracle(self, make: Any) -> tuple[int, float, float]:
        """Parameters, FLOPs of forward, and the most bytes: by PyTorch alone."""
        with FakeTensorMode(allow_non_fake_inputs=True), cuda_rules.as_on_cuda():
            with cuda_rules.building():
                module = make().train()
            batch, live = tokens(BATCH), Live()
            for each in (*module.parameters(), *module.buffers(), batch):
                live.own(each)
            with torch.autograd.set_multithreading_enabled(False), live:
                module(batch).backward()
            with FlopCounterMode(display=False) as counter:
                module(tokens(1))
            size = sum(each.numel() for each in module.parameters())
        return size, counter.get_total_flops(), live.most

    def compare(self, name: str, make: Any, uncounted: float = 0) -> None:
        """`uncounted`: FLOPs of operators that FlopCounterMode does not know."""
        captured = rehearse_sim.capture(
            make, tokens, name=name, path=self.folder / f"{name}.model.json"
        )
        parameters, flops, most = self.oracle(make)
        self.assertEqual(captured.parameters, parameters)
        found = rehearse_sim.predict({
            "model": {"captured": captured.path, "batch_per_gpu": BATCH},
            "cluster": {"use": "dgx_h100", "gpus_per_node": 1}, "strategy": {"ddp": {}},
            "optimizer": {"sgd": {}}, "run": {"jitter": "none"},
        })  # fmt: skip
        ratio = found["architecture.flops_forward"] / (flops + uncounted)
        self.assertAlmostEqual(ratio, 1, places=9)
        self.assertEqual(found["memory.allocated_peak_bytes"] - CUBLAS, most)

    def test_a_mamba_by_hand(self) -> None:
        self.compare("mamba", lambda: networks.Tokens([networks.MambaBlock(64) for _ in range(2)]))

    def test_an_rwkv_by_hand(self) -> None:
        self.compare("rwkv", lambda: networks.Tokens([networks.RwkvBlock(64) for _ in range(2)]))

    def test_an_lstm_of_tokens(self) -> None:
        gates, layers = 4 * 64 * (64 + 64), 2
        self.compare("lstm", networks.LstmTokens, 2.0 * gates * layers * LENGTH)

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
        AutoModel.from_config(config, trust_remote_code=True)  # its code is imported once, for real
        self.compare("own", lambda: AutoModel.from_config(config, trust_remote_code=True))


if __name__ == "__main__":
    unittest.main()
