"""What a record makes of collectives, and of kernels on a GPU."""

from __future__ import annotations

import unittest
from typing import Any

from rehearse_sim.recording import collectives, machine, measure, rank_steps, trace


class Collectives(unittest.TestCase):
    def test_what_plain_steps_wait_more_is_the_collectives(self) -> None:
        # As in measure: begin, end, three times, waited for data, own clock, three more, queued.
        def rank(own: float, ready: float) -> dict[str, Any]:
            plain = [0, 0.30, 0, 0, 0, 0.01, own, 0, 1, 1, ready]
            profiled = [0, 0.34, 0, 0, 0, 0.01, own + 0.06, 0, 1, 1, ready]
            return {"steps": [plain] * 3 + [profiled] * 3}

        ranks = [rank(0.14, 0.05), rank(0.16, 0.01)]
        found = measure.Measured(points=[collectives.Point("all_reduce", 1e6, 2, 0.03, 0, 2),
                                         collectives.Point("broadcast", 8, 2, 0.01, 0, 1)])  # fmt: skip
        self.assertAlmostEqual(rank_steps.over_ranks(ranks, [0, 1, 2], max, rank_steps.running), 0.19)
        measure.level_collectives(found, ranks, [0, 1, 2], [3, 4, 5])
        # The rank that waits least waits 100 ms in place of 80, and collectives took 70.
        self.assertAlmostEqual(found.points[0].time, 0.03 * 9 / 7, delta=1e-12)
        self.assertAlmostEqual(found.points[1].time, 0.01 * 9 / 7, delta=1e-12)
        self.assertIn("a step waits 100 ms, and 80 ms where it is profiled", found.notes[0])

    def test_the_rate_is_what_a_tenth_of_the_bytes_exceeds(self) -> None:
        def sent(number: int, took: float) -> dict[str, Any]:
            return {"ph": "X", "cat": "user_annotation", "name": "gloo:all_reduce", "tid": 2,
                    "ts": 1e6 * number, "dur": took,
                    "args": {"Input Dims": [[250000]], "Input type": ["float"]}}  # fmt: skip

        mark = {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#1", "tid": 1, "ts": 0,
                "dur": 3e7, "args": {}}  # fmt: skip
        events = [mark] + [sent(number, 40e3 + 1e3 * number) for number in range(1, 21)]
        reader = trace.Reader({"traceEvents": events}, 0)
        # 20 stretches of 1 MB: the second fastest took 42 ms.
        self.assertAlmostEqual(collectives.rate_of(2, reader), 1e6 / 42e-3, delta=1)

    def test_a_collective_weighs_what_it_takes_of_a_step(self) -> None:
        def point(size: float, time: float, count: float) -> collectives.Point:
            return collectives.Point("all_reduce", size, 2, time, 0, count)

        latency, slope = machine.line_through([point(1e6, 3e-3, 1), point(4e6, 9e-3, 2)])
        self.assertAlmostEqual(latency, 1e-3, delta=1e-12)
        self.assertAlmostEqual(slope, 2e-9, delta=1e-18)
        # No line with a latency of 0 or more meets both: the large one, of most time, decides.
        latency, slope = machine.line_through([point(1e6, 1e-3, 1), point(8e6, 16e-3, 1)])
        self.assertEqual(latency, 0)
        whole = 1e6 * 1e6 / 1e-3 + 8e6 * 8e6 / 16e-3
        self.assertAlmostEqual(slope, (1e6 + 8e6) / whole, delta=1e-18)


class Gpu(unittest.TestCase):
    """A trace of a GPU by hand: two units, a backward thread, NCCL beside and behind."""

    def test_kernels_go_to_the_units_that_launched_them(self) -> None:
        events: list[dict[str, Any]] = []

        def add(cat: str, name: str, ts: float, dur: float, tid: Any = 1, **args: Any) -> None:
            events.append({"ph": "X", "cat": cat, "name": name, "ts": ts, "dur": dur, "tid": tid,
                           "pid": 0, "args": args})  # fmt: skip

        def launch(name: str, ts: float, on: float, dur: float, tid: int, number: int) -> None:
            add("cuda_runtime", "cudaLaunchKernel", ts, 2, tid, correlation=number)
            add("kernel", name, on, dur, 7, correlation=number, stream=7)

        add("user_annotation", "ProfilerStep#3", 0, 1000)
        for number in (0, 1):
            add("user_annotation", f"rehearse.unit#{number}", 10 + 100 * number, 80)
            add("cpu_op", "aten::linear", 20 + 100 * number, 40, **{"Sequence number": 5 + number})
            launch("gemm", 30 + 100 * number, 200 + 100 * number, 60, 1, number)
        add("user_annotation", "rehearse.backward", 250, 300)
        for number in (1, 0):
            at = 260 + 100 * (1 - number)
            add("cpu_op", "autograd::engine::evaluate_function: AddmmBackward0", at, 50, 2,
                **{"Sequence number": 5 + number})  # fmt: skip
            launch("gemm", at + 5, at + 200, 90, 2, 10 + number)
        add("cpu_op", "aten::_foreach_add_", 700, 20)
        launch("multi_tensor", 705, 800, 50, 1, 20)
        add("cuda_runtime", "cudaLaunchKernelExC", 400, 2, 2, correlation=30)
        add("kernel", "ncclDevKernel_AllReduce", 500, 250, 8, correlation=30, stream=8, dtype="Float",
            **{"Collective name": "allreduce", "In msg nelems": 1000, "Out msg nelems": 1000,
               "Group size": 4})  # fmt: skip
        step = trace.Reader({"traceEvents": events}, 0).steps()[0]
        self.assertEqual((step.forward, step.backward), ({0: 60, 1: 60}, {1: 90, 0: 90}))
        self.assertEqual((step.optimizer, step.busy), (50, 350))
        # From 500 to 750, of which the backward's kernels run from 500 to 550 and 560 to 650.
        self.assertEqual(step.exposed, 250 - 50 - 90)
        self.assertEqual(
            (step.launch_forward, step.launch_backward), ({0: 40, 1: 40}, {1: 50, 0: 50})
        )
        one = step.collectives[0]
        self.assertEqual((collectives.name_of(one.what), one.bytes, one.ranks, one.time),
                         ("all_reduce", 4000, 4, 250))  # fmt: skip
