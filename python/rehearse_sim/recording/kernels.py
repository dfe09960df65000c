"""Times of a step by operator and shape: a table to read, and to lay beside `explain --kernels`."""

from __future__ import annotations

import csv
from pathlib import Path

from .statistic import median, spread
from .trace import Step

COLUMNS = ("phase", "kernel", "operator", "shapes", "types", "in_a_step", "time_us_in_a_step",
           "share", "spread")  # fmt: skip


def write(place: Path, steps: list[Step]) -> None:
    """The kernels of a GPU, of a CPU the outermost operators; the longest first."""
    seen = {key for step in steps for key in step.kernels}
    rows = []
    for key in seen:
        times = [sum(step.kernels.get(key, [])) for step in steps]
        counts = [len(step.kernels.get(key, [])) for step in steps]
        rows.append((median(times), median([float(count) for count in counts]), spread(times), key))
    whole = sum(time for time, *_ in rows) or 1.0
    with place.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(COLUMNS)
        for time, count, apart, key in sorted(rows, key=lambda row: (-row[0], row[3])):
            table.writerow([*key, f"{count:g}", f"{time:.1f}", f"{time / whole:.4f}",
                            f"{apart:.3f}"])  # fmt: skip
