"""The program's commands as functions."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Any, Literal, overload

from .answers import Answer, Prediction, prediction_of
from .documents import Compare, Explain, Kernels, MeasuredComparison, PlanResult, RolloutPlan
from .errors import BoundNotMet, InputError, Mistake, RehearseError, wrong
from .program import (
    Question,
    as_json,
    assignments,
    file_name,
    hand_out,
    options,
    question_file,
    run,
)
from .spread import spread
from .tables import Row, flat, frame


def predict(
    scenario: Question, overrides: Mapping[str, Any] | None = None, /, **more: Any
) -> Prediction:
    """Predicts one training: a scenario file, or a map like one.

    >>> p = predict({"model": {"use": "resnet50", "batch_per_gpu": 64},
    ...              "cluster": {"use": "dgx_h100"}, "strategy": {"ddp": {}}}, model__precision="bf16")
    >>> p.fits, p["ranks"], p.interval[0] < p.step_time_s < p.interval[1]
    (True, 8, True)
    """
    words = assignments({**(overrides or {}), **more})
    with question_file(scenario, "scenario.yaml") as (file, folder):
        return prediction_of(as_json(["run", file, "--quiet", *words], folder))


def _several(what: str, given: Iterable[Any]) -> list[Any]:
    """InputError of one in the place of several: a text's letters are no files."""
    if isinstance(given, (str, Path, Mapping)) or not isinstance(given, Iterable):
        raise wrong(f"{what} takes a list; got {given!r:.60}", "put it into one: [...]")
    return list(given)


def _predicted(scenario: Question) -> Prediction | RehearseError:
    try:
        return predict(scenario)
    except RehearseError as error:
        return error


@overload
def predict_many(
    scenarios: Iterable[Question],
    *,
    errors: Literal["raise"] = "raise",
    executor: Executor | None = None,
    jobs: int | None = None,
    progress: bool = False,
) -> list[Prediction]: ...
@overload
def predict_many(
    scenarios: Iterable[Question],
    *,
    errors: Literal["return"],
    executor: Executor | None = None,
    jobs: int | None = None,
    progress: bool = False,
) -> list[Prediction | RehearseError]: ...
def predict_many(
    scenarios: Iterable[Question],
    *,
    errors: Literal["raise", "return"] = "raise",
    executor: Executor | None = None,
    jobs: int | None = None,
    progress: bool = False,
) -> list[Prediction] | list[Prediction | RehearseError]:
    """Predicts each, side by side: on `jobs` threads, each with a process of the program, or by any
    concurrent.futures.Executor (Dask's, Ray's, mpi4py's). A wrong scenario raises its error, whose
    `index` is its place; with errors="return" that error stands there, and all others are kept."""
    if errors not in ("raise", "return"):
        raise wrong(f"predict_many(errors={errors!r}) is not known", 'write "raise" or "return"')
    tasks = [(each,) for each in _several("predict_many", scenarios)]
    found = spread(_predicted, tasks, executor, jobs, progress)
    for index, one in enumerate(found):
        if isinstance(one, RehearseError):
            one.index = index
            if errors == "raise":
                raise one
    return found


def explain(
    scenario: Question, *, overrides: Mapping[str, Any] | None = None, **given: Any
) -> Answer[Explain | Kernels]:
    """What bounds a step, and what more of each resource buys. `more="25%"` and the command's other
    options are keywords."""
    words = [*assignments(overrides or {}), *options(given)]
    with question_file(scenario, "scenario.yaml") as (file, folder):
        return Answer(as_json(["explain", file, "--quiet", *words], folder))


def _simulated(question: Question, points: str, words: Sequence[str]) -> bytes:
    """What one worker does for a plan: simulates points that it handed out; the file of results."""
    with question_file(question, "plan.yaml") as (file, folder), _kept(None) as kept:
        run(["plan", file, "--quiet", "--jobs", "1", "--points", points, "--output", kept, *words],
            folder)  # fmt: skip
        return (Path(kept) / "results.sqlite").read_bytes()


def plan(
    question: Question,
    *,
    overrides: Mapping[str, Any] | None = None,
    output: str | Path | None = None,
    executor: Executor | None = None,
    progress: bool = False,
    **given: Any,
) -> Answer[PlanResult | RolloutPlan]:
    """Searches for the best choice under limits. Results stay in `output`, so that a plan that was
    stopped goes on; without it they go. With `executor` its workers simulate the candidates, one a
    call, as many side by side as the search looks at before it prunes again: 16, or 4 layouts."""
    words, own = assignments(overrides or {}), options(given)
    with question_file(question, "plan.yaml") as (file, folder), _kept(output) as kept:
        all_words = ["plan", file, "--quiet", "--output", kept, *words, *own]
        if executor is None:
            return Answer(as_json(all_words, folder))

        def simulate(points: str) -> list[bytes]:
            tasks = [(question, each, words) for each in points.split()]
            return spread(_simulated, tasks, executor, progress=progress)

        hand_out([*all_words, "--hand-out"], folder, simulate)
        return Answer(json.loads((Path(kept) / "plan.json").read_text()))


class _kept:
    """The folder of results: the user's, or one that goes."""

    def __init__(self, output: str | Path | None) -> None:
        if output is not None and not isinstance(output, (str, os.PathLike)):
            raise wrong(f"`output` is the folder of results; got {output!r:.60}",
                        'name it, as output="results", or leave it out')  # fmt: skip
        self.own = None if output else tempfile.TemporaryDirectory(prefix="rehearse-")
        self.folder = str(Path(output).resolve()) if output else ""

    def __enter__(self) -> str:
        return f"{self.own.name}/results" if self.own else self.folder

    def __exit__(self, *_: object) -> None:
        if self.own:
            self.own.cleanup()


# A sweep ends with 1 where points failed; their rows have the error.
SOME_FAILED = (BoundNotMet.exit_code,)


def _shard(study: Question, number: int, count: int, words: Sequence[str]) -> dict[str, bytes]:
    """What one worker does: its share of the points; the files of its results."""
    with question_file(study, "study.yaml") as (file, folder), _kept(None) as kept:
        run(["sweep", file, "--quiet", "--jobs", "1", "--shard", f"{number}/{count}", "--output",
             kept, "--format", "json", *words], folder, accept=SOME_FAILED)  # fmt: skip
        return {each.name: each.read_bytes() for each in Path(kept).iterdir() if each.is_file()}


def sweep_document(
    study: Question,
    *,
    overrides: Mapping[str, Any] | None = None,
    output: str | Path | None = None,
    executor: Executor | None = None,
    tasks: int = 16,
    jobs: int | None = None,
    progress: bool = False,
) -> dict[str, Any]:
    """The study as `rehearse sweep --format json` prints it; see `sweep`."""
    words = assignments(overrides or {})
    with question_file(study, "study.yaml") as (file, folder), _kept(output) as kept:
        if executor is not None:
            shards = [(study, i + 1, tasks, words) for i in range(tasks)]
            Path(kept).mkdir(parents=True, exist_ok=True)
            for files in spread(_shard, shards, executor, progress=progress):
                for name, content in files.items():
                    (Path(kept) / name).write_bytes(content)
            run(["collect", kept], accept=SOME_FAILED)
        all_jobs = ["--jobs", str(jobs)] if jobs else []
        printed = run(["sweep", file, "--quiet", "--output", kept, *all_jobs, *words, "--format",
                       "json"], folder, accept=SOME_FAILED)  # fmt: skip
        document: dict[str, Any] = json.loads(printed)
        return document


def sweep(
    study: Question,
    *,
    overrides: Mapping[str, Any] | None = None,
    output: str | Path | None = None,
    executor: Executor | None = None,
    tasks: int = 16,
    jobs: int | None = None,
    progress: bool = False,
    kind: str = "auto",
) -> Any:
    """Predicts every point of a study: a DataFrame (pandas or polars, if installed) with a row for
    each, the axes first. With `executor` the points are shared among `tasks` calls of its workers,
    wherever they run; the program must be installed there. `output` keeps the results: a sweep that
    was stopped goes on."""
    document = sweep_document(
        study, overrides=overrides, output=output, executor=executor, tasks=tasks, jobs=jobs,
        progress=progress,
    )  # fmt: skip
    return frame([_row(point) for point in document["points"]], kind)


def _number(label: str) -> Any:
    for kind in (int, float):
        try:
            return kind(label)
        except ValueError:
            continue
    return label


def _row(point: Mapping[str, Any]) -> Row:
    axes = {key: _number(label) for key, label in point["vary"].items()}
    return {**axes, "error": point["error"], **flat(point["report"] or {})}


def compare(
    first: Question, second: Question, **given: Any
) -> Answer[Compare | MeasuredComparison]:
    """What differs between two trainings, by how much and by which mechanism: `inputs`, `figures`,
    `step`, `collectives` and `memory`, below the sentences of `answer`."""
    with question_file(first, "first.yaml") as (one, folder_one):
        with question_file(second, "second.yaml") as (two, folder_two):
            files = [str(Path(folder or ".").resolve() / file)
                     for file, folder in ((one, folder_one), (two, folder_two))]  # fmt: skip
            return Answer(as_json(["compare", *files, *options(given)]))


def forecast(
    curves: Iterable[str | Path],
    *,
    overrides: Mapping[str, Any] | None = None,
    **given: Any,
) -> Answer[Any]:
    """What staleness does to accuracy, from curves of short runs."""
    words = [*assignments(overrides or {}), *options(given)]
    return Answer(as_json(["forecast", *map(file_name, _several("forecast", curves)), *words]))


def validate(sets: Iterable[str | Path] = (), *, kind: str = "auto", **given: Any) -> Any:
    """Predictions beside measurements: a row for each case and metric."""
    document = as_json(["validate", "--quiet", *map(file_name, _several("validate", sets)), *options(given)])
    rows: list[Row] = []
    for file in document["files"]:
        for case in file["cases"]:
            rows += [{"set": file["set"], "case": case["name"], **flat(each)}
                     for each in case["metrics"]]  # fmt: skip
    return frame(rows, kind)


def check(*files: Question) -> list[Mistake]:
    """All mistakes of scenarios, studies, plans, clusters and profiles; none: an empty list.

    >>> check({"model": {"use": "resnet5", "batch_per_gpu": 1}, "cluster": {"use": "dgx_h100"},
    ...        "strategy": {"ddp": {}}})[0].remedy
    'did you mean "resnet50"?'
    """
    found: list[Mistake] = []
    for each in files:
        with question_file(each, "scenario.yaml") as (file, folder):
            try:
                run(["check", "--quiet", file], folder)
            except InputError as error:
                found += error.mistakes
    return found

