"""rehearse_sim's functions against the program itself."""

from __future__ import annotations

import doctest
import json
import os
import pickle
import signal
import sys
import tempfile
import types
import unittest
import uuid
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any
from unittest import mock

import support
from support import MANY, PLAN, ROOT, SCENARIOS, STUDY, TOY

import rehearse_sim
from rehearse_sim import errors, program, questions, spread, tables


class Questions(unittest.TestCase):
    def test_a_prediction_is_what_the_program_prints(self) -> None:
        file = SCENARIOS / "toy_ddp.yaml"
        printed = json.loads(program.run(["run", str(file), "--format", "json", "--quiet"]))
        found = rehearse_sim.predict(file)
        self.assertEqual(found.to_dict(), printed)
        self.assertEqual(found.step_time_s, printed["step_time_s"])
        self.assertEqual(found["breakdown.compute_s"], found.breakdown.compute_s)
        self.assertIn("step time", found._repr_html_())

    def test_a_step_of_post_training_has_phases(self) -> None:
        found = rehearse_sim.predict(ROOT / "scenarios/post_training/grpo_llama_8b.yaml")
        assert isinstance(found, rehearse_sim.RlPrediction)
        self.assertAlmostEqual(sum(found.phases.values()), found.step_time_s)
        assert found.interval and found.memory and found.memory.capacity_bytes
        self.assertLess(found.interval[0], found.step_time_s)
        self.assertLess(found.memory.used_bytes, found.memory.capacity_bytes)
        self.assertIn("a step of grpo", repr(found))
        with self.assertRaises(rehearse_sim.InputError):
            found.breakdown
        with self.assertRaises(rehearse_sim.InputError):
            rehearse_sim.predict_many([TOY], errors="raised")  # type: ignore[call-overload]

    def test_a_map_is_a_scenario_and_keywords_change_it(self) -> None:
        one = rehearse_sim.predict(TOY, cluster__nodes=2)
        two = rehearse_sim.predict({**TOY, "cluster": {"use": "dgx_h100", "nodes": 2}})
        self.assertEqual(one["ranks"], 16)
        self.assertEqual(one.step_time_s, two.step_time_s)

    def test_a_mistake_has_its_place_and_its_remedy(self) -> None:
        file = ROOT / "tests/data/ddp_unknown_key.yaml"
        with self.assertRaises(rehearse_sim.InputError) as caught:
            rehearse_sim.predict(file)
        self.assertEqual((caught.exception.line, caught.exception.column), (11, 18))
        self.assertEqual(caught.exception.remedy, 'did you mean "bucket_cap_mb"?')
        again = pickle.loads(pickle.dumps(caught.exception))
        self.assertEqual(again.mistakes, caught.exception.mistakes)
        with self.assertRaises(rehearse_sim.MissingError):
            rehearse_sim.predict("no_such_file.yaml")

    def test_one_text_in_the_place_of_a_list_is_an_error(self) -> None:
        for call in (rehearse_sim.predict_many, rehearse_sim.forecast, rehearse_sim.validate):
            with self.subTest(call.__name__), self.assertRaises(rehearse_sim.InputError) as caught:
                call("toy_ddp.yaml")
            self.assertIn("takes a list; got 'toy_ddp.yaml'", caught.exception.message)
            self.assertEqual(caught.exception.remedy, "put it into one: [...]")

    def test_a_number_in_the_place_of_a_folder_or_a_file_is_an_error(self) -> None:
        calls = {
            "`output` is the folder of results; got 3": [
                lambda: rehearse_sim.plan(PLAN, output=3),  # type: ignore[arg-type]
                lambda: rehearse_sim.sweep(STUDY, output=3),  # type: ignore[call-overload]
            ],
            "a question is a file's name or a map; got 3": [
                lambda: rehearse_sim.predict(3),  # type: ignore[arg-type]
                lambda: rehearse_sim.plan([1, 2]),  # type: ignore[arg-type]
            ],
        }
        for said, wrong in calls.items():
            for call in wrong:
                with self.assertRaises(rehearse_sim.InputError) as caught:
                    call()
                self.assertIn(said.partition(";")[0], caught.exception.message)
                self.assertTrue(caught.exception.remedy)

    def test_numbers_of_other_packages_are_numbers(self) -> None:
        class Whole:
            def __index__(self) -> int:
                return 2

        class Real:
            def __float__(self) -> float:
                return 0.5

        self.assertEqual(program.assignments({"a": Whole(), "b": [Real()]}),
                         ["--set", "a=2", "--set", "b=[0.5]"])  # fmt: skip
        cluster = {"use": "dgx_h100", "nodes": Whole()}
        self.assertEqual(rehearse_sim.predict({**TOY, "cluster": cluster})["ranks"], 16)
        try:
            import numpy
        except ImportError:
            return
        words = program.assignments({"a": numpy.int64(2), "b": numpy.arange(2), "c": numpy.bool_(1)})
        self.assertEqual(words[1::2], ["a=2", "b=[0, 1]", "c=true"])

    def test_what_no_file_holds_is_an_input_error(self) -> None:
        itself: dict[str, Any] = {}
        itself["model"] = itself
        for wrong in (itself, {"model": {1, 2}}, {"model": b"bytes"}, {"model": object()}):
            with self.subTest(wrong=repr(wrong)), self.assertRaises(rehearse_sim.InputError):
                rehearse_sim.predict(wrong)

    def test_a_name_that_begins_with_a_dash_is_a_file(self) -> None:
        with self.assertRaises(rehearse_sim.MissingError) as caught:
            rehearse_sim.predict("--help")
        self.assertEqual(caught.exception.file, "./--help")
        for command in (rehearse_sim.forecast, rehearse_sim.validate):
            with self.assertRaises(rehearse_sim.RehearseError):
                command(["--help"])

    def test_a_wrong_program_is_missing(self) -> None:
        for wrong in ("/nonexistent", str(ROOT), str(ROOT / "README.md")):
            with mock.patch.dict(os.environ, REHEARSE=wrong):
                with self.assertRaises(rehearse_sim.MissingError) as caught:
                    rehearse_sim.predict(TOY)
                self.assertIn(wrong, str(caught.exception))

    def test_check_says_all_mistakes(self) -> None:
        self.assertEqual(rehearse_sim.check(SCENARIOS / "toy_ddp.yaml", TOY), [])
        self.assertGreater(len(rehearse_sim.check(ROOT / "tests/data/six_mistakes.yaml")), 1)

    def test_a_sweep_is_a_row_for_each_point(self) -> None:
        rows = rehearse_sim.sweep(STUDY, kind="rows")
        self.assertEqual(len(rows), 20)
        self.assertEqual(rows[0]["cluster.nodes"], 1)
        self.assertGreater(rows[0]["step_time_s"], 0)

    def test_explain_and_plan_answer(self) -> None:
        answer = rehearse_sim.explain(SCENARIOS / "toy_ddp.yaml", more="25%")
        self.assertEqual(answer["schema"], "rehearse.explain/1")
        plan = {"description": "toy", "scenario": TOY, "vary": {"cluster.nodes": [1, 2]},
                "objective": "throughput"}  # fmt: skip
        self.assertTrue(rehearse_sim.plan(plan)["schema"].startswith("rehearse.plan/"))

    def test_points_that_fail_are_rows_with_their_error(self) -> None:
        study = {**STUDY, "vary": {"cluster.nodes": [1, 0, 2]}}
        rows = rehearse_sim.sweep(study, kind="rows")
        self.assertEqual([row["error"] is None for row in rows], [True, False, True])
        with ProcessPoolExecutor(2) as pool:
            shared = rehearse_sim.sweep(study, kind="rows", executor=pool, tasks=3)
        self.assertEqual(shared, rows)

    def test_every_answer_begins_with_its_sentences(self) -> None:
        found = rehearse_sim.predict(SCENARIOS / "toy_ddp.yaml")
        self.assertTrue(found.answer.startswith("Fits ("), found.answer)
        self.assertIn(found.answer, repr(found))
        self.assertTrue(found._repr_html_().startswith("<p><strong>Fits ("))

    def test_compare_says_what_differs_and_why(self) -> None:
        both = rehearse_sim.compare(TOY, {**TOY, "strategy": {"fsdp": {}}})
        self.assertTrue(both.answer.startswith("B trains "), both.answer)
        self.assertEqual(both["errors"], "common")
        self.assertIn("strategy.fsdp", [one["key"] for one in both["inputs"]])

    def test_many_predictions_run_side_by_side_in_order(self) -> None:
        scenarios = [{**TOY, "cluster": {"use": "dgx_h100", "nodes": 1 + i % 3}} for i in range(12)]
        found = rehearse_sim.predict_many(scenarios, jobs=4)
        self.assertEqual([each["nodes"] for each in found], [1 + i % 3 for i in range(12)])

    def test_one_wrong_scenario_among_many_loses_no_other(self) -> None:
        scenarios = [TOY, {**TOY, "model": {"use": "nobody"}}, TOY]
        first, wrong, last = rehearse_sim.predict_many(scenarios, errors="return", jobs=2)
        self.assertEqual(first["ranks"], last["ranks"])
        self.assertIsInstance(wrong, rehearse_sim.InputError)
        self.assertEqual(wrong.index, 1)
        with self.assertRaises(rehearse_sim.InputError) as raised:
            rehearse_sim.predict_many(scenarios, jobs=2)
        self.assertEqual(raised.exception.index, 1)


class Spread(unittest.TestCase):
    def test_processes_give_what_one_machine_gives(self) -> None:
        here = questions.sweep_document(STUDY, jobs=2)
        with ProcessPoolExecutor(2) as pool:
            there = questions.sweep_document(STUDY, executor=pool, tasks=3)
        self.assertEqual(json.dumps(here), json.dumps(there))

    def test_processes_simulate_a_plan_as_one_machine_does(self) -> None:
        here = rehearse_sim.plan(PLAN, jobs=2)
        with ProcessPoolExecutor(2) as pool:
            there = rehearse_sim.plan(PLAN, executor=pool)
        self.assertEqual(json.dumps(here.to_dict()), json.dumps(there.to_dict()))
        dying = _Dying()
        again = rehearse_sim.plan(PLAN, executor=dying)
        self.assertGreater(dying.died, 0)
        self.assertEqual(json.dumps(here.to_dict()), json.dumps(again.to_dict()))

    def test_a_plan_that_nothing_meets_says_so_from_elsewhere(self) -> None:
        with self.assertRaises(rehearse_sim.BoundNotMet):
            rehearse_sim.plan({**PLAN, "constraints": {"gpus": 1}}, executor=_Dying())

    def test_a_worker_that_is_killed_loses_nothing(self) -> None:
        here = questions.sweep_document(STUDY, jobs=2)
        with tempfile.TemporaryDirectory() as folder, ProcessPoolExecutor(2) as processes:
            pool = _Killed(processes, folder)
            there = questions.sweep_document(STUDY, executor=pool, tasks=4)
            self.assertTrue(Path(folder, "killed").exists())
        self.assertEqual(pool.refused, 1)  # a pool of processes takes no more then
        self.assertEqual(json.dumps(here), json.dumps(there))

    def test_progress_is_told_by_tqdm_where_it_is(self) -> None:
        told: list[int] = []

        class Bar:
            def __init__(self, total: int, unit: str) -> None:
                told.append(total)

            def update(self) -> None:
                told.append(1)

            def close(self) -> None:
                told.append(0)

        auto = types.SimpleNamespace(tqdm=Bar)
        with mock.patch.dict(sys.modules, {"tqdm": types.ModuleType("tqdm"), "tqdm.auto": auto}):
            spread.spread(abs, [(-1,), (-2,)], progress=True)
        self.assertEqual(told, [2, 1, 1, 0])

    def test_a_worker_that_dies_loses_nothing(self) -> None:
        pool = _Dying()
        self.assertEqual(spread.spread(abs, [(-1,), (-2,), (-3,)], pool), [1, 2, 3])
        self.assertEqual(pool.died, 3)

    def test_workers_that_never_can_are_told_and_one_that_dies_always_is_spared(self) -> None:
        class Poor(Executor):
            def submit(self, work: Any, /, *task: Any, **_: Any) -> Future[Any]:
                future: Future[Any] = Future()
                if task == (-1,):
                    future.set_result(1)
                else:
                    future.set_exception(RuntimeError("the worker died"))
                return future

        self.assertEqual(spread.spread(abs, [(-1,), (-2,)], Poor()), [1, 2])
        with self.assertRaisesRegex(RuntimeError, "the worker died"):
            spread.spread(abs, [(-2,), (-3,)], Poor())

    def check_two_hundred_points(self, executor: Executor) -> None:
        """With a worker that is killed in between, and without: what `--jobs 2` gives."""
        here = json.dumps(questions.sweep_document(MANY, jobs=2))
        there = questions.sweep_document(MANY, executor=executor, tasks=8)
        self.assertEqual(len(there["points"]), 200)
        self.assertEqual(here, json.dumps(there))
        with tempfile.TemporaryDirectory() as folder:
            there = questions.sweep_document(MANY, executor=_Killed(executor, folder), tasks=8)
            self.assertTrue(Path(folder, "killed").exists())
        self.assertEqual(here, json.dumps(there))
        plan = rehearse_sim.plan(PLAN, jobs=2)
        planned = rehearse_sim.plan(PLAN, executor=executor)
        self.assertEqual(json.dumps(plan.to_dict()), json.dumps(planned.to_dict()))

    @support.needs("dask", "distributed")
    def test_dask_gives_what_one_machine_gives(self) -> None:
        from distributed import Client, LocalCluster

        with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
            with Client(cluster) as client:
                self.check_two_hundred_points(client.get_executor())

    @support.needs("ray")
    def test_ray_gives_what_one_machine_gives(self) -> None:
        import ray
        from ray.util.multiprocessing import Pool

        found = {"PYTHONPATH": os.pathsep.join(sys.path)}
        ray.init(num_cpus=2, include_dashboard=False, runtime_env={"env_vars": found})
        self.addCleanup(ray.shutdown)
        with Pool(2) as pool:
            self.check_two_hundred_points(rehearse_sim.PoolExecutor(pool))


class _Dying(Executor):
    """Its worker dies on the first try of each task."""

    def __init__(self) -> None:
        self.died = 0
        self.seen: set[str] = set()

    def submit(self, work: Any, /, *task: Any, **_: Any) -> Future[Any]:
        future: Future[Any] = Future()
        if repr(task) in self.seen:
            try:
                future.set_result(work(*task))
            except Exception as error:
                future.set_exception(error)
        else:
            self.seen.add(repr(task))
            self.died += 1
            future.set_exception(RuntimeError("the worker died"))
        return future


def _once_killed(folder: str, work: Any, task: tuple[Any, ...]) -> Any:
    """Kills its process, once, when another task was done."""
    if os.listdir(folder):
        try:
            os.mkdir(f"{folder}/killed")
        except FileExistsError:
            pass
        else:
            os.kill(os.getpid(), signal.SIGKILL)
    done = work(*task)
    Path(folder, str(uuid.uuid4())).touch()
    return done


class _Killed(Executor):
    """Workers of an executor, one of which is killed."""

    def __init__(self, pool: Executor, folder: str) -> None:
        self.pool, self.folder, self.refused = pool, folder, 0

    def submit(self, work: Any, /, *task: Any, **_: Any) -> Future[Any]:
        try:
            return self.pool.submit(_once_killed, self.folder, work, task)
        except BrokenProcessPool:
            self.refused += 1
            raise


class Documentation(unittest.TestCase):
    def test_examples_in_the_documentation_hold(self) -> None:
        for module in (questions, errors, program, tables):
            failed, _ = doctest.testmod(module)
            self.assertEqual(failed, 0, module.__name__)

    @support.needs("mypy")
    def test_types_are_clean(self) -> None:
        from mypy import api

        out, _, status = api.run(["--strict", "--config-file", str(ROOT / "pyproject.toml"),
                                  str(ROOT / "python/rehearse_sim")])  # fmt: skip
        self.assertEqual(status, 0, out)

    def test_overrides_reach_the_program_as_yaml(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "x.yaml"
            file.write_text(json.dumps(TOY))
            found = rehearse_sim.predict(file, {"strategy": {"zero": {"stage": 1}}})
        self.assertTrue(found["strategy"].startswith("zero"))


if __name__ == "__main__":
    unittest.main()
