"""Medians and spreads."""

from __future__ import annotations

import statistics

MICRO = 1e-6
# A wider one is another program's on the same cores, and none that ranks draw anew in each step.
MOST_SPREAD = 0.5


def median(values: list[float]) -> float:
    return statistics.median(values) if values else 0.0


def spread(values: list[float]) -> float:
    """Quartiles apart, over the median; no more than MOST_SPREAD."""
    if len(values) < 4:
        return 0.0
    low, middle, high = statistics.quantiles(values, n=4)
    return min(MOST_SPREAD, (high - low) / middle) if middle > 0 else 0.0
