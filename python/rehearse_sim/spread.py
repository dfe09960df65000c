"""Spreads work over threads of this machine, or over an executor's workers, wherever they are."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor, as_completed
from typing import Any, TypeVar

from .errors import RehearseError

Result = TypeVar("Result")
TRIES = 3


def _bar(total: int, progress: bool) -> Callable[[], None]:
    if progress:
        try:
            from tqdm.auto import tqdm  # type: ignore[import-untyped,unused-ignore]
        except ImportError:
            return lambda: None
        bar = tqdm(total=total, unit="simulation")

        def advance() -> None:
            bar.update()

        return advance
    return lambda: None


def spread(
    work: Callable[..., Result],
    tasks: Sequence[tuple[Any, ...]],
    executor: Executor | None = None,
    jobs: int | None = None,
    progress: bool = False,
) -> list[Result]:
    """`work(*task)` of each, in their order. A task whose worker dies runs again, three times at
    most; what the program itself says is not tried again."""
    if executor is None:
        with ThreadPoolExecutor(jobs or os.cpu_count()) as own:
            return spread(work, tasks, own, progress=progress)
    results: dict[int, Result] = {}
    advance = _bar(len(tasks), progress)
    left: Iterable[int] = range(len(tasks))
    for tried in range(TRIES):
        futures: dict[Future[Result], int] = {executor.submit(work, *tasks[i]): i for i in left}
        failed = []
        for future in as_completed(futures):
            try:
                results[futures[future]] = future.result()
                advance()
            except RehearseError:
                raise
            except Exception:
                if tried + 1 == TRIES:
                    raise
                failed.append(futures[future])
        if not failed:
            break
        left = failed
    return [results[i] for i in range(len(tasks))]
