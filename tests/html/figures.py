"""Numbers as the terminal writes them, and where a page's figures stand in its document. Of its own: nothing is shared with
the page's scripts, whose texts are compared with these."""

import math


def general(value, digits=3):
    return f"{value:.{digits}g}"


def to_three_digits(value):
    if value == 0 or value >= 1000:
        return math.floor(value + 0.5)
    step = 10.0 ** (math.floor(math.log10(value)) - 2)
    return math.floor(value / step + 0.5) * step


def three_digits(value):
    rounded = to_three_digits(value)
    if rounded >= 100:
        return f"{rounded:.0f}"
    if rounded >= 10:
        return f"{rounded:.1f}"
    return f"{rounded:.2f}" if rounded >= 1 else general(rounded)


def in_unit(value, units, base):
    if value == 0:
        return f"0 {base}"
    if value < 0:
        return "-" + in_unit(-value, units, base)
    name, scale = units[0]
    for larger, next_scale in units[1:]:
        if to_three_digits(value / scale) < next_scale / scale * (1 - 1e-12):
            break
        name, scale = larger, next_scale
    return f"{three_digits(value / scale)} {name}"


def time(value):
    if value < 0:
        return "-" + time(-value)
    if value < 59.95:
        return in_unit(value, [("ns", 1e-9), ("us", 1e-6), ("ms", 1e-3), ("s", 1)], "s")
    whole = math.floor(value + 0.5)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    minutes = math.floor(value / 60 + 0.5)
    if minutes < 48 * 60:
        return f"{minutes // 60} h {minutes % 60:02d} min"
    hours = math.floor(value / 3600 + 0.5)
    return f"{hours // 24} d {hours % 24:02d} h"


def size(value):
    if abs(value) < 1024 and value == int(value):
        return f"{value:.0f} B"
    names = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"]
    return in_unit(value, [(name, 1024.0**i) for i, name in enumerate(names)], "B")


def number(value):
    return f"{value:.0f}" if value >= 100 else general(value)


def money(value):
    """Cents of less than 100, else four digits."""
    if abs(value) < 100:
        return f"{value:.2f}"
    unit = 10 ** max(0, math.floor(math.log10(abs(value))) - 3)
    return f"{math.floor(value / unit + 0.5) * unit:.0f}"



FORMATS = {
    "time": time,
    "bytes": size,
    "number": number,
    "rate": lambda value: number(value) + " samples/s",
    "percent": lambda value: f"{100 * value:.1f} %",
    "signedPercent": lambda value: f"{round(100 * value, 1) + 0.0:+.1f} %",
    "points": lambda value: f"{100 * value:.1f} points",
    "usd": lambda value: f"{money(value)} USD",
    "gpuHours": lambda value: number(value) + " GPU hours",
    "energy": lambda value: number(value) + " kWh",
    "mass": lambda value: number(value) + " kg",
    "updates": lambda value: f"{value:.2f} updates",
    "samples": lambda value: f"{value:.0f} samples",
    "whole": str,
}


def shown(value, name):
    return "" if value is None else FORMATS[name](value)


def shown_range(ends, name):
    return f"{shown(ends[0], name)} to {shown(ends[1], name)} (90\u00a0%)"


def member(document, key):
    """The member that dots lead to."""
    for name in key.split("."):
        document = document[name]
    return document


def rows_of(document):
    """What the rows of the page's tables are, by the key that they carry."""
    schema = document["schema"]
    if schema == "rehearse.study/1":
        return {str(point["point"]): point for point in document["points"]}
    if schema == "rehearse.plan/1":
        return {str(row["rank"]): row for row in document["ranking"]}
    if schema == "rehearse.validation/2":
        cases = [case for file in document["files"] for case in file["cases"]]
        return {str(i): metric for i, metric in enumerate(metric for case in cases for metric in case["metrics"] or [{}])}
    lists = {"rehearse.explain/1": "more", "rehearse.forecast/1": "strategies", "rehearse.curves/1": "runs",
             "rehearse.compare/1": "figures"}
    return {str(i): row for i, row in enumerate(document.get(lists.get(schema, ""), []))}


def interval_of(document, key):
    if key == "accuracy.accuracy":
        return document["accuracy"]["accuracy_interval"]
    if key.startswith("choice.metrics."):
        return document["choice"]["intervals"][key.removeprefix("choice.metrics.")]
    return document["intervals"][key]
