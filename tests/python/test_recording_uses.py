"""What else takes a record's scenario: kernels, and plans over layouts."""

from __future__ import annotations

import csv
import json
import unittest

import test_recording

from rehearse_sim import program
from rehearse_sim.errors import RehearseError

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


if __name__ == "__main__":
    unittest.main()
