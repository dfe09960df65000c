"""Fits of source R to kernels of image networks: convolutions, conversions of layouts, batch norm, max pooling."""

import numpy as np

import closed_forms as forms
from common import FOLDS, SHEET, columns, device, fold_of, measure, others_median, solve, span, table
from hopper import GPUS


def image_rows(gpu, kind, op, direction):
    """Elements of each size, its channels, and seconds."""
    rows = table("image_hopper.csv", gpu=gpu, kind=kind, op=op, direction=direction)
    batch, channels, image, t = columns(rows, "batch", "channels", "image", "time_us")
    return batch * channels * image**2, channels, image, t * 1e-6


def batch_norm(gpu="H200-SXM"):
    """Elements that a multiprocessor norms in a second, forward and backward by format. Of contiguous tensors one block
    norms a channel, both in cuDNN and in PyTorch (aten/src/ATen/native/cuda/Normalization.cuh), so that a channel has a
    rate of its own. Planes of 7 x 7 are left out: blocks of a few elements take up to four times as long."""

    def rates(kind, key, direction):
        elements, _, _, t = image_rows(gpu, kind, "batch_norm", direction)
        values = elements / t / SHEET[gpu][4]
        measure(gpu, f"batch norm {key}, {direction}", "shape", others_median(values), "R")
        return np.median(values), None

    def rates_of_channels(kind, key, direction):
        elements, channels, image, t = image_rows(gpu, kind, "batch_norm", direction)
        large = image > 7
        elements, channels, t = elements[large], channels[large], t[large]

        def errors_of(x, pick=slice(None)):
            seconds = elements[pick] * (1 / (x[0] * 1e9 * SHEET[gpu][4]) + 1 / (x[1] * 1e9 * channels[pick]))
            return np.log(seconds / t[pick])

        def fitted(pick):
            return solve(lambda x: errors_of(x, pick), [2, 1], [0.1, 0.1], [20, 20])

        index = np.arange(len(t))
        held_out = np.array([errors_of(fitted(index != i), index == i)[0] for i in index])
        measure(gpu, f"batch norm {key}, {direction}", "shape", held_out, "R")
        return fitted(slice(None)) * 1e9

    found = {}
    for kind, key, of in (
        ("fp32", "fp32", rates_of_channels),
        ("bf16", "bf16", rates_of_channels),
        ("bf16_last", "bf16_channels_last", rates),
    ):
        both = [of(kind, key, direction) for direction in ("forward", "backward")]
        found[key] = [rate for rate, _ in both]
        if both[0][1]:
            found[f"{key}_channel"] = [rate for _, rate in both]
    return found


def max_pool(gpu="H200-SXM"):
    """Elements of windows (of 3 x 3, every second) that a multiprocessor reads in a second, forward and backward by
    layout. Bytes do not bound these kernels: fp32 takes as long as bf16."""

    def rate(kinds, key, direction):
        values = []
        for kind in kinds:
            elements, _, _, t = image_rows(gpu, kind, "max_pool", direction)
            values.append(elements / 4 * 9 / t / SHEET[gpu][4])
        values = np.concatenate(values)
        measure(gpu, f"max pool {key}, {direction}", "shape", others_median(values), "R")
        return np.median(values)

    layouts = (("contiguous", ("fp32", "bf16")), ("channels_last", ("bf16_last",)))
    return {
        key: [rate(kinds, key, direction) for direction in ("forward", "backward")]
        for key, kinds in layouts
    }


def conversion():
    """Elements that a multiprocessor converts between NCHW and NHWC in a second: what a contiguous convolution of bf16
    takes longer than one in channels_last, by its input and output. The H100's memory is slower, and the rate is not."""
    rates = []
    for gpu in GPUS:
        of_both = (convolutions(gpu, kind) for kind in ("bf16", "bf16_last"))
        contiguous, last = ({one.name: one for one in some} for some in of_both)
        for name, one in contiguous.items():
            if one.converts(2) and one.elements > 1e7:  # of the smaller most is launches
                rates.append(one.elements / (one.seconds - last[name].seconds) / SHEET[gpu][4])
    rates = np.array(rates)
    measure("H200-SXM", "conversion of layouts", "shape", others_median(rates), "R")
    return np.median(rates)


class Convolution:
    """A row of the table: the product that it amounts to, and elements of its input and output."""

    def __init__(self, row):
        batch, ci, co, side, stride, image = (
            int(row[key]) for key in ("batch", "in_channels", "out_channels", "filter", "stride", "image")
        )
        padding = 0 if side in (2, 4) else side // 2
        out, window = (image + 2 * padding - side) // stride + 1, side * side
        positions = batch * out * out
        self.name = tuple(row[key] for key in row if key not in ("gpu", "kind", "time_us"))
        self.way, self.seconds = row["direction"], float(row["time_us"]) * 1e-6
        self.layer = ci, co, side, stride, image
        self.size = {
            "forward": (positions, co, ci * window),
            "input": (positions * stride**2, ci, co * window / stride**2),
            "weight": (co, ci * window, positions),
        }[self.way]
        self.elements, self.weights = batch * ci * image**2 + positions * co, co * ci * window
        self.plain, self.plane = side == 1 and stride == 1, image**2

    def converts(self, element):
        """A convolution of 1 x 1 is a product of contiguous planes, too, where each begins at 16 bytes."""
        return not self.plain or self.plane * element % 16 != 0


def convolutions(gpu, kind):
    """Images of 3 channels, whose rows are not aligned, are left out."""
    rows = table("convolution_hopper.csv", gpu=gpu, kind=kind, groups="1")
    return [Convolution(row) for row in rows if int(row["in_channels"]) % 8 == 0]


def convolution(gpu, curves, shares, per_element):
    """As others.convolution, of channels_last. In tf32, of contiguous tensors less their conversions: a share over the
    product's, and the weight's gradient's share, as Hopper multiplies operands in tf32 along rows alone."""

    def fitted(kind, format, element, curve_of, start, low, high):
        rows = convolutions(gpu, kind)
        m, n, k = np.array([one.size for one in rows], float).T
        t = np.array([one.seconds for one in rows])
        moved = element * np.array([one.elements + one.weights for one in rows])
        if kind == "tf32":
            bandwidth = shares["wide_pointwise"] * SHEET[gpu][3] * 1e9
            converted = np.array([one.elements * one.converts(element) for one in rows])
            t = t - np.maximum(converted / (per_element * SHEET[gpu][4]), 2 * element * converted / bandwidth)
        way = np.array([one.way for one in rows])
        # What is converted for longer than it takes says nothing.
        some = t > 2e-6
        m, n, k, t, moved, way = (values[some] for values in (m, n, k, t, moved, way))
        layers = np.array([one.layer for one in rows])[some].T

        def errors_of(x, pick):
            seconds = np.zeros(len(t))
            for one in ("forward", "input", "weight"):
                here = way == one
                sizes = m[here], n[here], k[here]
                seconds[here] = forms.gemm(curve_of(x, one), device(gpu, format), *sizes, moved=moved[here])
            return np.log(seconds / t)[pick]

        def solved(pick):
            return solve(lambda x: errors_of(x, pick), start, low, high)

        folds, held_out = fold_of(*layers), np.zeros(len(t))
        for fold in range(FOLDS):
            held_out[folds == fold] = errors_of(solved(folds != fold), folds == fold)
        name = "convolution" if kind == "bf16_last" else f"convolution, {kind}"
        for one in ("forward", "input", "weight"):
            measure(gpu, f"{name}, {one}", "shape", held_out[way == one], "R")
        measure(gpu, name, "shape", held_out, "R")
        span(gpu, "convolution", rows=m, columns=n, inner=k)
        return solved(np.ones(len(t), bool))

    def like(curve, share, prologue, small):
        return curve[0], share, curve[2], prologue, small, curve[5], curve[6]

    share, prologue, small = fitted(
        "bf16_last",
        "tensor",
        2,
        lambda x, way: like(curves["tensor"], *x),
        [0.8, 100, 0.1],
        [0.1, 0, 0],
        [1.5, 1500, 2],
    )
    wide, weight = fitted(
        "tf32",
        "tf32",
        4,
        lambda x, way: like(curves["tf32"], x[0] * (x[1] if way == "weight" else 1), prologue, small),
        [0.7, 0.7],
        [0.1, 0.1],
        [1.5, 1.5],
    )
    return share, prologue, small, wide, weight
