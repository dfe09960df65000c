"""Recorded runs that are killed: their own exit codes, and a folder that says what it holds."""

from __future__ import annotations

import os
import subprocess
import sys
import unittest

import support
from test_recording import SCRIPTS, SHORT, SMALL, Scratch

TWO = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
# The last steps of a script are profiled ones.
IN_THE_TRACE = ["--warmup", "2", "--timed", "4", "--steps", "400"]


@support.needs("torch")
@unittest.skipUnless(support.has_program(), "the program is not built")
class Killed(Scratch):
    def run_script(self, *words: str, options: list[str]) -> subprocess.CompletedProcess[str]:
        return self.record(sys.executable, *words, options=options, **SMALL)

    def test_a_kill_while_it_is_profiled_leaves_the_steps_before(self) -> None:
        done = self.run_script(str(SCRIPTS / "plain.py"), "kill", options=IN_THE_TRACE)
        self.assertEqual(done.returncode, 137)
        told = "signal 9 ended the run behind step 6, before its trace was written"
        self.assertIn(f"no scenario: {told}", done.stderr)
        self.assertIn(told, self.summary())
        self.assertIn("state: timed, steps: 6", self.summary())
        self.assertFalse((self.out / "scenario.yaml").exists())

    def test_a_rank_that_dies_behind_the_trace_leaves_a_scenario(self) -> None:
        script = str(SCRIPTS / "killed.py")
        plain = subprocess.run([sys.executable, *TWO, script], capture_output=True, check=False,
                               env={**os.environ, **SMALL}, cwd=self.folder)  # fmt: skip
        done = self.run_script(*TWO, script, options=SHORT)
        self.assertEqual(done.returncode, plain.returncode, done.stderr)
        self.assertNotEqual(done.returncode, 0)
        self.assertTrue((self.out / "scenario.yaml").exists(), done.stderr)

    def test_a_rank_that_dies_while_it_is_profiled_is_told(self) -> None:
        done = self.run_script(*TWO, str(SCRIPTS / "killed.py"), options=IN_THE_TRACE)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn('state: "nothing to simulate"', self.summary())
        self.assertIn("behind step 6", self.summary())


if __name__ == "__main__":
    unittest.main()
