"""Finds the program and runs it: words in, JSON out."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from .errors import InputError, MissingError, error_of, wrong
from .hub import fetch_config

Question = Mapping[str, Any] | str | Path

FILES = (".yaml", ".yml", ".json", ".csv", ".toml")


def program() -> str:
    """The program: of REHEARSE, of this package, of the sources around it, or on the path.
    MissingError where REHEARSE names none."""
    here = Path(__file__).resolve().parent
    named = os.environ.get("REHEARSE", "")
    places = [here / "bin" / "rehearse", here.parents[1] / "build" / "release" / "rehearse"]
    for place in [Path(named)] if named else places:
        if place.is_file() and os.access(place, os.X_OK):
            return os.path.abspath(place)  # a question has a folder of its own
    if named:
        raise MissingError(
            f"rehearse: error: REHEARSE is no program; got \"{named}\"\n"
            "remedy: set it to the program's file, or unset it", []
        )  # fmt: skip
    found = shutil.which("rehearse")
    if found:
        return found
    raise MissingError(
        "rehearse: error: the program is not there\n"
        "remedy: pip install rehearse-sim, or set REHEARSE to the program", []
    )  # fmt: skip


def shipped(name: str = "") -> Path:
    """What comes with the program, such as a scenario; without a name the folder that holds them.

    >>> shipped("scenarios/toy_ddp.yaml").exists()
    True
    """
    own = Path(program()).resolve()
    named = os.environ.get("REHEARSE_DATA")
    places = [Path(named)] if named else [own.parent.parent / "share" / "rehearse", *own.parents]
    for place in places:
        if (place / "platforms" / "gpus.yaml").exists():
            return place / name
    raise MissingError(
        f"{own}: error: no platforms/ and scenarios/ are beside the program\n"
        "remedy: set REHEARSE_DATA to the folder that holds them", []
    )  # fmt: skip


def run(
    words: Sequence[str], folder: str | Path | None = None, *, accept: Sequence[int] = ()
) -> str:
    """What the program prints; RehearseError where it ends without a result: with neither 0 nor a
    code of `accept`. A config of the hub that it lacks is fetched first, where that can be."""
    fetched = False
    while True:
        done = subprocess.run(
            [program(), *words], cwd=folder, capture_output=True, text=True, check=False
        )
        if done.returncode in (0, *accept):
            return done.stdout
        error = error_of(done.returncode, done.stderr)
        if fetched or not fetch_config(error):
            raise error
        fetched = True


def hand_out(
    words: Sequence[str], folder: str | Path | None, simulate: Callable[[str], list[bytes]]
) -> None:
    """Runs a command that prints a line of what others shall simulate, and takes what they bring as
    files of results; RehearseError where it ends without a result."""
    with (
        tempfile.TemporaryDirectory(prefix="rehearse-") as own,
        open(f"{own}/errors", "w+") as told,
    ):
        with subprocess.Popen([program(), *words], cwd=folder, text=True, stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, stderr=told) as process:  # fmt: skip
            assert process.stdin and process.stdout
            for wave, line in enumerate(process.stdout):
                for number, content in enumerate(simulate(line)):
                    file = Path(own) / f"{wave}_{number}.sqlite"
                    file.write_bytes(content)
                    process.stdin.write(f"{file}\n")
                process.stdin.write("\n")
                process.stdin.flush()
        if process.returncode != 0:
            told.seek(0)
            raise error_of(process.returncode, told.read())


def _number(value: Any) -> Any:
    """A number or an array of another package, such as numpy's, as Python's own."""
    for convert in ("tolist", "__index__", "__float__"):
        if hasattr(value, convert):
            return getattr(value, convert)()
    kind = type(value).__name__
    raise InputError(
        f"rehearse: error: a question holds maps, lists, texts and numbers; got a {kind}\n"
        "remedy: convert it, such as list(...) for a set", []
    )  # fmt: skip


def _absolute(value: Any) -> Any:
    """What a question holds as JSON has it. Files that it names are as seen from here; the question
    itself is written elsewhere."""
    if isinstance(value, Mapping):
        return {str(key): _absolute(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_absolute(each) for each in value]
    if isinstance(value, Path):
        return str(value.resolve())
    if isinstance(value, str) and (value.endswith(FILES) or "/" in value) and Path(value).exists():
        return str(Path(value).resolve())
    if value is None or isinstance(value, (str, int, float)):
        return value
    return _number(value)


def _written(value: Any) -> Any:
    """The same; InputError for a map within itself."""
    try:
        return _absolute(value)
    except RecursionError:
        raise InputError(
            "rehearse: error: a map or a list of the question holds itself\n"
            "remedy: copy what is inside", []
        ) from None  # fmt: skip


def _write(file: Path, document: Mapping[str, Any]) -> None:
    file.write_text(json.dumps(document, indent=1) + "\n")


def file_name(file: str | Path) -> str:
    """As the program takes it: no option where it begins with a dash.

    >>> file_name("--help.yaml")
    './--help.yaml'
    """
    name = str(file)
    return f"./{name}" if name.startswith("-") else name


@contextlib.contextmanager
def question_file(question: Question, name: str) -> Iterator[tuple[str, str | None]]:
    """The file of a question, and the folder to run in; a map is written to one of its own.
    InputError where it is neither."""
    if not isinstance(question, (Mapping, str, os.PathLike)):
        raise wrong(f"a question is a file's name or a map; got {question!r:.60}",
                    f'name its file, as "{name}", or write its keys: {{...}}')  # fmt: skip
    if not isinstance(question, Mapping):
        yield file_name(question), None
        return
    with tempfile.TemporaryDirectory(prefix="rehearse-") as folder:
        written = _written(question)
        if isinstance(written.get("scenario"), dict):  # of a study or a plan
            _write(Path(folder) / "scenario.yaml", written["scenario"])
            written["scenario"] = "scenario.yaml"
        _write(Path(folder) / name, written)
        yield name, folder


def assignments(overrides: Mapping[str, Any]) -> list[str]:
    """`--set` for each; a key may be `cluster.nodes`, or `cluster__nodes` as Python's keyword.

    >>> assignments({"cluster__nodes": 8, "model.precision": "bf16"})
    ['--set', 'cluster.nodes=8', '--set', 'model.precision=bf16']
    """
    words: list[str] = []
    for key, value in overrides.items():
        text = value if isinstance(value, str) else json.dumps(_written(value))
        words += ["--set", f"{key.replace('__', '.')}={text}"]
    return words


def options(given: Mapping[str, Any]) -> list[str]:
    """Options of a command: `whole_run=True`, `at="2h"`; None is left out.

    >>> options({"at": "2h", "best_bound": True, "jobs": None})
    ['--at', '2h', '--best-bound']
    """
    words: list[str] = []
    for key, value in given.items():
        if value is None or value is False:
            continue
        words.append("--" + key.replace("_", "-"))
        if value is not True:
            words.append(str(value))
    return words


def as_json(words: Sequence[str], folder: str | Path | None = None) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run([*words, "--format", "json"], folder))
    return found
