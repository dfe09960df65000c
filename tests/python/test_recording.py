"""`rehearse record`: the command's own end, what the folder holds, and what `run` makes of it."""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import unittest
from pathlib import Path
from typing import Any

import support

from rehearse_sim import program
from rehearse_sim.program import assignments
from rehearse_sim.recording import command, measure, rank_steps, statistic, strip, trace

RECORDED = support.ROOT / "tests" / "record" / "two_hosts.tar.xz"
SCRIPTS = support.ROOT / "tests" / "record" / "scripts"
START = [sys.executable, str(support.ROOT / "python" / "rehearse_sim" / "recording"), "record"]
SHORT = ["--warmup", "2", "--timed", "4", "--steps", "4"]
SMALL = {"OMP_NUM_THREADS": "1", "WIDTH": "32", "LAYERS": "2", "STEPS": "20"}


# A hook of the user's own, and a failure of torch's profiler: of names that begin so, or of it all.
BROKEN = """
from torch.optim.optimizer import register_optimizer_step_post_hook
note = torch.profiler.record_function
seen = []
register_optimizer_step_post_hook(lambda *_: seen.append(1))
def fails(*args, **given):
    raise RuntimeError("broken: " + (how if how == "profiler" else args[0]))
if how == "profiler":
    torch.profiler.profile = fails
else:
    torch.profiler.record_function = lambda name: (fails if name.startswith(how) else note)(name)
sys.argv = [sys.argv[1], "crash"]
sys.path.insert(0, sys.argv[0].rpartition("/")[0])
try:
    runpy.run_path(sys.argv[0], run_name="__main__")
finally:
    print(len(seen), "steps")
"""


def step_of(folder: Path, changes: dict[str, Any] | None = None) -> float:
    """Seconds that `run` predicts of a folder's scenario."""
    made, trouble = command.simulate(folder, *assignments(changes or {}))
    assert not trouble, trouble
    return made


class Scratch(unittest.TestCase):
    def setUp(self) -> None:
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = Path(scratch.name)
        self.out = self.folder / "out"

    def record(
        self, *words: str, options: list[str] | None = None, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        own = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | environment
        return subprocess.run(
            [*START, "--out", str(self.out), *(options or []), "--", *words],
            capture_output=True, text=True, env=own, cwd=self.folder, check=False,
        )  # fmt: skip

    def summary(self) -> str:
        return (self.out / "record.yaml").read_text()


@unittest.skipUnless(support.has_program(), "the program is not built")
class Recorded(Scratch):
    """Two hosts of the testbed at 200 Mbit/s, as tests/record/hosts recorded them."""

    def setUp(self) -> None:
        super().setUp()
        with tarfile.open(RECORDED) as packed:
            if hasattr(tarfile, "data_filter"):
                packed.extractall(self.out, filter="data")
            else:
                packed.extractall(self.out)
        self.assertTrue(command.analyse(self.out, quiet=True))

    def test_the_run_that_was_recorded_is_within_5_percent(self) -> None:
        ranks = measure.read_ranks(self.out)
        plain = rank_steps.plain_steps(ranks[0])
        step = statistic.median([each[measure.END] - each[measure.BEGIN] for each in plain])
        self.assertAlmostEqual(step_of(self.out), step, delta=0.05 * step)

    def test_other_hosts_rates_batches_and_buckets_are_near_what_was_measured(self) -> None:
        # Medians of real runs of the same script (tests/record/hosts), 2026-11-29.
        rate = float(re.search(r"nic: ([\d.]+)GBps", (self.out / "cluster.yaml").read_text())[1])  # type: ignore[index]
        for measured, changes in (
            (0.7335, {"cluster.nodes": 3}),
            (0.8764, {"cluster.nodes": 4}),
            (1.2561, {"cluster.nic": f"{rate * 67 / 200}GBps"}),
            (0.2904, {"cluster.nic": f"{rate * 3}GBps"}),
            (0.4416, {"model.batch_per_gpu": 8}),
            (0.6825, {"model.batch_per_gpu": 32}),
            (0.4803, {"strategy.ddp.bucket_cap_mb": 1, "strategy.ddp.first_bucket_mb": 1}),
        ):
            with self.subTest(**{str(k): v for k, v in changes.items()}):
                made = step_of(self.out, changes)
                self.assertAlmostEqual(made, measured, delta=0.1 * measured)

    def test_what_a_step_is_made_of_adds_up_to_it(self) -> None:
        ranks = measure.read_ranks(self.out)
        loaded, _ = command.load_traces(self.out, ranks)
        for one in ranks:
            reader = trace.Reader(loaded[one["rank"]], one["event_cost"])
            for step in reader.steps():
                parts = step.compute + step.exposed + step.loader + step.copies
                parts += step.probe * step.events
                self.assertAlmostEqual(parts, step.length, delta=0.01 * step.length)

    def test_parameters_are_the_networks(self) -> None:
        found, own = command.measured(self.out)
        self.assertEqual(sum(sum(unit.tensors) for unit in found.units), own["model"]["trained"])
        self.assertEqual([unit.name for unit in found.units][1:3], ["layers.0", "layers.1"])
        self.assertEqual((found.batch, found.sequence, found.nodes, found.world), (16, 64, 2, 2))
        self.assertEqual(found.optimizer_kind, "adamw")

    def test_what_was_measured_is_one_document_and_a_slower_part_of_another_is_named(self) -> None:
        told = json.loads(program.run(["measured", str(self.out), "--format", "json"]))
        own = {(each["kind"], each["name"]): each for each in told["parts"]}
        found, _ = command.measured(self.out)
        self.assertAlmostEqual(own["step", "the whole step"]["time_s"], found.step, delta=1e-5 * found.step)
        for unit in found.units:
            for way in ("forward", "backward"):
                part = own[f"unit {way}", unit.name]
                self.assertAlmostEqual(part["time_s"], getattr(unit, way), delta=1e-5)
                self.assertAlmostEqual(part["spread"], getattr(unit, f"{way}_spread"), delta=1e-4)
        slower = self.folder / "slower"
        shutil.copytree(self.out, slower)
        text = (slower / "record.yaml").read_text()
        first = re.search(r"what: all_reduce, size: (\d+)B, ranks: 2, time: ([\d.]+)us", text)
        assert first
        taken = float(first[2])
        late = first[0].replace(f"time: {first[2]}us", f"time: {9 * taken}us")
        (slower / "record.yaml").write_text(text.replace(first[0], late))
        both = json.loads(program.run(["compare", str(self.out), str(slower), "--format", "json"]))
        moved = [each for each in both["changes"] if each["beyond_spread"]]
        self.assertEqual([each["kind"] for each in moved], ["collective"])
        self.assertAlmostEqual(moved[0]["change_s"], 8e-6 * taken, delta=1e-8)

    def test_a_record_may_hold_words_of_other_formats(self) -> None:
        place = self.out / "record.yaml"
        place.write_text(place.read_text() + "own: {distributed_type: MULTI_CPU, "
                         "per_device_train_batch_size: 8}\n")  # fmt: skip
        told = json.loads(program.run(["measured", str(self.out), "--format", "json"]))
        self.assertIn("step", [each["kind"] for each in told["parts"]])

    def test_the_folder_names_no_path_and_no_host(self) -> None:
        for file in self.out.iterdir():
            text = gzip.open(file, "rt").read() if file.suffix == ".gz" else file.read_text()
            for word in ("/root", "/home", "/tmp", "/usr", ".py", os.uname().nodename + '"'):
                self.assertNotIn(word, text, file.name)

    def test_a_second_record_gives_its_batch_and_another_network_is_refused(self) -> None:
        second = self.folder / "second"
        shutil.copytree(self.out, second)
        for file in second.glob("rank_*.json"):
            file.write_text(file.read_text().replace('["int64", 16, 64]', '["int64", 8, 64]'))
        before = json.loads(program.run(["measured", str(self.out), "--format", "json"]))
        self.assertEqual(self.append(second)[0], 0)
        profile = (self.out / "profile.yaml").read_text()
        self.assertEqual(re.findall(r"- batch: (\d+)", profile), ["8", "16"])
        # What is shown stays the first record's own, beside its own step.
        told = json.loads(program.run(["measured", str(self.out), "--format", "json"]))
        self.assertEqual(told["parts"], before["parts"])
        self.assertEqual(told["batch"], 16)
        self.assertIn("joined: [{batch_per_rank: 8, ranks: 2, nodes: 2, step: ", self.summary())
        # Neither itself, nor the same run or batch again, nor another network, nor no record.
        self.assertEqual(self.append(second), (2, f"{second}: error: {self.out} holds this very run"))
        self.assertEqual(self.append(self.out)[0], 2)
        for file in second.glob("rank_*.json"):
            file.write_text(file.read_text().replace('"own_seconds": ', '"own_seconds": 1'))
        self.assertEqual(self.append(second), (
            2, f"{second}: error: {self.out} has its batch and its ranks: it tells nothing new"))  # fmt: skip
        for file in second.glob("rank_*.json"):
            file.write_text(file.read_text().replace('"layers.1"', '"other.1"'))
        self.assertEqual(self.append(second), (
            2, f"{second}: error: it is of another network than {self.out}"))  # fmt: skip
        none = self.folder / "none"
        self.assertEqual(self.append(none), (2, f"{none}: error: No such file or directory"))
        none.mkdir()
        self.assertEqual(self.append(none), (2, f"{none}: error: it holds no record"))
        self.assertEqual(len(list((self.out / "joined").iterdir())), 1)

    def append(self, second: Path) -> tuple[int, str]:
        """How `import record --append` ends, and the first line that it says."""
        done = subprocess.run([*START[:2], "import", "record", str(second), "--append", str(self.out)],
                              capture_output=True, text=True, check=False)  # fmt: skip
        return done.returncode, done.stderr.partition("\n")[0]

    def test_a_trace_that_was_cut_off_is_told(self) -> None:
        for file in self.out.glob("trace_rank_*.json.gz"):
            (self.out / f"rank_{file.name[11:-8]}.raw.json").write_text('{"traceEvents": [{"ph"')
            file.unlink()
        self.assertFalse(command.analyse(self.out, quiet=True))
        self.assertIn("the trace of rank 0 cannot be read: it was cut off", self.summary())
        self.assertEqual(list(self.out.glob("*.raw.json")), [])

    def test_texts_of_the_user_are_stripped(self) -> None:
        event = {"ph": "X", "cat": "user_annotation", "ts": 1, "dur": 1, "tid": 1, "pid": 7,
                 "name": "secret phase", "args": {"Call stack": "/home/me/train.py(3)"}}  # fmt: skip
        made = json.dumps(strip.stripped({"traceEvents": [event], "host_name": "me"}))
        for word in ("secret", "me/train", "host_name"):
            self.assertNotIn(word, made)


class Commands(Scratch):
    """Commands without torch: they end as they would."""

    def test_exit_codes_are_the_commands_own(self) -> None:
        self.assertEqual(self.record("true").returncode, 0)
        self.assertEqual(self.record("sh", "-c", "exit 7").returncode, 7)
        self.assertEqual(self.record("sh", "-c", "kill -9 $$").returncode, 128 + signal.SIGKILL)
        self.assertEqual(self.record("no-such-command").returncode, 127)

    def test_a_folder_without_a_step_says_so(self) -> None:
        done = self.record(sys.executable, "-c", "print('mine')")
        self.assertEqual((done.returncode, done.stdout), (0, "mine\n"))
        self.assertIn(
            "no process of the run called backward() or an optimizer of torch.optim", done.stderr
        )
        self.assertIn('state: "nothing to simulate"', self.summary())

    def test_a_run_without_python_says_what_still_works(self) -> None:
        for words in (["sh", "-c", "exit 3"], [sys.executable, "-I", "-c", "raise SystemExit(3)"]):
            done = self.record(*words)
            self.assertEqual(done.returncode, 3)
            self.assertIn("without Python, and with python -I, a run is not seen", done.stderr)
            self.assertIn("rehearse import log LOG", done.stderr)

    def test_wrong_words_end_with_2_before_the_command_starts(self) -> None:
        for words, told in (
            (["record"], "record: the command is missing"),
            (
                ["record", "--steps", "many", "--", "true"],
                '--steps: expected 1 to 10000; got "many"',
            ),
            (["record", "--ranks", "a", "--", "true"], "expected numbers such as 0,8, or all"),
            (["record", "--fast", "--", "true"], 'unknown option "--fast"'),
            (
                ["record", "python", "x.py"],
                'the command stands behind "--"; got "python" before it',
            ),
        ):
            done = subprocess.run([*START[:2], *words], capture_output=True, text=True,
                                  cwd=self.folder, check=False)  # fmt: skip
            self.assertEqual(done.returncode, 2)
            self.assertIn(told, done.stderr)
            self.assertIn("remedy: ", done.stderr)

    def test_the_environments_own_sitecustomize_runs(self) -> None:
        (self.folder / "sitecustomize.py").write_text("import builtins\nbuiltins.mine = 5\n")
        done = self.record(sys.executable, "-c", "print(mine, __import__('sys').path)",
                           PYTHONPATH=str(self.folder))  # fmt: skip
        self.assertTrue(done.stdout.startswith("5 "), done.stderr)
        self.assertNotIn("recording/hook", done.stdout)

    def test_an_agent_that_fails_does_not_reach_the_run(self) -> None:
        (self.folder / "torch.py").write_text("word = 'theirs'\n")  # no torch at all
        done = self.record(sys.executable, "-c", "import torch; print(torch.word)",
                           PYTHONPATH=str(self.folder))  # fmt: skip
        self.assertEqual((done.returncode, done.stdout), (0, "theirs\n"))


@support.needs("torch")
@unittest.skipUnless(support.has_program(), "the program is not built")
class Real(Scratch):
    """Real steps on this machine, whose times are nobody's claim here: tests/record/real has them."""

    def run_script(
        self, *words: str, options: list[str] = SHORT, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        return self.record(sys.executable, str(SCRIPTS / words[0]), *words[1:], options=options,
                           **(SMALL | environment))  # fmt: skip

    def test_a_script_is_recorded_and_runs(self) -> None:
        done = self.run_script("plain.py")
        self.assertEqual((done.returncode, done.stdout), (0, "done\n"), done.stderr)
        self.assertGreater(step_of(self.out), 0)
        self.assertIn("sgd_momentum", (self.out / "scenario.yaml").read_text())

    def test_ranks_that_torch_forks_are_seen(self) -> None:
        done = self.run_script("forked.py", str(self.folder / "meet"))
        self.assertEqual((done.returncode, done.stdout), (0, "done\n"), done.stderr)
        self.assertEqual(len(list(self.out.glob("rank_*.json"))), 2)
        self.assertIn("ddp: {bucket_cap_mb: 25", (self.out / "scenario.yaml").read_text())

    def test_a_crash_and_a_kill_keep_their_codes_and_what_was_seen(self) -> None:
        self.assertEqual(self.run_script("plain.py", "crash").returncode, 7)
        self.assertTrue((self.out / "scenario.yaml").exists())
        self.assertEqual(self.run_script("plain.py", "kill").returncode, 137)
        self.assertTrue((self.out / "scenario.yaml").exists())

    def test_steps_without_an_optimizer_are_told_by_backward_passes(self) -> None:
        self.assertEqual(
            self.run_script("by_hand.py", options=[*SHORT, "--steps", "1"]).returncode, 0
        )
        self.assertIn("none of torch.optim took a step", self.summary())
        self.assertEqual(self.run_script("by_hand.py", "inference").returncode, 0)
        self.assertIn("no process of the run called backward() or an optimizer of torch.optim", self.summary())

    def test_a_run_that_is_too_short_says_how_to_record_it(self) -> None:
        done = self.run_script("plain.py", options=[], STEPS="15")
        self.assertEqual(done.returncode, 0)
        self.assertIn(
            "the run ended after 15 steps, before any was profiled", done.stderr + self.summary()
        )
        self.assertIn("--warmup 2 --timed 4 --steps 4", done.stderr)

    def broken(self, how: str) -> subprocess.CompletedProcess[str]:
        """A script that ends with 7, with a hook of its own, in a torch that `how` breaks."""
        text = f"import runpy, sys, torch\nhow = {how!r}\n" + BROKEN
        return self.record(sys.executable, "-c", text, str(SCRIPTS / "plain.py"), options=SHORT, **SMALL)

    def test_an_agent_that_fails_in_an_optimizers_hook_leaves_the_run_its_code(self) -> None:
        done = self.broken("ProfilerStep")
        self.assertEqual((done.returncode, done.stdout), (7, "19 steps\n"), done.stderr)
        self.assertIn('why: "RuntimeError: broken: ProfilerStep#', self.summary())
        self.assertRegex(self.summary(), r"step: {time: \d")

    def test_a_name_that_cannot_be_noted_leaves_the_run_alone(self) -> None:
        done = self.broken("rehearse.")
        self.assertEqual((done.returncode, done.stdout), (7, "19 steps\n"), done.stderr)

    def test_without_kineto_the_step_is_timed_and_what_is_lost_is_told(self) -> None:
        done = self.broken("profiler")
        self.assertEqual((done.returncode, done.stdout), (7, "19 steps\n"), done.stderr)
        told = "torch.profiler does not start (broken: profiler): the step's time, its batch, groups"
        self.assertIn(f"no scenario: {told}", done.stderr)
        self.assertRegex(done.stderr, r"record: a step takes [\d.]+(us|s); model.measured takes")
        self.assertIn("state: ended, steps: 19", self.summary())

    def test_a_folder_that_becomes_full_leaves_the_run_alone(self) -> None:
        room = self.folder / "room"
        room.mkdir()
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=60k", "none", str(room)],
                                 capture_output=True, check=False)  # fmt: skip
        if mounted.returncode != 0:
            self.skipTest("a small file system takes root")
        self.addCleanup(subprocess.run, ["umount", str(room)], check=False)
        self.out = room / "out"
        done = self.run_script("plain.py")
        self.assertEqual((done.returncode, done.stdout), (0, "done\n"))
        self.assertIn('state: "nothing to simulate"', self.summary())
        self.assertIn("the folder was full", self.summary())


if __name__ == "__main__":
    unittest.main()
