"""YAML of maps, lists and numbers with units, without a library."""

from __future__ import annotations

import json
import re
from typing import Any


def seconds(value: float) -> str:
    value = max(value, 0.0)
    return f"{value:.6g}s" if value >= 0.1 else f"{1e6 * value:.6g}us"


def rate(value: float) -> str:
    return f"{value / 1e9:.6g}GBps"


def quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def flow(value: Any) -> str:
    """A value as YAML on one line; texts with a number and a unit stand as they are."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {flow(each)}" for key, each in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(flow(each) for each in value) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:.6g}"
    if value is None:
        return "null"
    if isinstance(value, str):
        plain = re.match(r"^[A-Za-z0-9][\w.+/-]*$", value)
        words = ("true", "false", "null", "yes", "no", "on", "off")
        number = re.match(r"^[\d.]+(e[+-]?\d+)?$", value)
        return value if plain and value.lower() not in words and not number else quoted(value)
    return str(value)


def block(value: dict[str, Any], indent: int = 0) -> str:
    """Maps and lists of maps over several lines, all else on one."""
    lines = []
    pad = " " * indent
    for key, each in value.items():
        if isinstance(each, dict) and each and len(flow(each)) > 80:
            lines.append(f"{pad}{key}:\n{block(each, indent + 2)}")
        elif isinstance(each, list) and each and isinstance(each[0], (dict, str)) and (
            len(flow(each)) > 80):  # fmt: skip
            items = "".join(f"{pad}  - {flow(item)}\n" for item in each)
            lines.append(f"{pad}{key}:\n{items}")
        else:
            lines.append(f"{pad}{key}: {flow(each)}\n")
    return "".join(lines)
