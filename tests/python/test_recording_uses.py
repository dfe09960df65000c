"""What else takes a record's scenario: kernels, and plans over layouts."""

from __future__ import annotations

import csv
import json
import unittest
from typing import Any

import support
import test_recording

from rehearse_sim import program
from rehearse_sim.errors import RehearseError
from rehearse_sim.recording import parts

PLAN = """description: whose sharding suits a record
scenario: out/scenario.yaml
search: {strategies: [ddp, zero, fsdp2], options: [sharding]}
constraints: {memory: fits}
objective: throughput
"""


class Uses(unittest.TestCase):
    """Two hosts of the testbed, unpacked and analysed as for the tests of records."""

    def setUp(self) -> None:
        self.record = test_recording.Recorded("setUp")
        self.record.setUp()
        self.addCleanup(self.record.doCleanups)
        self.out, self.folder = self.record.out, self.record.folder

    def test_kernels_of_a_record_are_those_of_its_table(self) -> None:
        scenario = str(self.out / "scenario.yaml")
        told = json.loads(program.run(["explain", "--kernels", scenario, "--format", "json"]))
        with (self.out / "kernels.csv").open(newline="") as file:
            rows = [row for row in csv.DictReader(file) if row["phase"] != "optimizer"]
        whole = sum(float(row["time_us_in_a_step"]) for row in rows)
        self.assertAlmostEqual(told["time_s"], 1e-6 * whole, delta=1e-9)
        self.assertEqual(told["calls"], sum(float(row["in_a_step"]) for row in rows))
        first = told["kernels"][0]
        self.assertEqual((first["op"], first["pass"], first["ground"]), ("mm", "backward", "measured"))
        self.assertEqual(first["reads"], ["fp32[1024,1024]", "fp32[1024,256]"])
        with self.assertRaises(RehearseError) as refused:
            program.run(["explain", "--kernels", scenario, "--set", "model.batch_per_gpu=8"])
        self.assertIn("kernels were recorded at a batch of 16; got 8", str(refused.exception))

    def test_a_plan_compares_layouts_of_a_record(self) -> None:
        plan = self.folder / "plan.yaml"
        plan.write_text(PLAN)
        told = json.loads(program.run(["plan", str(plan), "--output", str(self.folder / "plan"),
                                       "--format", "json", "--quiet"]))  # fmt: skip
        ways = [next(iter(each["scenario_overrides"]["strategy"])) for each in told["ranking"]]
        self.assertEqual(set(ways), {"ddp", "zero", "fsdp2"})
        # Gathers over 200 Mbit/s cost more than the sums of gradients alone.
        self.assertEqual(ways[0], "ddp")

    def test_tensor_ranks_run_shares_of_a_record(self) -> None:
        words = ["run", str(self.out / "scenario.yaml"), "--format", "json"]
        whole = json.loads(program.run(words))
        share = json.loads(program.run([*words, "--set", "strategy.tensor_parallel=2"]))

        def units(answer: dict[str, Any]) -> float:
            own = answer["compute"][0]["families"][0]
            return float(own["forward_s"] + own["backward_s"])

        # Half of all products; norms and sums are whole.
        self.assertLess(units(share), 0.62 * units(whole))
        self.assertGreater(units(share), 0.5 * units(whole))

        def wide(answer: dict[str, Any]) -> float:
            low, high = answer["step_time_interval_s"]
            return high / low

        self.assertGreater(wide(share), wide(whole))
        for change, told in (
            ("strategy.tensor_parallel=2 strategy.sequence_parallel=true",
             "a record does not tell which operators may have a part of the tokens each"),
            ("strategy.context_parallel=2", "which tells no shares by tokens or experts"),
            # This record is older than the look at activations.
            ("strategy.pipeline_parallel=2", "the profile does not say how large what its units hand on is"),
        ):  # fmt: skip
            sets = [word for each in change.split() for word in ("--set", each)]
            with self.assertRaises(RehearseError) as refused:
                program.run([*words, *sets])
            self.assertIn(told, str(refused.exception))


@unittest.skipUnless(support.has_program(), "the program is not built")
class Calibrated(unittest.TestCase):
    """What `calibrate` measured is shown by the page of records."""

    def test_steps_of_calibrate_are_shown_with_their_spread(self) -> None:
        file = support.ROOT / "tests/data/validation/recorded/ddp.json"
        told = json.loads(program.run(["measured", str(file), "--format", "json"]))
        ranks = json.loads(file.read_text())["per_rank"]
        whole = next(each for each in told["parts"] if each["kind"] == "step")
        mean = sum(each["step_time_s"]["median"] for each in ranks) / len(ranks)
        self.assertAlmostEqual(whole["time_s"], mean, delta=0.05 * mean)
        self.assertGreater(whole["spread"], 0)
        parts = {each["kind"]: each["time_s"] for each in told["parts"]}
        for kind in ("forward", "backward", "optimizer"):
            own = sum(each["phases"][f"{kind}_s"] for each in ranks) / len(ranks)
            self.assertAlmostEqual(parts[kind], own, delta=1e-12)
        fits = str(support.ROOT / "tests/data/kernels/one_core.yaml")
        with self.assertRaises(RehearseError) as refused:
            program.run(["measured", fits])
        self.assertIn("a fit of kernels holds no times", str(refused.exception))


class Parts(unittest.TestCase):
    """Calls of a part, as a profile has them."""

    def test_products_sums_and_heads_are_told_by_shapes(self) -> None:
        calls = [
            parts.Part("layer_norm", [[8, 64, 384], [], [384]], 1, 2),
            parts.Part("linear", [[8, 64, 384], [1152, 384], [1152]], 4, 8),
            parts.Part("scaled_dot_product_attention", [[8, 6, 64, 64]] * 3, 2, 4),
            parts.Part("add", [[8, 6, 64, 64], [8, 6, 64, 64]], 1, 0),
            parts.Part("addmm", [[384], [512, 384], [384, 384]], 1, 2),
            parts.Part("add", [[8, 64, 384], [8, 64, 384]], 1, 0),
        ]
        norm, first, attention, turned, second, add = parts.described_parts(calls, 8)
        self.assertEqual(norm, {"name": "layer_norm", "forward": 0.1, "backward": 0.125})
        self.assertEqual(first, {"name": "linear", "rows": 64, "inner": 384, "columns": 1152,
                                 "bias": True, "forward": 0.4, "backward": 0.5})  # fmt: skip
        self.assertEqual((attention["heads"], attention["kv_heads"]), (6, 6))
        self.assertNotIn("sum", turned)
        self.assertEqual((second["rows"], second["inner"], second["columns"]), (64, 384, 384))
        self.assertTrue(add["sum"])


if __name__ == "__main__":
    unittest.main()
