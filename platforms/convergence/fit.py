#!/usr/bin/env python3
"""Fits what DiLoCo costs in loss to rows.csv and prints the lines of methods.yaml.

ln(loss / data parallel's) = -gain N / (N + gain_size) + gap (M - 1)^power (N / 1e9)^-fade (H / 30)^period

    platforms/convergence/fit.py     needs SciPy
"""
import csv
import math
import pathlib

import numpy
from scipy.optimize import least_squares

ROWS = list(csv.DictReader(open(pathlib.Path(__file__).parent / "rows.csv")))


def of(source):
    return [row for row in ROWS if row["source"].startswith(source)]


def diloco_points():
    rows = of("arXiv 2503.09799")
    fresh = {r["model"]: float(r["value"]) for r in rows if r["method"] == "data parallel"}
    return [(float(r["parameters"]), int(r["replicas"]), math.log(float(r["value"]) / fresh[r["model"]]))
            for r in rows if r["method"] == "DiLoCo"]


def law(p, size, replicas):
    gain, log_size, gap, power, fade = p
    return (-gain * size / (size + math.exp(log_size))
            + gap * (replicas - 1.0) ** power * (size / 1e9) ** -fade)


def fitted(points):
    start = [0.004, math.log(1e8), 0.003, 0.87, 0.23]
    return least_squares(lambda p: [law(p, n, m) - y for n, m, y in points], start,
                         x_scale=[0.001, 1, 0.001, 0.1, 0.1]).x


def rms(values):
    return math.sqrt(numpy.mean(numpy.square(values)))


def main():
    points = diloco_points()
    p = fitted(points)
    print(f"  gain: {p[0]:.4g}\n  gain_size: {math.exp(p[1]) / 1e6:.1f}e6\n  gap: {p[2]:.4g}\n"
          f"  power: {p[3]:.4g}\n  fade: {p[4]:.4g}")
    print(f"# residual of ln(ratio): rms {rms([law(p, n, m) - y for n, m, y in points]):.5f}")
    for size in sorted({n for n, _, _ in points}):
        others = fitted([one for one in points if one[0] != size])
        off = [law(others, n, m) - y for n, m, y in points if n == size]
        print(f"# {size / 1e6:.0f}M left out: rms {rms(off):.5f}")


main()
