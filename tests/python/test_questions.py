"""rehearse_sim's functions against the program itself."""

from __future__ import annotations

import doctest
import json
import pickle
import tempfile
import unittest
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from pathlib import Path
from typing import Any

import support
from support import ROOT, SCENARIOS, STUDY, TOY

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


class Spread(unittest.TestCase):
    def test_processes_give_what_one_machine_gives(self) -> None:
        here = questions.sweep_document(STUDY, jobs=2)
        with ProcessPoolExecutor(2) as pool:
            there = questions.sweep_document(STUDY, executor=pool, tasks=3)
        self.assertEqual(json.dumps(here), json.dumps(there))

    def test_a_worker_that_dies_loses_nothing(self) -> None:
        pool = _Dying()
        self.assertEqual(spread.spread(abs, [(-1,), (-2,), (-3,)], pool), [1, 2, 3])
        self.assertEqual(pool.died, 3)

    @support.needs("dask", "distributed")
    def test_dask_gives_what_one_machine_gives(self) -> None:
        from distributed import Client, LocalCluster

        here = questions.sweep_document(STUDY, jobs=2)
        with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
            with Client(cluster) as client:
                there = questions.sweep_document(STUDY, executor=client.get_executor(), tasks=4)
        self.assertEqual(json.dumps(here), json.dumps(there))

    @support.needs("ray")
    def test_ray_gives_what_one_machine_gives(self) -> None:
        import ray
        from ray.util.multiprocessing import Pool

        here = questions.sweep_document(STUDY, jobs=2)
        ray.init(num_cpus=2, include_dashboard=False)
        with Pool(2) as pool:
            there = questions.sweep_document(STUDY, executor=_Applying(pool), tasks=4)
        ray.shutdown()
        self.assertEqual(json.dumps(here), json.dumps(there))


class _Dying(Executor):
    """Its worker dies on the first try of each task."""

    def __init__(self) -> None:
        self.died = 0
        self.seen: set[Any] = set()

    def submit(self, work: Any, /, *task: Any, **_: Any) -> Future[Any]:
        future: Future[Any] = Future()
        if task in self.seen:
            future.set_result(work(*task))
        else:
            self.seen.add(task)
            self.died += 1
            future.set_exception(RuntimeError("the worker died"))
        return future


class _Applying(Executor):
    """A pool of `apply_async`, as multiprocessing's and Ray's, as an executor."""

    def __init__(self, pool: Any) -> None:
        self.pool = pool

    def submit(self, work: Any, /, *task: Any, **_: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self.pool.apply_async(work, task, callback=future.set_result,
                              error_callback=future.set_exception)  # fmt: skip
        return future


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
