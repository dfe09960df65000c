"""Rows as a DataFrame of pandas or polars, whichever is installed, or as maps."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Mapping
from typing import Any

Row = dict[str, Any]


def flat(document: Mapping[str, Any], before: str = "") -> Row:
    """Numbers, texts and flags of a document, by dotted names.

    >>> flat({"memory": {"fits": True, "programs": []}, "mfu": 0.4})
    {'memory.fits': True, 'mfu': 0.4}
    """
    row: Row = {}
    for key, value in document.items():
        if isinstance(value, Mapping):
            row.update(flat(value, f"{before}{key}."))
        elif not isinstance(value, (list, tuple)):
            row[before + key] = value
    return row


def frame(rows: list[Row], kind: str = "auto") -> Any:
    """`kind`: pandas, polars, rows, or auto: the first of them that is installed."""
    kinds = ("pandas", "polars") if kind == "auto" else (kind,)
    for each in kinds:
        if each != "rows" and importlib.util.find_spec(each):
            return importlib.import_module(each).DataFrame(rows)
    if kind not in ("auto", "rows"):
        raise ValueError(f"{kind!r} is not installed; known: pandas, polars, rows, auto")
    return rows
