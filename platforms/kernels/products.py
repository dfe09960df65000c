"""Fits of matrix products, of what lasting load leaves of them, and of convolutions."""
import numpy as np

import closed_forms as forms
from common import FOLDS, columns, device, fold_of, measure, sample, significant, solve, span, table


LOW = [0.5, 0.2, 0.3, 0, 0, 1.2, 0]

HIGH = [90, 1.4, 0.95, 600, 0.6, 8, 10]

def residual_table(points, errors, strength=20.0):
    """The ridge's answer to -errors on the grid: small where few shapes are near."""
    basis = forms.weights(*points)
    return np.linalg.solve(
        basis.T @ basis + strength * np.eye(basis.shape[1]) * 0.05, basis.T @ -errors
    )

def fit_gemm(
    gpu,
    format,
    shapes,
    times,
    source,
    element,
    free=range(7),
    start=(3, 0.8, 0.8, 100, 0.05, 3, 2),
    table_too=False,
):
    """The seven numbers (those of `free`, others as `start`), the residual table, and the errors held out by shape."""
    batch, m, n, k = shapes
    gpu_device, free = device(gpu, format), list(free)

    def errors_of(values, pick=slice(None)):
        curve = np.array(start, float)
        curve[free] = values
        return np.log(
            forms.gemm(curve, gpu_device, m[pick], n[pick], k[pick], element, batch[pick])
            / times[pick]
        )

    def fitted(pick):
        low, high = np.array(LOW)[free], np.array(HIGH)[free]
        values = solve(lambda x: errors_of(x, pick), np.array(start, float)[free], low, high)
        curve = np.array(start, float)
        curve[free] = values
        return curve

    folds, held_out = fold_of(m, n, k), np.zeros(len(m))
    for fold in range(FOLDS):
        seen, unseen = folds != fold, folds == fold
        curve = fitted(seen)
        held_out[unseen] = errors_of(curve[free], unseen)
        if table_too:
            grid = residual_table((m[seen], n[seen], k[seen]), errors_of(curve[free], seen))
            held_out[unseen] += forms.weights(m[unseen], n[unseen], k[unseen]) @ grid
    curve = significant(fitted(np.ones(len(m), bool)))
    grid = np.round(residual_table((m, n, k), errors_of(curve[free])), 3) if table_too else None
    span(gpu, f"gemm {format}", rows=m, columns=n, inner=k)
    training = (m >= 1024) & (n >= 512) & (k >= 512)
    measure(gpu, f"gemm {format}", "shape, all", held_out, source)
    row = measure(gpu, f"gemm {format}", "shape, training-size", held_out[training], source)
    return curve, grid, row

def gemm_tensor():
    """GPUs of the serving tables; then those of which fewer shapes are known, with the A100's other numbers."""
    found = {}
    for gpu in ("A100-SXM-80", "H100-SXM", "B200", "L40S", "RTX-PRO-6000"):
        m, n, k, t = columns(table("gemm_bf16.csv", gpu=gpu), "m", "n", "k", "time_us")
        found[gpu] = fit_gemm(
            gpu, "tensor", (np.ones_like(m), m, n, k), t * 1e-6, "A", 2, table_too=True
        )
        curve, grid, _ = found[gpu]
        seconds = forms.gemm(curve, device(gpu), m, n, k) * np.exp(forms.weights(m, n, k) @ grid)
        if gpu != "H100-SXM":  # whose residual is of R's products, too
            sample(gpu, "gemm", (m, n, k), seconds)
    like = found["A100-SXM-80"][0]

    def few(gpu, rows, source, time="time_us", launch=5.4, free=(1,)):
        m, n, k, t = columns(rows, "m", "n", "k", time)
        start = like.copy()
        start[0] = launch
        found[gpu] = fit_gemm(
            gpu, "tensor", (np.ones_like(m), m, n, k), t * 1e-6, source, 2, free=free, start=start
        )

    few("A40-PCIe", table("gemm_llm_fp16.csv", gpu="A40-PCIe"), "V", launch=5.9, free=(1, 2))
    few(
        "RTX-3090",
        table("gemm_megatron.csv", gpu="RTX-3090", dtype="fp16"),
        "E",
        "forward_us",
        launch=5.9,
    )
    few(
        "V100-SXM2-16",
        table("gemm_megatron.csv", gpu="V100-SXM2-16", dtype="fp16"),
        "E",
        "forward_us",
        launch=7.3,
    )
    few(
        "T4",
        table("gemm_deepbench.csv", gpu="T4", dtype="fp16_mixed"),
        "D",
        launch=7.5,
        free=(1, 2),
    )
    few("A100-PCIe-80", table("gemm_layouts_bf16.csv", gpu="A100-PCIe-80", layout="TN"), "S")
    return found

def unseen_gpus(found):
    """Leave one GPU out: the nearest relative's numbers on its datasheet."""
    for gpu, relative in (
        ("A100-SXM-80", "H100-SXM"),
        ("H100-SXM", "A100-SXM-80"),
        ("B200", "H100-SXM"),
        ("L40S", "RTX-PRO-6000"),
        ("RTX-PRO-6000", "A100-SXM-80"),
    ):
        m, n, k, t = columns(table("gemm_bf16.csv", gpu=gpu), "m", "n", "k", "time_us")
        errors = np.log(forms.gemm(found[relative][0], device(gpu), m, n, k) / (t * 1e-6))
        training = (m >= 1024) & (n >= 512) & (k >= 512)
        measure(gpu, "gemm tensor", f"GPU, as {relative}", errors[training], "A")

def sustained(found):
    """Median ratio of what a curve says of large products to what others measured in frameworks, and the layouts' shares."""

    def ratio(gpu, curve, rows, time, swap=False, format="tensor"):
        m, n, k, t = columns(rows, "m", "n", "k", time)
        if swap:
            n, k = k, n
        large = 2 * m * n * k > 1e11
        return np.median((forms.gemm(curve, device(gpu, format), m, n, k) / (t * 1e-6))[large])

    a100, h100, b200 = (found[gpu][0] for gpu in ("A100-SXM-80", "H100-SXM", "B200"))
    layouts = {}
    for gpu, curve in (("A100-PCIe-80", found["A100-PCIe-80"][0]), ("B200", b200)):
        layouts[gpu] = {
            name: ratio(gpu, curve, table("gemm_layouts_bf16.csv", gpu=gpu, layout=name), "time_us")
            for name in ("TN", "NN")
        }
    megatron = {
        gpu: ratio(gpu, curve, table("gemm_megatron.csv", gpu=gpu, dtype="fp16"), "forward_us")
        for gpu, curve in (("A100-SXM-40", a100), ("GH200-96", h100))
    }
    llm = {
        gpu: ratio(gpu, curve, table("gemm_llm_fp16.csv", gpu=gpu), "time_us")
        for gpu, curve in (("A100-SXM-80", a100), ("H100-SXM", h100))
    }
    print("sustained: Megatron", megatron, "vidur", llm, "layouts", layouts)
    factors = {
        "A100-SXM-80": np.sqrt(llm["A100-SXM-80"] * megatron["A100-SXM-40"]),
        "H100-SXM": np.sqrt(llm["H100-SXM"] * megatron["GH200-96"]),
        "B200": layouts["B200"]["TN"],
    }
    gradients = {"NN": np.mean([one["NN"] / one["TN"] for one in layouts.values()])}
    gradients["NT"] = np.mean(
        [
            added_gradient(gpu, curve, layouts[gpu]["TN"])
            for gpu, curve in (("A100-PCIe-80", found["A100-PCIe-80"][0]), ("B200", b200))
        ]
    )
    return factors, gradients


def added_gradient(gpu, curve, lasting):
    """The share of weight gradients that are added to fp32 (Transformer Engine, S), beside what reads and writes those
    sums: its time and the product's make a norm with KernelModel::timed's exponent."""
    rows = table("gemm_layouts_bf16.csv", gpu=gpu, layout="NT", out_dtype="fp32")
    m, n, k, t = columns(rows, "m", "n", "k", "time_us")
    under_load = curve.copy()
    under_load[1] *= lasting
    launch = curve[0] * 1e-6
    product = forms.gemm(under_load, device(gpu), m, n, k, moved=2 * (m * k + k * n)) - launch
    sums = 8 * m * n / (curve[2] * device(gpu).bandwidth)
    whole = launch + (product**1.3 + sums**1.3) ** (1 / 1.3)
    large = 2 * m * n * k > 1e11
    errors = np.log(whole / (t * 1e-6))[large]
    share = np.exp(np.median(errors))
    measure(gpu, "gemm tensor, added to fp32", "sums", errors - np.log(share), "S")
    return share


def gemm_other():
    found = {"fp32": {}, "tf32": {}}
    for gpu in ("A100-PCIe-40", "H100-SXM", "V100-PCIe-32", "T4"):
        b, m, n, k, t = columns(table("gemm_fp32.csv", gpu=gpu), "batch", "m", "n", "k", "time_us")
        found["fp32"][gpu] = fit_gemm(
            gpu,
            "fp32",
            (b, m, n, k),
            t * 1e-6,
            "N",
            4,
            free=(1, 2, 3, 4, 5),
            start=(26, 0.8, 0.8, 30, 0.05, 3, 2),
        )  # 26 us: events and a launch
    for gpu in ("A100-SXM-40", "GH200-96", "RTX-3090"):
        m, n, k, t = columns(
            table("gemm_megatron.csv", gpu=gpu, dtype="fp32"), "m", "n", "k", "forward_us"
        )
        found["tf32"][gpu] = fit_gemm(
            gpu,
            "tf32",
            (np.ones_like(m), m, n, k),
            t * 1e-6,
            "E",
            4,
            free=(1,),
            start=(3.6, 0.8, 0.75, 100, 0.1, 4, 2),
        )
    return found

def convolution():
    """A convolution as the product that it is made of: how its share, prologue and small tiles differ from the GEMM curve's,
    three numbers for the V100 and the T4 together."""
    parts = []
    for gpu, sheet, share in (("V100", "V100-PCIe-32", 0.745), ("T4", "T4", 0.672)):
        rows = table("convolution_deepbench.csv", gpu=gpu, dtype="fp16_mixed")
        w, h, ci, batch, co, fw, fh, pw, ph, sw, sh = columns(
            rows,
            "in_w",
            "in_h",
            "in_channels",
            "batch",
            "out_channels",
            "filter_w",
            "filter_h",
            "pad_w",
            "pad_h",
            "stride_w",
            "stride_h",
        )
        ow, oh = np.floor((w + 2 * pw - fw) / sw) + 1, np.floor((h + 2 * ph - fh) / sh) + 1
        moved = 2 * (batch * ci * w * h + batch * co * ow * oh + co * ci * fw * fh)
        ways = {
            "forward_us": (batch * ow * oh, co, ci * fw * fh),
            "backward_inputs_us": (batch * w * h, ci, co * fw * fh / (sw * sh)),
            "backward_weights_us": (co, ci * fw * fh, batch * ow * oh),
        }
        for way, sizes in ways.items():
            t = np.array([float(row[way] or 0) for row in rows]) * 1e-6
            span("V100 and T4", "convolution", **dict(zip(("rows", "columns", "inner"), sizes)))
            parts.append(
                (gpu, sheet, share, way, [size[t > 0] for size in sizes], moved[t > 0], t[t > 0])
            )

    def errors_of(x, part):
        gpu, sheet, share, way, sizes, moved, t = part
        return np.log(
            forms.gemm(
                (7.4, share * x[0], 0.8, x[1], x[2], 4.0, 2.0), device(sheet), *sizes, moved=moved
            )
            / t
        )

    low, high, start = [0.3, 0, 0], [2.5, 800, 1], [1.2, 100, 0.3]
    for gpu in ("V100", "T4"):
        x = solve(
            lambda v: np.concatenate([errors_of(v, part) for part in parts if part[0] != gpu]),
            start,
            low,
            high,
        )
        for part in parts:
            if part[0] == gpu:
                measure(gpu, f"convolution, {part[3]}", "GPU", errors_of(x, part), "D")
    return solve(lambda v: np.concatenate([errors_of(v, part) for part in parts]), start, low, high)


def fp32_convolutions(curves, pointwise):
    """Nothing is fitted: how far convolutions on the GPU's own fp32 products are off, and of which sizes that is known."""
    for gpu, sheet in (("V100", "V100-PCIe-32"), ("T4", "T4")):
        rows = table("convolution_deepbench.csv", gpu=gpu, dtype="fp32")
        names = "in_w in_h in_channels batch out_channels filter_w filter_h pad_w pad_h stride_w stride_h"
        w, h, ci, batch, co, fw, fh, pw, ph, sw, sh = columns(rows, *names.split())
        positions = (np.floor((w + 2 * pw - fw) / sw) + 1) * (np.floor((h + 2 * ph - fh) / sh) + 1)
        window, stride, moved = fw * fh, sw * sh, 4 * (batch * (ci * w * h + co * positions) + co * ci * fw * fh)
        span(gpu, "convolution, fp32", rows=batch * positions, columns=co, inner=ci * window)
        curve = curves[sheet][0].copy()
        curve[0] = 7.4
        for way in ("forward_us", "backward_inputs_us", "backward_weights_us"):
            t = np.array([float(row[way] or 0) for row in rows]) * 1e-6
            of = [x[t > 0] for x in (batch, positions, ci, co, window, stride, moved)]
            time = forms.fp32_convolution(curve, device(sheet, "fp32"), pointwise[sheet], way, *of)
            measure(gpu, f"convolution in fp32, {way}", "all", np.log(time / t[t > 0]), "D")
