"""`import record SECOND --append FIRST`: a record takes batches and collectives of another one."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path
from typing import Any

from .command import analyse, measured
from .measure import Measured, NothingRecorded
from .options import HELP_OF_JOINING

ANOTHER = "record the same network at another batch or with more ranks"


def join(words: list[str]) -> int:
    """`import record SECOND --append FIRST`: FIRST gets the batches and collectives of SECOND."""
    if {"-h", "--help"} & set(words):
        print(HELP_OF_JOINING, end="")
        return 0
    if len(words) != 3 or "--append" not in words[:2]:
        print("rehearse: error: import record: expected a record and --append with another\n"
              "remedy: rehearse import record SECOND --append FIRST", file=sys.stderr)  # fmt: skip
        return 2
    at = words.index("--append")
    first, second = Path(words[at + 1]), Path(words[0] if at else words[2])
    both = []
    for folder in (first, second):
        if not list(folder.glob("rank_*.json")):
            why = "No such file or directory" if not folder.exists() else "it holds no record"
            return refuse(folder, why, "name a folder that `rehearse record -- COMMAND` wrote")
        try:
            both.append(measured(folder)[0])
        except NothingRecorded as why:
            return refuse(folder, f"nothing of it can be joined: {str(why).splitlines()[0]}",
                          "record the run again, with 17 steps and more")  # fmt: skip
    if [(u.name, u.tensors) for u in both[0].units] != [(u.name, u.tensors) for u in both[1].units]:
        return refuse(second, f"it is of another network than {first}", ANOTHER)
    held = [first, *sorted(first.glob("joined/*"))]
    if ranks_of(second) in [ranks_of(one) for one in held]:
        return refuse(second, f"{first} holds this very run", ANOTHER)
    others = [both[0], *(measured(folder)[0] for folder in held[1:])]
    if tells(both[1]) <= set[Any]().union(*(tells(one) for one in others)):
        return refuse(second, f"{first} has its batch and its ranks: it tells nothing new", ANOTHER)
    place = first / "joined" / str(len(held))
    place.mkdir(parents=True)
    for file in [*second.glob("rank_*.json"), *second.glob("trace_rank_*.json.gz")]:
        shutil.copy(file, place)
    return 0 if analyse(first, code_of(first)) else 3


def refuse(folder: Path, why: str, remedy: str) -> int:
    print(f"{folder}: error: {why}\nremedy: {remedy}", file=sys.stderr)
    return 2


def ranks_of(folder: Path) -> list[bytes]:
    """What its ranks saw, which no two runs have alike."""
    return [file.read_bytes() for file in sorted(folder.glob("rank_*.json"))]


def tells(found: Measured) -> set[tuple[Any, ...]]:
    """What of a record another one takes: its batch, and its collectives by ranks and nodes."""
    own = {("batch", found.batch)} if found.batch_known else set[tuple[Any, ...]]()
    return own | {(point.what, point.ranks, found.nodes) for point in found.points}


def code_of(folder: Path) -> int:
    """The recorded run's own end."""
    text = (folder / "record.yaml").read_text() if (folder / "record.yaml").exists() else ""
    found = re.search(r"^exit_code: (\d+)$", text, re.MULTILINE)
    return int(found[1]) if found else 0
