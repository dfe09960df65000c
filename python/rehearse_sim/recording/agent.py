"""Runs inside each process of the recorded command, in a Python and with a torch that are the
user's. Nothing happens before `torch` is imported. From then on a few hooks look at the clock:

- each optimizer's step() ends a step, where a backward pass came since the last one,
- torch.autograd.backward() separates forward, backward and the optimizer,
- a DataLoader's __next__() says how long the step waited for its batch, and how large that is.

Steps go through phases by their number alone, so that all ranks are in the same one: warm-up, plain
(timed by those hooks), profiled, and plain again. The file of the rank is written whenever a phase
ends. Any failure of ours is noted there, takes the hooks away and never reaches the run.
"""

from __future__ import annotations

import atexit
import base64
import contextlib
import functools
import importlib.abc
import importlib.machinery
import json
import os
import sys
import time
from typing import Any

# Steps that the profiler drops at first: its own start, and CUPTI's.
DROPPED = 2
# Steps that are kept of a long run.
MOST_STEPS = 5000
# Backward passes without an optimizer of torch, behind which each counts as a step.
WITHOUT_OPTIMIZER = 12


class _Finder(importlib.abc.MetaPathFinder):
    """Runs `then` once `torch` is there."""

    def __init__(self, then: Any) -> None:
        self.then = then

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != "torch" or path is not None:
            return None
        sys.meta_path.remove(self)
        spec = None
        for finder in list(sys.meta_path):
            find = getattr(finder, "find_spec", None)
            spec = find(name, path, target) if find else None
            if spec is not None:
                break
        if spec is None or spec.loader is None:
            return spec
        run = spec.loader.exec_module

        def exec_module(module: Any) -> None:
            run(module)
            with contextlib.suppress(Exception):
                self.then(module)

        with contextlib.suppress(AttributeError):
            spec.loader.exec_module = exec_module
        return spec


def sibling(name: str) -> Any:
    """A file beside this one, which need not be on the user's path."""
    import importlib.util

    place = os.path.join(os.path.dirname(os.path.abspath(__file__)), name + ".py")
    key = "_rehearse_" + os.path.basename(name)
    if key not in sys.modules:
        spec = importlib.util.spec_from_file_location(key, place)
        assert spec and spec.loader
        sys.modules[key] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[key])
    return sys.modules[key]


class Agent:
    """The hooks of one process, and what they saw."""

    def __init__(self, torch: Any, settings: dict[str, Any]) -> None:
        self.torch = torch
        self.settings = settings
        self.sibling = sibling
        self.queue = sibling("clock").Queue()
        self.handles: list[Any] = []
        self.undo: list[Any] = []
        self.start()

    def start(self) -> None:
        """Nothing was seen yet, in this process or in one that was forked from it: a rank that
        torch.multiprocessing forks, or a loader's worker, which takes no step."""
        self.steps: list[list[float]] = []
        self.errors: list[str] = []
        self.facts: dict[str, Any] = {}
        self.own = 0.0  # seconds of ours, outside the profiled steps
        self.number = 0  # of steps that have ended
        self.optimizers: list[int] = []  # in the order of their first step
        self.boundary: int | None = None
        self.backwards_alone = 0
        self.profiler: Any = None
        self.window: Any = None
        self.event_cost = 0.0
        self.trace = ""
        self.profiled: list[int] = []
        self.unit_handles: list[Any] = []
        self.units: Any = None
        self.rank = 0
        self.is_done = self.has_failed = False
        self.looking: Any = None  # at activations, in one step
        self.clear()

    def clear(self) -> None:
        """A new step begins."""
        self.begin = time.perf_counter()
        self.cpu = time.thread_time()
        self.process = time.process_time()
        self.queued = self.queue.seconds()
        self.backwards = 0
        self.first_backward = 0.0
        self.last_backward = 0.0
        self.in_backward = 0.0
        self.waited = 0.0
        self.batches = 0

    # Hooks ---------------------------------------------------------------------------------------

    def install(self) -> None:
        from torch.optim.optimizer import register_optimizer_step_post_hook

        # It stays: torch goes through such hooks as through a map, which none of them may change.
        register_optimizer_step_post_hook(self.guard(self.after_optimizer))
        self._wrap_backward()
        self._wrap_loader()
        atexit.register(self.guard(self.at_exit))
        os.register_at_fork(after_in_child=self.guard(self.start))

    def guard(self, inner: Any) -> Any:
        """No failure of ours gets out, and none comes twice."""

        def outer(*args: Any, **given: Any) -> None:
            if self.has_failed:
                return
            try:
                inner(*args, **given)
            except Exception as error:
                self.fail(error)

        return outer

    def fail(self, error: BaseException) -> None:
        text = f"{type(error).__name__}: {error.strerror}" if isinstance(error, OSError) else (
            f"{type(error).__name__}: {error}")  # fmt: skip
        self.errors.append(text.splitlines()[0][:200])
        self.has_failed = True
        self.remove()
        with contextlib.suppress(Exception):
            if self.profiler is not None:
                profiler, self.profiler = self.profiler, None
                profiler.stop()
        with contextlib.suppress(Exception):
            self.save("failed")

    def remove(self) -> None:
        for handle in self.handles + self.unit_handles:
            with contextlib.suppress(Exception):
                handle.remove()
        for undo in self.undo:
            with contextlib.suppress(Exception):
                undo()
        self.handles, self.undo, self.unit_handles = [], [], []

    def _wrap_backward(self) -> None:
        torch = self.torch
        original = torch.autograd.backward
        agent = self

        @functools.wraps(original)
        def backward(*args: Any, **given: Any) -> Any:
            begin = time.perf_counter()
            with contextlib.ExitStack() as named:
                if agent.window is not None:
                    with contextlib.suppress(Exception):
                        named.enter_context(torch.profiler.record_function("rehearse.backward"))
                result = original(*args, **given)
            end = time.perf_counter()
            if not agent.backwards:
                agent.first_backward = begin
            agent.backwards += 1
            agent.last_backward = end
            agent.in_backward += end - begin
            if agent.boundary is None:
                agent.backwards_alone += 1
                if agent.backwards_alone >= WITHOUT_OPTIMIZER:
                    agent.guard(agent.end_step)(None)
            return result

        torch.autograd.backward = backward

        def undo() -> None:
            if torch.autograd.backward is backward:
                torch.autograd.backward = original

        self.undo.append(undo)

    def _wrap_loader(self) -> None:
        from torch.utils.data import dataloader

        kind: Any = dataloader._BaseDataLoaderIter
        original = kind.__next__
        agent = self

        @functools.wraps(original)
        def following(iterator: Any) -> Any:
            begin = time.perf_counter()
            data = original(iterator)
            agent.waited += time.perf_counter() - begin
            agent.batches += 1
            if agent.number < agent.settings["warmup"] + 2:
                agent.guard(agent.look_at_batch)(iterator, data)
            return data

        kind.__next__ = following

        def undo() -> None:
            if kind.__next__ is following:
                kind.__next__ = original

        self.undo.append(undo)

    def look_at_batch(self, iterator: Any, data: Any) -> None:
        """Sizes of the batch, never its numbers."""
        shapes = sibling("facts").shapes_of(self.torch, data)
        loader = self.facts.setdefault("loader", {})
        loader["shapes"] = shapes
        loader["workers"] = int(getattr(iterator, "_num_workers", 0))
        loader["prefetch_factor"] = getattr(iterator, "_prefetch_factor", None)
        loader["pin_memory"] = bool(getattr(iterator, "_pin_memory", False))

    def after_optimizer(self, optimizer: Any, *_: Any) -> None:
        """A step ends with the last optimizer of a round (a GAN has two)."""
        if not self.backwards:
            return  # the same pass: another group of parameters, or of an optimizer's parts
        if id(optimizer) not in self.optimizers:
            if self.number >= self.settings["warmup"]:
                return
            self.optimizers.append(id(optimizer))
            self.boundary = id(optimizer)
            self.facts.setdefault("optimizers", []).append(sibling("network").optimizer(optimizer))
        if id(optimizer) == self.boundary:
            self.end_step(optimizer)

    # Steps ---------------------------------------------------------------------------------------

    def end_step(self, optimizer: Any) -> None:
        now = time.perf_counter()
        if self.looking is not None:
            self.looking.remove()
        cpu, process, ready = time.thread_time(), time.process_time(), self.queue.seconds()
        if len(self.steps) < MOST_STEPS:
            self.steps.append([
                self.begin, now, self.first_backward - self.begin, self.in_backward,
                now - self.last_backward, self.waited, cpu - self.cpu, process - self.process,
                self.backwards, self.batches, ready - self.queued])  # fmt: skip
        self.number += 1
        self.phase(optimizer)
        self.own += time.perf_counter() - now
        self.clear()

    def phase(self, optimizer: Any) -> None:
        """Changes of phase are at the same step on all ranks."""
        warmup, timed = self.settings["warmup"], self.settings["timed"]
        first = warmup + timed
        if self.number == 1:
            self.look_at_run(optimizer)
            self.save("warming up")
        elif self.number == warmup:
            self.facts["memory_after_warmup"] = sibling("facts").memory(self.torch)
        elif self.number == first:
            self.facts["memory"] = sibling("facts").memory(self.torch)
            self.save("timed")
        if self.settings["ranks"] == "all" or self.rank in self.settings["ranks"]:
            self.profile(first)
        elif self.number == first + DROPPED + self.settings["steps"]:
            self.finish()

    def look_at_run(self, optimizer: Any) -> None:
        facts = sibling("facts")
        self.facts |= facts.of_process(self.torch, self.settings)
        self.rank = self.facts["rank"]
        self.units, model, root = sibling("network").find_model(self.torch, optimizer)
        self.facts["model"] = model
        if root is not None and not getattr(root, "_compiled_call_impl", None):
            self.look_at_input(root)

    def look_at_input(self, root: Any) -> None:
        """Shapes that the network is called with, once."""

        def before(_: Any, args: Any, given: Any) -> None:
            handle.remove()
            self.facts["inputs"] = sibling("facts").shapes_of(self.torch, [args, given])

        handle = root.register_forward_pre_hook(self.guard(before), with_kwargs=True)
        self.handles.append(handle)

    def profile(self, first: int) -> None:
        last = first + DROPPED + self.settings["steps"]
        if self.number == first:
            self.profiler = sibling("profiling").start(self)
        elif self.profiler is None:
            if self.number == last:
                self.finish()
            return
        if first + DROPPED <= self.number <= last:
            if self.window is not None:
                self.window.__exit__(None, None, None)
                self.window = None
            if self.number < last:
                self.profiled.append(self.number)
                name = f"ProfilerStep#{self.number}"
                self.window = self.torch.profiler.record_function(name)
                self.window.__enter__()
        if self.number == last:
            self.stop_profiler()
            self.finish()

    def stop_profiler(self) -> None:
        profiling, profiler = sibling("profiling"), self.profiler
        self.profiler = None
        self.event_cost = profiling.stop(self.torch, profiler)
        for handle in self.unit_handles:
            handle.remove()
        self.unit_handles = []
        name = f"rank_{self.rank}.raw.json"
        profiling.export(profiler, os.path.join(self.settings["out"], name))
        self.trace = name

    def finish(self) -> None:
        self.look_at_ranks()
        self.is_done = True
        self.save("recorded")

    def look_at_ranks(self) -> None:
        facts, objects_of = sibling("facts"), sibling("network").objects_of
        self.facts |= sibling("parallel").of_run(self.torch, facts, objects_of)
        self.facts["memory"] = facts.memory(self.torch)

    # The file ------------------------------------------------------------------------------------

    def at_exit(self) -> None:
        if self.number == 0:
            return
        if self.profiler is not None:
            # The run ends within the profiled steps: what there is counts.
            if self.window is not None:
                self.window.__exit__(None, None, None)
                self.window = None
                self.profiled.pop()
            self.stop_profiler()
        if not self.is_done:
            self.look_at_ranks()
        self.save("ended")

    def save(self, state: str) -> None:
        document = {
            "format": "rehearse.rank/1", "state": state, "parent": self.settings["parent"],
            "warmup": self.settings["warmup"],
            **self.facts,
            "steps": self.steps, "ended_steps": self.number, "profiled": self.profiled,
            "event_cost": self.event_cost, "trace": self.trace, "own_seconds": self.own,
            "errors": self.errors, "is_done": self.is_done,
        }  # fmt: skip
        place = os.path.join(self.settings["out"], f"rank_{self.rank}.json")
        text = json.dumps(document)
        try:
            with open(place + ".part", "w") as file:
                file.write(text)
            os.replace(place + ".part", place)
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(place + ".part")
            raise


def install(settings: str) -> None:
    read = json.loads(base64.urlsafe_b64decode(settings))

    def begin(torch: Any) -> None:
        Agent(torch, read).install()

    sys.meta_path.insert(0, _Finder(begin))
