"""What the fits have in common: tables, datasheets, folds and errors."""
import csv
import hashlib
import pathlib

import numpy as np
from scipy.optimize import least_squares

import closed_forms as forms


HERE = pathlib.Path(__file__).resolve().parent

FOLDS = 5

# Datasheets (platforms/gpus.yaml): TFLOP/s of 16 bits, tf32 and fp32, GB/s, streaming multiprocessors.
SHEET = {
    "A100-SXM-80": (312, 156, 19.5, 2039, 108),
    "A100-SXM-40": (312, 156, 19.5, 1555, 108),
    "A100-PCIe-40": (312, 156, 19.5, 1555, 108),
    "A100-PCIe-80": (312, 156, 19.5, 1935, 108),
    "H100-SXM": (989, 494.5, 67, 3350, 132),
    "GH200-96": (989, 494.5, 67, 4000, 132),
    "H200-SXM": (989, 494.5, 67, 4800, 132),
    "B200": (2250, 1125, 75, 8000, 148),
    "L40S": (362, 183, 91.6, 864, 142),
    "RTX-PRO-6000": (504, 252, 126, 1792, 188),
    "A40-PCIe": (149.7, 74.8, 37.4, 696, 84),
    "V100-SXM2-16": (125, 15.7, 15.7, 900, 80),
    "V100-PCIe-32": (112, 14, 14, 900, 80),
    "T4": (65, 8.1, 8.1, 320, 40),
    "RTX-3090": (71, 35.6, 35.6, 936, 82),
}

# TFLOP/s of 8 bits, where products of them were measured.
NARROW = {"H100-SXM": 1979, "H200-SXM": 1979}

# Cards with another memory alone.
SAME_CHIP = {"A100-SXM-80": ("A100-SXM-40",), "V100-SXM2-16": ("V100-SXM2-32",)}

FORMAT = {"tensor": 0, "tf32": 1, "fp32": 2}

ERRORS, SAMPLES = [], []

# By GPU and kernels: by size the least and the largest that was measured.
SPANS = {}

def device(gpu, format="tensor"):
    sheet = SHEET[gpu]
    peak = NARROW[gpu] if format == "fp8" else sheet[FORMAT[format]]
    return forms.Device(peak * 1e12, sheet[3] * 1e9, sheet[4])

def table(name, **where):
    with open(HERE / "data" / name, encoding="utf-8") as file:
        rows = [
            row
            for row in csv.DictReader(file)
            if all(row[key] == value for key, value in where.items())
        ]
    return rows

def columns(rows, *names):
    return [np.array([float(row[name]) for row in rows]) for name in names]

def significant(values):
    """As they are written: four digits."""
    return np.array([float(f"{value:.4g}") for value in values])

def fold_of(*sizes):
    return np.array(
        [
            int(hashlib.sha256(repr(shape).encode()).hexdigest()[:8], 16) % FOLDS
            for shape in zip(*sizes)
        ]
    )

def span(gpu, kernels, **sizes):
    """Writes down from where to where the points of a fit go; more of them widen it."""
    known = SPANS.setdefault((gpu, kernels), {})
    for name, values in sizes.items():
        low, high = known.get(name, (np.inf, 0))
        known[name] = (min(low, np.min(values)), max(high, np.max(values)))


def measure(gpu, family, kind, errors, source, points=None):
    """Writes down what ln(predicted / measured) of points that a fit did not see comes to."""
    if len(errors) < 3:
        return None  # too few to say
    relative = np.expm1(errors)
    size = np.abs(relative)
    row = dict(
        gpu=gpu,
        family=family,
        held_out=kind,
        points=points or len(errors),
        mean=size.mean(),
        median=np.median(size),
        p90=np.quantile(size, 0.9),
        bias=relative.mean(),
        source=source,
    )
    ERRORS.append(row)
    return row

def solve(residuals, start, low, high):
    scale = [max(abs(x), 0.05) for x in start]
    return least_squares(
        residuals,
        np.clip(start, low, high),
        bounds=(low, high),
        loss="soft_l1",
        f_scale=0.1,
        x_scale=scale,
    ).x

def others_median(values):
    """How far each rate lies from the median of the others."""
    index = np.arange(len(values))
    return np.array([np.log(values[i] / np.median(values[index != i])) for i in index])


def forget(gpu, family):
    """A later fit of these kernels takes the place of an earlier one."""
    ERRORS[:] = [
        row
        for row in ERRORS
        if (row["gpu"], row["family"]) != (gpu, family) or "GPU" in row["held_out"]
    ]

def sample(gpu, family, sizes, seconds, limit=60):
    order = np.argsort(fold_of(*sizes) * 1e6 + np.arange(len(sizes[0])) * 7919 % 1e6)[:limit]
    for i in order:
        SAMPLES.append(
            [gpu, family]
            + [f"{size[i]:g}" for size in sizes]
            + [""] * (6 - len(sizes))
            + [f"{seconds[i]:.9e}"]
        )
