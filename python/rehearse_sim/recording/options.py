"""Words of the command line."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


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
