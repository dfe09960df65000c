"""What the program says is wrong, as exceptions: with file, line, column and remedy."""

from __future__ import annotations

import re
from dataclasses import dataclass

HEAD = re.compile(
    r"^(?P<file>.*?)(?::(?P<line>\d+))?(?::(?P<column>\d+))?: error: (?P<message>.*)$"
)


@dataclass(frozen=True)
class Mistake:
    """One mistake of a file, where it stands, and what helps."""

    message: str
    file: str = ""
    line: int | None = None
    column: int | None = None
    remedy: str = ""


class RehearseError(Exception):
    """The program ended without a result. `mistakes` are all that it said; the attributes are the
    first one's. `index`: of predict_many, whose scenario's it is."""

    exit_code = 70
    index: int | None = None

    def __init__(self, text: str, mistakes: list[Mistake]) -> None:
        super().__init__(text)
        self.mistakes = mistakes
        first = mistakes[0] if mistakes else Mistake(text)
        self.message, self.remedy = first.message, first.remedy
        self.file, self.line, self.column = first.file, first.line, first.column

    def __reduce__(self) -> tuple[object, tuple[str, list[Mistake]]]:
        return type(self), (str(self), self.mistakes)


class BoundNotMet(RehearseError):
    """A condition that was asked for does not hold."""

    exit_code = 1


class InputError(RehearseError):
    """A file, a key or an option is wrong."""

    exit_code = 2


class CannotFinish(RehearseError):
    """The simulation cannot come to an end."""

    exit_code = 3


class MissingError(RehearseError):
    """A file, a package or a program is not there."""

    exit_code = 4


class OurBug(RehearseError):
    """An error of Rehearse itself: please report it."""


def wrong(message: str, remedy: str) -> InputError:
    """Of an argument, which no file has.

    >>> wrong("no list", "put it into one").remedy
    'put it into one'
    """
    return InputError(f"rehearse: error: {message}\nremedy: {remedy}", [Mistake(message, remedy=remedy)])


KINDS = {kind.exit_code: kind for kind in (BoundNotMet, InputError, CannotFinish, MissingError)}


def read_mistakes(text: str) -> list[Mistake]:
    """From what the program printed.

    >>> one, = read_mistakes("a.yaml:3:5: error: unknown key\\nremedy: leave it out")
    >>> one.line, one.column, one.remedy
    (3, 5, 'leave it out')
    """
    found: list[Mistake] = []
    for line in text.splitlines():
        head = HEAD.match(line)
        if head:
            number = {key: int(head[key]) if head[key] else None for key in ("line", "column")}
            found.append(Mistake(head["message"], head["file"], number["line"], number["column"]))
        elif line.startswith("remedy: ") and found:
            last = found[-1]
            found[-1] = Mistake(last.message, last.file, last.line, last.column, line[8:])
    return found


def error_of(exit_code: int, text: str) -> RehearseError:
    kind: type[RehearseError] = KINDS.get(exit_code, OurBug)
    return kind(text.strip() or f"rehearse ended with {exit_code}", read_mistakes(text))
