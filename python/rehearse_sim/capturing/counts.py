"""Whole numbers that users give; torch is not needed for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def whole(name: str, value: Any, example: str) -> None:
    """TypeError or ValueError unless `value` is a whole number of 1 or more."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} is a whole number, not {value!r}: {example}")
    if value < 1:
        raise ValueError(f"{name} is 1 or more, not {value}: {example}")


def degrees(name: str, said: Any) -> list[int]:
    """How many ranks, one number or several; TypeError or ValueError where it is neither."""
    example = f"{name}=4 or {name}=(2, 4)"
    listed = list(said) if isinstance(said, Sequence) and not isinstance(said, str) else [said]
    for each in listed:
        whole(name, each, example)
        if each < 2:
            raise ValueError(f"{name} is 2 ranks or more, not {each}: {example}")
    return listed
