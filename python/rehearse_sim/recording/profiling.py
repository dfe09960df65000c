"""The profiled steps: torch.profiler with shapes, and names of the network's parts in its trace."""

from __future__ import annotations

import contextlib
import errno
import os
import time
from typing import Any

# Operators that are run with and without the profiler, to learn what it takes for each.
PROBES = 500


def start(agent: Any) -> Any:
    """The profiler, or None where the run has its own."""
    torch = agent.torch
    if torch.autograd._profiler_enabled():
        agent.errors.append("the run has a profiler of its own, so that ours did not start")
        return None
    kinds = [torch.profiler.ProfilerActivity.CPU]
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        kinds.append(torch.profiler.ProfilerActivity.CUDA)
    try:
        profiler = torch.profiler.profile(
            activities=kinds, record_shapes=True, profile_memory=len(kinds) > 1
        )
        profiler.start()
    except Exception as error:  # a torch without Kineto, or without the right to it
        agent.errors.append(
            f"torch.profiler does not start ({str(error).splitlines()[0][:100]}): the step's time, "
            "its batch, groups and memory are known, and no kernel is"
        )
        return None
    agent.unit_handles += mark_units(torch, agent.units or [])
    if agent.units:
        agent.unit_handles += look_at_activations(agent)
    return profiler


def mark_units(torch: Any, units: list[tuple[int, Any]]) -> list[Any]:
    """Hooks that name units in the trace."""
    open_notes: list[Any] = []
    handles = []

    def hooks_of(number: int) -> tuple[Any, Any]:
        def before(*_: Any) -> None:
            with contextlib.suppress(Exception):
                note = torch.profiler.record_function(f"rehearse.unit#{number}")
                note.__enter__()
                open_notes.append(note)

        def after(*_: Any) -> None:
            with contextlib.suppress(Exception):
                open_notes.pop().__exit__(None, None, None)

        return before, after

    for number, module in units:
        before, after = hooks_of(number)
        handles.append(module.register_forward_pre_hook(before))
        handles.append(module.register_forward_hook(after, always_call=True))
    return handles


class Looking:
    """Looks at activations until the step ends."""

    def __init__(self, agent: Any, looking: Any) -> None:
        self.agent, self.looking = agent, looking

    def remove(self) -> None:
        if self.looking is not None:
            looking, self.looking, self.agent.looking = self.looking, None, None
            looking.stop()
            self.agent.facts["activations"] = looking.facts()


def look_at_activations(agent: Any) -> list[Any]:
    """In the first of the steps that the profiler drops."""
    looking = agent.sibling("activations").Activations(agent.torch, [m for _, m in agent.units])
    agent.looking = Looking(agent, looking)
    handles: list[Any] = [agent.looking]

    def hooks_of(number: int) -> tuple[Any, Any]:
        def before(_: Any, args: Any, given: Any) -> None:
            with contextlib.suppress(Exception):
                looking.before(number, [args, given])

        def after(_: Any, __: Any, output: Any) -> None:
            with contextlib.suppress(Exception):
                looking.after(number, output)

        return before, after

    for number, module in agent.units:
        before, after = hooks_of(number)
        handles.append(module.register_forward_pre_hook(before, with_kwargs=True))
        handles.append(module.register_forward_hook(after))
    looking.start()
    return handles


def stop(torch: Any, profiler: Any) -> float:
    """Ends it; seconds that it took for an operator, by the thread's own clock, which stands while
    others have the core."""
    try:
        with torch.profiler.record_function("rehearse.probe"):
            seen = probe(torch)
    finally:
        profiler.stop()  # one that still runs at the end crashes the process
    return max(0.0, seen - probe(torch))


def probe(torch: Any) -> float:
    a = torch.zeros(8)
    begin = time.thread_time()
    with torch.no_grad():
        for _ in range(PROBES):
            torch.add(a, a)
    return (time.thread_time() - begin) / PROBES


def export(profiler: Any, place: str) -> None:
    """The trace as a file, whole or not at all."""
    try:
        profiler.export_chrome_trace(place)
        if not os.path.exists(place):  # kineto tells a log alone
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    except Exception:
        for part in (place, place + ".tmp"):
            with contextlib.suppress(OSError):
                os.unlink(part)
        raise
