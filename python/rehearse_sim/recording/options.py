"""Words of the command line."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

USAGE = "Usage: rehearse record [OPTIONS] -- COMMAND"
HELP = """\
Record a training run of yours as a scenario: the command runs unchanged, with its own exit code.
Usage: rehearse record [OPTIONS] -- COMMAND

Options:
  -h,--help                   Print this help message and exit
  --steps N                   Steps that PyTorch's profiler sees (8)
  --warmup N                  Steps at first that count for nothing (5)
  --timed N                   Steps between them that are only timed (12)
  --ranks 0,8 | all           Ranks whose steps are profiled (0)
  --out DIR                   Folder that is written (record)
  --stop                      End the command when all ranks are recorded
  --names                     Keep the names of hosts
  --quiet                     Say nothing on standard error

DIR/scenario.yaml is what `rehearse run` takes. DIR/record.yaml says what was measured, and what is
unknown. With several nodes DIR has to be on storage that they share.
`rehearse import record SECOND --append FIRST` gives FIRST the batches and collectives of SECOND.
"""
HELP_OF_JOINING = """\
Give a record the batches and collectives of another one
Usage: rehearse import record [OPTIONS] SECOND

Positionals:
  SECOND                      The other record's folder: the same network at another batch, or
                              with more ranks

Options:
  -h,--help                   Print this help message and exit
  --append FIRST              Folder of the record that gets them, and is written anew
"""


@dataclass
class Options:
    steps: int = 8
    warmup: int = 5
    timed: int = 12
    ranks: Any = field(default_factory=lambda: [0])
    out: Path = Path("record")
    stop: bool = False
    names: bool = False
    quiet: bool = False
    command: list[str] = field(default_factory=list)
    parent: str = field(default_factory=lambda: secrets.token_hex(8))


class WrongWords(Exception):
    """What is wrong in the command line, and a remedy."""


def parse(words: list[str]) -> Options:
    options = Options()
    numbers = {"--steps": "steps", "--warmup": "warmup", "--timed": "timed"}
    at = 0
    while at < len(words):
        word = words[at]
        if word == "--":
            options.command = words[at + 1 :]
            break
        name, equals, value = word.partition("=")
        if name in ("--stop", "--names", "--quiet") and not equals:
            setattr(options, name[2:], True)
            at += 1
            continue
        if name not in (*numbers, "--ranks", "--out"):
            if not name.startswith("-"):
                raise WrongWords(f'the command stands behind "--"; got "{word}" before it\n'
                                 f"remedy: rehearse record -- {' '.join(words[at:])}")  # fmt: skip
            raise WrongWords(f'unknown option "{word}"\nremedy: known: --steps, --warmup, --timed, '
                             "--ranks, --out, --stop, --names, --quiet")  # fmt: skip
        if not equals:
            at += 1
            value = words[at] if at < len(words) else ""
        if not value or value == "--":
            raise WrongWords(f"{name}: its value is missing")
        if name in numbers:
            low = 1 if name in ("--steps", "--warmup") else 0
            if not value.isdigit() or not low <= int(value) <= 10000:
                raise WrongWords(f'{name}: expected {low} to 10000; got "{value}"')
            setattr(options, numbers[name], int(value))
        elif name == "--ranks":
            parts = value.split(",")
            if value != "all" and not all(part.isdigit() for part in parts):
                raise WrongWords(f'--ranks: expected numbers such as 0,8, or all; got "{value}"')
            options.ranks = value if value == "all" else [int(part) for part in parts]
        else:
            options.out = Path(value)
        at += 1
    if not options.command:
        raise WrongWords("the command is missing\nremedy: rehearse record -- torchrun train.py")
    return options
