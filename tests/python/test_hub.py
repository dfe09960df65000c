"""Configs of the hub: what transformers fetches from a stand-in for the hub on this machine."""

from __future__ import annotations

import http.server
import json
import os
import subprocess
import sys
import tempfile
import threading
import unittest
from typing import Any

import support

CONFIG = json.dumps({
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 256,
    "intermediate_size": 512, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "vocab_size": 1000, "max_position_embeddings": 512,
}).encode()  # fmt: skip
ASK = """
import rehearse_sim, sys
try:
    p = rehearse_sim.predict({
        "model": {"hf": sys.argv[1], "batch_per_gpu": 1, "sequence": 128},
        "cluster": {"use": "dgx_h100"}, "strategy": {"ddp": {}}, "optimizer": {"adamw": {}}})
    print(p["architecture.parameters"])
except rehearse_sim.InputError as error:
    print(error.message, "|", error.remedy)
"""


class Hub(http.server.BaseHTTPRequestHandler):
    """Has one file of one model."""

    asked = 0

    def answer(self) -> None:
        found = self.path.startswith("/own/llama/resolve/main/config.json")
        self.send_response(200 if found else 404)
        if found:
            for key, value in (("ETag", '"1"'), ("X-Repo-Commit", "0" * 40),
                               ("Content-Length", str(len(CONFIG)))):  # fmt: skip
                self.send_header(key, value)
        else:
            self.send_header("X-Error-Code", "RepoNotFound")
        self.end_headers()
        if found and self.command == "GET":
            type(self).asked += 1
            self.wfile.write(CONFIG)

    do_GET = do_HEAD = answer

    def log_message(self, *_: Any) -> None:
        """Says nothing."""


@support.needs("transformers")
class Fetches(unittest.TestCase):
    def setUp(self) -> None:
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hub)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.addCleanup(self.server.server_close)
        self.addCleanup(self.server.shutdown)
        cache = tempfile.TemporaryDirectory()
        self.addCleanup(cache.cleanup)
        self.environment = {
            **os.environ, "HF_HOME": cache.name, "HF_HUB_DISABLE_XET": "1", "HF_HUB_OFFLINE": "0",
            "HF_ENDPOINT": f"http://127.0.0.1:{self.server.server_port}",
            "PYTHONPATH": os.pathsep.join(sys.path),
        }  # fmt: skip
        for proxy in ("http_proxy", "HTTP_PROXY", "ALL_PROXY", "all_proxy"):
            self.environment.pop(proxy, None)

    def ask(self, model: str) -> str:
        done = subprocess.run([sys.executable, "-c", ASK, model], env=self.environment,
                              capture_output=True, text=True, timeout=300)  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.strip()

    def test_a_config_is_fetched_once_and_stays(self) -> None:
        first = self.ask("own/llama")
        self.assertGreater(int(first), 256 * 1000)
        asked = Hub.asked
        self.assertGreater(asked, 0)
        self.assertEqual(self.ask("own/llama"), first)
        self.assertEqual(Hub.asked, asked)

    def test_a_model_that_the_hub_lacks_is_told_as_before(self) -> None:
        told = "and the hub's cache has no own/none | hf download own/none config.json"
        self.assertIn(told, self.ask("own/none"))


if __name__ == "__main__":
    unittest.main()
