"""Spreads work over threads of this machine, or over an executor's workers, wherever they are."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor, as_completed
from typing import Any, TypeVar

from .errors import RehearseError

Result = TypeVar("Result")
TRIES = 3


@contextlib.contextmanager
def _bar(total: int, progress: bool) -> Iterator[Callable[[], None]]:
    """What is called once for each task that is done: tqdm's bar, where it is wanted and there."""
    try:
        if not progress:
            raise ImportError
        from tqdm.auto import tqdm
    except ImportError:
        yield lambda: None
        return
    bar = tqdm(total=total, unit="simulation")
    try:
        yield lambda: bar.update() and None
    finally:
        bar.close()


class PoolExecutor(Executor):
    """A pool of multiprocessing's kind, such as Ray's `ray.util.multiprocessing.Pool`, as an
    executor."""

    def __init__(self, pool: Any) -> None:
        self.pool = pool

    def submit(self, work: Callable[..., Any], /, *task: Any, **given: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self.pool.apply_async(work, task, given, callback=future.set_result,
                              error_callback=future.set_exception)  # fmt: skip
        return future


def spread(
    work: Callable[..., Result],
    tasks: Sequence[tuple[Any, ...]],
    executor: Executor | None = None,
    jobs: int | None = None,
    progress: bool = False,
) -> list[Result]:
    """`work(*task)` of each, in their order. A task whose worker dies runs again, as long as other
    tasks come through. What no worker brings back, and what the executor takes no more, runs here.
    What the program itself says is not tried again."""
    with _bar(len(tasks), progress) as advance:
        if executor is None:
            return _spread_here(work, tasks, jobs, advance)
        return _spread(work, tasks, executor, advance)


def _spread_here(
    work: Callable[..., Result],
    tasks: Sequence[tuple[Any, ...]],
    jobs: int | None,
    advance: Callable[[], None],
) -> list[Result]:
    results = []
    with ThreadPoolExecutor(jobs or os.cpu_count()) as own:
        for result in own.map(lambda task: work(*task), tasks):
            results.append(result)
            advance()
    return results


def _spread(
    work: Callable[..., Result],
    tasks: Sequence[tuple[Any, ...]],
    executor: Executor,
    advance: Callable[[], None],
) -> list[Result]:
    results: dict[int, Result] = {}
    left, fruitless = list(range(len(tasks))), 0
    while left and fruitless < TRIES:
        try:
            futures: dict[Future[Result], int] = {executor.submit(work, *tasks[i]): i for i in left}
        except BrokenExecutor:  # a pool of processes is, for good, once one was killed
            break
        failure: Exception | None = None
        for future in as_completed(futures):
            try:
                results[futures[future]] = future.result()
                advance()
            except RehearseError:
                raise
            except Exception as error:
                failure = error
        before, left = len(left), [i for i in left if i not in results]
        fruitless = fruitless + 1 if len(left) == before else 0
        if failure is not None and fruitless == TRIES and not results:
            raise failure  # no worker of it can do the work
    found = _spread_here(work, [tasks[i] for i in left], None, advance)
    results.update(zip(left, found))
    return [results[i] for i in range(len(tasks))]
