"""Fits of source R: kernels that this project measured on one H200-SXM and one H100-SXM, and products inside real
steps there. Both have the same chip: what it computes takes as long, and what memory bounds is by its bandwidth."""

import numpy as np

import closed_forms as forms
import measured
from common import FOLDS, SHEET, columns, device, fold_of, forget, measure, others_median, sample, significant, solve, span, table
from products import HIGH, LOW, residual_table

GPUS = ("H100-SXM", "H200-SXM")
CHIP = "H100-SXM"  # on which others measured, too

LAYOUTS = ("TN", "NN", "NT")  # forward, the input's gradient, the weight's

# Boost clocks of NVIDIA's datasheets, in GHz. Kernels of Turing's instructions and elementwise ones that are not
# vectorized are bound by the multiprocessor: another chip's do as much in a cycle. No V100: other instructions.
CLOCKS = {
    "A100-SXM-80": 1.41,
    "A100-PCIe-80": 1.41,
    "H100-SXM": 1.98,
    "H200-SXM": 1.98,
    "B200": 1.965,
    "L40S": 2.52,
    "RTX-PRO-6000": 2.6,
    "A40": 1.74,
    "RTX-3090": 1.70,
    "T4": 1.59,
}
OLDER_CLOCKS = {"V100-SXM2-16": 1.53}  # of kernels that use no such instructions

# Bytes as src/model counts them, in tensors that are read or written. The pointwise ones are vectorized.
POINTWISE = {
    ("add", "forward"): 3,
    ("mul", "forward"): 3,
    ("copy", "forward"): 2,
    ("pow", "forward"): 2,
    ("relu", "forward"): 2,
    ("relu", "backward"): 3,
    ("silu", "backward"): 3,
    ("gelu_tanh", "forward"): 2,
    ("gelu_tanh", "backward"): 3,
}

NORMS = {("layer_norm", "forward"): 2, ("rms_norm", "forward"): 2}
NORMS_BACKWARD = {("layer_norm", "backward"): 5, ("rms_norm", "backward"): 5}

FAMILIES = {
    "pointwise": ("pointwise, 16 bits", "bf16", POINTWISE),
    "rows": ("rows, 16 bits", "bf16", NORMS | {("softmax", "forward"): 2}),
    "rows_backward": ("rows backward, 16 bits", "bf16", NORMS_BACKWARD),
    "wide_pointwise": ("pointwise, fp32", "fp32", POINTWISE),
    "wide_rows": ("rows, fp32", "fp32", NORMS | {("cross_entropy", "forward"): 2}),
    "wide_rows_backward": (
        "rows backward, fp32",
        "fp32",
        NORMS_BACKWARD | {("cross_entropy", "backward"): 4},
    ),
}

# The table's names of who computes attention, and those of the files. FlashAttention-2 is what entries without one are.
LIBRARIES = {"flash": "", "cudnn": "cudnn"}


def aligned(row):
    """Rows of 16 bytes: others (vocabularies of 50257, 30522) run in other kernels."""
    return all(int(row[size]) % 8 == 0 for size in "mnk")


def by_layout(gpu, curve, shares, format, m, n, k, layout, element=2):
    seconds = np.zeros(len(m))
    for index, share in enumerate(shares):
        some = layout == index
        role = np.array(curve, float)
        role[1] *= share
        seconds[some] = forms.gemm(role, device(gpu, format), m[some], n[some], k[some], element)
    return seconds


def read_layouts(gpu, format):
    rows = [row for row in table("gemm_layouts_hopper.csv", gpu=gpu, format=format) if aligned(row)]
    m, n, k, t = columns(rows, "m", "n", "k", "time_us")
    return m, n, k, np.array([LAYOUTS.index(row["layout"]) for row in rows]), t * 1e-6


def layer_folds(m, n, k):
    """A layer's three products are one shape."""
    return fold_of(*np.sort(np.stack([m, n, k]), axis=0))


def products_tensor(gpu, found):
    """The H100's curve, as the chip is the same, and what the points say beside it: a share in each layout, and the
    residual's difference. Alone they do worse at shapes that they do not have, and so does the H100's residual alone."""
    curve, grid, _ = found[CHIP]
    m, n, k, layout, t = read_layouts(gpu, "bf16")
    basis, large = forms.weights(m, n, k), 2 * m * n * k > 1e11

    def fitted(seen):
        ratio = by_layout(gpu, curve, (1, 1, 1), "tensor", m, n, k, layout) * np.exp(basis @ grid) / t
        shares = np.array([np.median(ratio[seen & large & (layout == i)]) for i in range(3)])
        seconds = by_layout(gpu, curve, shares, "tensor", m, n, k, layout) * np.exp(basis @ grid)
        errors = np.log(seconds / t)
        more = residual_table((m[seen], n[seen], k[seen]), errors[seen])
        return shares, more, errors, errors + basis @ more

    folds, plain, held_out = layer_folds(m, n, k), np.zeros(len(t)), np.zeros(len(t))
    for fold in range(FOLDS):
        _, _, without, with_more = fitted(folds != fold)
        plain[folds == fold], held_out[folds == fold] = without[folds == fold], with_more[folds == fold]
    training = (m >= 1024) & (n >= 512) & (k >= 512)
    off = [np.abs(np.expm1(errors)).mean() for errors in (plain, held_out)]
    print(gpu, "products off by: H100's residual", off[0], "with R's", off[1])
    forget(gpu, "gemm tensor")
    measure(gpu, "gemm tensor", "shape, all", held_out, "R")
    measure(gpu, "gemm tensor", "shape, training-size", held_out[training], "R")
    # The curve is of all points that the H100's saw, too.
    serving = table("gemm_bf16.csv", gpu=CHIP)
    for sizes in ((m, n, k), columns(serving, "m", "n", "k")):
        span(gpu, "gemm tensor", rows=sizes[0], columns=sizes[1], inner=sizes[2])
    shares, more, _, _ = fitted(np.ones(len(t), bool))
    grid = np.round(grid + more, 3)
    sample(gpu, "gemm", (m, n, k), forms.gemm(curve, device(gpu), m, n, k) * np.exp(basis @ grid))
    gradients = {"NN": shares[1] / shares[0], "NT": shares[2] / shares[0]}
    return curve, grid, shares[0], gradients


def sustained(gpu, curve, grid, gradients):
    """What whole steps reach of the curve: products above 1e11 FLOPs as the profiler saw them there, by case."""
    rows = [row for row in table("gemm_steps_hopper.csv", gpu=gpu) if aligned(row)]
    m, n, k, t, over_tokens = columns(rows, "m", "n", "k", "time_us", "over_tokens")
    layout = np.where(over_tokens > 0, 2, 0)  # forward's and the input's gradient look alike there
    ratio = by_layout(gpu, curve, (1, 1, gradients["NT"]), "tensor", m, n, k, layout)
    ratio *= np.exp(forms.weights(m, n, k) @ grid) / (t * 1e-6)
    case, large = np.array([row["case"] for row in rows]), 2 * m * n * k > 1e11
    medians = {one: np.log(np.median(ratio[large & (case == one)])) for one in dict.fromkeys(case[large])}
    held_out = np.concatenate(
        [
            np.log(ratio[large & (case == one)])
            - np.mean([value for other, value in medians.items() if other != one])
            for one in medians
        ]
    )
    measure(gpu, "gemm tensor in steps", "model", held_out, "R")
    print(gpu, "sustained by model:", {one: np.exp(value) for one, value in medians.items()})
    return np.exp(np.mean(list(medians.values())))


def products_other(gpu, found, gradients):
    """tf32, fp32 and 8 bits (sums kept in few bits, scales of tensors and of rows): what few shapes can say. The H100's
    16-bit curve has the other numbers. In tf32 Hopper's own instructions multiply TN alone, so that the shares of NN and
    NT are its own."""
    curves, beside = {}, {}
    plans = {
        "tf32": (4, (1, 7, 8), (2.838, 0.6, 0.832, 100, 0.05, 4, 2, 0.8, 0.5)),
        "fp32": (4, (1, 3, 4), (2.838, 0.8, 0.95, 30, 0.07, 4, 2)),
        "fp8": (1, (1,), found[CHIP][0]),
    }
    for format, (element, free, start) in plans.items():
        free, moved = list(free), None
        if format == "fp8":
            m, n, k, t = columns(table("gemm_fp8_hopper.csv", gpu=gpu, fast="1"), "m", "n", "k", "time_us")
            layout, t = np.zeros(len(t), int), t * 1e-6
            moved = m * k + k * n + 2 * m * n
        else:
            m, n, k, layout, t = read_layouts(gpu, format)
        if format == "fp32":
            t = t * np.array([1, gradients["NN"], gradients["NT"]])[layout]

        def errors_of(values, pick=slice(None)):
            curve = np.array(start, float)
            curve[free] = values
            bytes = None if moved is None else moved[pick]
            sizes = m[pick], n[pick], k[pick]
            if format == "tf32":
                seconds = by_layout(gpu, curve[:7], (1, *curve[7:]), format, *sizes, layout[pick], element)
            else:
                seconds = forms.gemm(curve, device(gpu, format), *sizes, element, moved=bytes)
            return np.log(seconds / t[pick])

        def fitted(pick):
            low, high = np.array([*LOW, 0.1, 0.1])[free], np.array([*HIGH, 1.5, 1.5])[free]
            return solve(lambda x: errors_of(x, pick), np.array(start, float)[free], low, high)

        folds, held_out = layer_folds(m, n, k), np.zeros(len(t))
        for fold in range(FOLDS):
            held_out[folds == fold] = errors_of(fitted(folds != fold), folds == fold)
        measure(gpu, f"gemm {format}", "shape", held_out, "R")
        span(gpu, f"gemm {format}", rows=m, columns=n, inner=k)
        curve = np.array(start, float)
        curve[free] = fitted(slice(None))
        curves[format] = significant(curve[:7])
        if format == "tf32":
            beside = {"tf32_input": curve[7], "tf32_weight": curve[8]}
    return curves, beside | {"exact_fp8": exact_sums(gpu)}


def exact_sums(gpu):
    """Products in 8 bits whose sums are added in fp32 on the way, beside those of tensor cores alone: the share of rates."""
    times = [columns(table("gemm_fp8_hopper.csv", gpu=gpu, scale="tensor", fast=fast), "time_us")[0] for fast in "10"]
    return np.exp(np.mean(np.log(times[0] / times[1])))


def unaligned(gpu="H200-SXM"):
    """TFLOP/s of a multiprocessor, by the elements that a row's start is aligned to (of 16 bits), and in tf32."""

    def rates(format, size):
        rows = table("gemm_layouts_hopper.csv", gpu=gpu, format=format)
        rows = [row for row in rows if str(size) in (row["m"], row["n"], row["k"])]
        m, n, k, t = columns(rows, "m", "n", "k", "time_us")
        return 2 * m * n * k / (t * 1e-6) / 1e12 / SHEET[gpu][4]

    found = {}
    for name, values in (("1", rates("bf16", 50257)), ("2", rates("bf16", 30522)), ("tf32", rates("tf32", 50257))):
        found[name] = np.median(values)
        measure(gpu, f"gemm unaligned, {name}", "shape", others_median(values), "R")
    return found


def unvectorized(gpu="H200-SXM"):
    """Elements that a multiprocessor writes in a second: casts to fp32, heads moved past tokens, broadcasts in steps."""
    rows = [
        row
        for row in table("memory_hopper.csv", gpu=gpu, dtype="bf16")
        if row["op"] in ("cast", "heads_transpose")
    ]
    r, c, t = columns(rows, "rows", "columns", "time_us")
    elements, u = columns(table("broadcast_steps_hopper.csv", gpu=gpu), "elements", "time_us")
    values = np.concatenate([r * c / t, elements / u]) * 1e6 / SHEET[gpu][4]
    measure(gpu, "unvectorized", "kernel", others_median(values), "R")
    return np.median(values)


def eight_bit_rate():
    """Parameters that a multiprocessor updates in a second in bitsandbytes' AdamW8bit."""
    row = table("optimizer_hopper.csv", gpu="H100-SXM", op="adamw_8bit")[0]
    return float(row["parameters"]) / (float(row["time_us"]) * 1e-6) / 132


def optimizer_shares(gpu):
    """Of PyTorch's multi-tensor AdamW, whose bytes are counted as sim/cost/optimizer.cpp does: elements that kernels
    read and write for each parameter."""
    moved = {"adamw_foreach": 20, "adamw_fused": 7}
    shares = {}
    for row in table("optimizer_hopper.csv", gpu=gpu):
        if row["op"] not in moved:
            continue
        narrow = row["dtype"] == "bf16"
        bytes = moved[row["op"]] * (2 if narrow else 4) * float(row["parameters"])
        key = ("narrow_" if narrow else "") + row["op"].removeprefix("adamw_")
        shares[key] = bytes / (float(row["time_us"]) * 1e-6 * SHEET[gpu][3] * 1e9)
    return shares


def scaled(value, gpu):
    """Of the H200's."""
    return value * (CLOCKS | OLDER_CLOCKS)[gpu] / CLOCKS["H200-SXM"]


def memory_shares(gpu):
    """Medians of bytes over time, less a launch, and bandwidth; and the launch: what kernels on few bytes take."""
    bandwidth, launches, shares = SHEET[gpu][3] * 1e9, [], {}

    def read(dtype, ops):
        rows = [
            row
            for row in table("memory_hopper.csv", gpu=gpu, dtype=dtype, vocabulary="")
            if (row["op"], row["direction"]) in ops
        ]
        r, c, t = columns(rows, "rows", "columns", "time_us")
        tensors = np.array([ops[row["op"], row["direction"]] for row in rows])
        kind = np.array([f'{row["op"]} {row["direction"]}' for row in rows])
        return r, c, (2 if dtype == "bf16" else 4) * tensors * r * c, t * 1e-6, kind

    _, _, bytes, t, kind = read("bf16", POINTWISE)
    for one in dict.fromkeys(kind):
        some = kind == one
        basis = np.stack([np.ones(some.sum()), bytes[some]], axis=1) / t[some, None]
        launches.append(np.linalg.lstsq(basis, np.ones(some.sum()), rcond=None)[0][0])
    launch = np.median(launches)
    for key, (family, dtype, ops) in FAMILIES.items():
        r, c, bytes, t, kind = read(dtype, ops)
        values = bytes / (t - launch) / bandwidth
        folds, held_out = fold_of(r, c), np.zeros(len(t))
        for one in set(folds):
            held_out[folds == one] = np.log(values / np.median(values[folds != one]))[folds == one]
        shares[key] = np.median(values)
        span(gpu, family, bytes=bytes)
        measure(gpu, family, "shape", held_out, "R")
    print(gpu, "launch in us:", launch * 1e6)
    return shares


def attention(gpu):
    """By width and library the curves forward and backward. Two points of heads of 256 say a share alone."""
    low, high, start = [0.5, 0.05, 0, 0.2, 0], [60, 1.2, 1500, 1.5, 1.5], (8, 0.6, 100, 0.6, 0.5)
    found = {}
    for kernel, library in LIBRARIES.items():
        for width in (128, 64, 256):
            curves, unseen = [], []
            tail = f", {library}" if library else ""
            for direction in ("forward", "backward"):
                rows = table(
                    "attention_hopper.csv",
                    gpu=gpu,
                    library=kernel,
                    direction=direction,
                    head_dim=str(width),
                    value_dim=str(width),
                )
                causal, batch, seq, heads, kv, t = columns(
                    rows, "causal", "batch", "seq", "heads", "kv_heads", "time_us"
                )
                shape = np.unique(np.stack([batch, seq, heads]), axis=1, return_inverse=True)[1].ravel()
                free = [1] if width == 256 else list(range(5))
                base = np.array(found[128, library][len(curves)] if width == 256 else start, float)

                def curve_of(values):
                    curve = base.copy()
                    curve[free] = values
                    return curve

                def errors_of(values, pick=slice(None)):
                    arguments = [one[pick] for one in (causal, batch, seq, heads, kv)]
                    back = direction == "backward"
                    seconds = forms.attention(curve_of(values), device(gpu), *arguments, width, back)
                    return np.log(seconds / (t[pick] * 1e-6))

                def fitted(pick):
                    return solve(
                        lambda x: errors_of(x, pick), base[free], np.array(low)[free], np.array(high)[free]
                    )

                held_out = np.zeros(len(t))
                # Of one shape: causal by full and full by causal.
                groups = shape if len(set(shape)) > 1 else np.arange(len(t))
                for one in set(groups):
                    held_out[groups == one] = errors_of(fitted(groups != one), groups == one)
                unseen.append(held_out)
                span(gpu, f"attention {width}{tail}", tokens=seq, heads=batch * heads)
                curve = significant(curve_of(fitted(slice(None))))
                if direction == "forward" and not library and width < 256:
                    seconds = forms.attention(curve, device(gpu), causal, batch, seq, heads, kv, width)
                    sample(gpu, f"attention {width}", (causal, batch, seq, heads, kv), seconds, 20)
                curves.append(curve)
            found[width, library] = curves
            family = f"attention both ways, heads of {width}, {library or 'FlashAttention-2'}"
            measure(gpu, family, "shape", np.concatenate(unseen), "R")
    return found


def measured_memory(gpu):
    return [
        measured.line(gpu, FAMILIES[key][0], [gpu], (FAMILIES[key][0],))
        for key in ("pointwise", "rows", "wide_pointwise", "wide_rows")
    ]


def measured_cudnn(gpu):
    return [
        measured.line(
            gpu,
            f"attention {width}, cudnn",
            [gpu],
            (f"attention both ways, heads of {width}, cudnn",),
        )
        for width in (64, 128, 256)
    ]
