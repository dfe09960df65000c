"""Fits of fused attention, and of kernels that memory bounds."""

import numpy as np

import closed_forms as forms
from common import (
    FOLDS,
    SHEET,
    columns,
    device,
    fold_of,
    measure,
    sample,
    significant,
    solve,
    span,
    table,
)


def attention_forward():
    found = {}
    low, high = [0.5, 0.05, 0, 0.2, 0], [30, 1.2, 1500, 1.5, 1.5]
    for gpu in ("A100-SXM-80", "H100-SXM", "B200", "L40S", "RTX-PRO-6000"):
        for width in (64, 128, 256):
            rows = table("attention_forward_bf16.csv", gpu=gpu, head_dim=str(width))
            if not rows:
                continue
            causal, batch, seq, heads, kv, t = columns(
                rows, "causal", "batch", "seq", "heads", "kv_heads", "time_us"
            )

            def errors_of(x, pick=slice(None)):
                return np.log(
                    forms.attention(
                        x,
                        device(gpu),
                        causal[pick],
                        batch[pick],
                        seq[pick],
                        heads[pick],
                        kv[pick],
                        width,
                    )
                    / (t[pick] * 1e-6)
                )

            folds, held_out = fold_of(causal, batch, seq, heads, kv), np.zeros(len(t))
            for fold in range(FOLDS):
                curve = solve(
                    lambda x: errors_of(x, folds != fold), [8, 0.6, 100, 0.6, 0.5], low, high
                )
                held_out[folds == fold] = errors_of(curve, folds == fold)
            span(gpu, f"attention {width}", tokens=seq, heads=batch * heads)
            found[gpu, width] = significant(solve(errors_of, [8, 0.6, 100, 0.6, 0.5], low, high))
            training = (batch * seq * heads >= 32768) & (seq >= 512)
            measure(
                gpu,
                f"attention forward, heads of {width}",
                "shape, training-size",
                held_out[training],
                "A",
            )
            if gpu not in ("A100-SXM-80", "H100-SXM"):  # whose files hold FlashAttention-2's
                sample(
                    gpu,
                    f"attention {width}",
                    (causal, batch, seq, heads, kv),
                    forms.attention(
                        found[gpu, width], device(gpu), causal, batch, seq, heads, kv, width
                    ),
                    20,
                )
    return found


def attention_backward(gpu, forward):
    """Transformer Engine's backward (S) where the GPU's forward curve is another's: share and tail of heads of 128.
    Few keys were not measured: with 100 more backward takes longer than forward."""
    rows = [row for row in table("attention_training.csv", gpu=gpu, head_dim="128", source="S") if row["pass"] == "bwd"]
    causal, batch, seq, heads, kv, rate = columns(rows, "causal", "batch", "seq", "heads", "kv_heads", "tflops")
    t = 4 * 2.5 * batch * heads * seq**2 * 128 * np.where(causal > 0, 0.5, 1) / (rate * 1e12)

    def curve(x):
        return np.array([forward[0], x[0], 100, forward[3], x[1]])

    def errors_of(x, pick=slice(None)):
        sizes = [value[pick] for value in (causal, batch, seq, heads, kv)]
        return np.log(forms.attention(curve(x), device(gpu), *sizes, 128, True) / t[pick])

    def fitted(pick):
        return solve(lambda x: errors_of(x, pick), [0.45, 0.5], [0.05, 0], [1.0, 2])

    shapes = list(zip(seq, heads, kv))
    held_out = np.zeros(len(t))
    for one in set(shapes):
        own = np.array([shape == one for shape in shapes])
        held_out[own] = errors_of(fitted(~own), own)
    measure(gpu, "attention backward, heads of 128", "shape", held_out, "S")
    return significant(curve(fitted(slice(None))))


def attention_training(forward):
    """FlashAttention-2's share in backward, on an A100 beside its forward curve; on an H100, whose curves are
    FlashAttention-3's, forward in the A100's proportion to backward."""

    def read(gpu, width):
        rows = [
            row
            for row in table("attention_training.csv", gpu=gpu, head_dim=str(width), source="F")
            if row["pass"] == "fwd+bwd"
        ]
        causal, batch, seq, heads, kv, rate = columns(
            rows, "causal", "batch", "seq", "heads", "kv_heads", "tflops"
        )
        work = 4 * 3.5 * batch * heads * seq**2 * width * np.where(causal > 0, 0.5, 1)
        return causal, batch, seq, heads, kv, work / (rate * 1e12)

    found = {}
    for gpu in ("A100-SXM-80", "H100-SXM"):
        for width in (64, 128):
            causal, batch, seq, heads, kv, t = read(gpu, width)
            base = forward.get(
                (gpu, width) if gpu == "A100-SXM-80" else ("A100-SXM-80", width),
                forward["A100-SXM-80", 128],
            )
            proportion = found["A100-SXM-80", width][2] if gpu != "A100-SXM-80" else None

            def split(x):
                one = base.copy()
                one[2] = x[1]
                two = one.copy()
                one[1] = (proportion * x[0]) if proportion else base[1]
                two[1] = x[0]
                return one, two

            def errors_of(x, pick=slice(None)):
                one, two = split(x)
                arguments = [value[pick] for value in (causal, batch, seq, heads, kv)]
                total = forms.attention(one, device(gpu), *arguments, width) + forms.attention(
                    two, device(gpu), *arguments, width, True
                )
                return np.log(total / t[pick])

            index, held_out = np.arange(len(t)), np.zeros(len(t))
            for fold in range(FOLDS):
                x = solve(
                    lambda v: errors_of(v, index % FOLDS != fold),
                    [0.5, 100],
                    [0.05, 0],
                    [1.0, 1500],
                )
                held_out[index % FOLDS == fold] = errors_of(x, index % FOLDS == fold)
            span(gpu, f"attention {width}", tokens=seq, heads=batch * heads)
            x = solve(errors_of, [0.5, 100], [0.05, 0], [1.0, 1500])
            one, two = split(x)
            found[gpu, width] = (significant(one), significant(two), one[1] / two[1])
            measure(
                gpu,
                f"attention both ways, heads of {width}, FlashAttention-2",
                "shape",
                held_out,
                "F",
            )
    return found


def memory_shares():
    """Medians of bytes over time and bandwidth, of times well above a launch: fp32 kernels one at a time (N), 16-bit kernels of
    Megatron layers both ways (E). Bytes as src/model counts them: every tensor read or written, layer norm's backward five.
    """
    wide, narrow = {}, {}
    tensors = {
        "add": 3,
        "pow": 3,
        "mulu": 2,
        "relu": 2,
        "gelu": 2,
        "tanh": 2,
        "ln": 2,
        "softmax": 2,
    }
    families = (
        ("pointwise", ("add", "pow", "mulu", "relu", "gelu", "tanh")),
        ("rows", ("ln", "softmax")),
    )
    for gpu in ("A100-PCIe-40", "A100-PCIe-80", "V100-PCIe-32", "T4"):
        wide[gpu] = {}
        for family, ops in families:
            rows = [row for row in table("memory_fp32.csv", gpu=gpu) if row["op"] in ops]
            r, c, t = columns(rows, "rows", "columns", "time_us")
            count = np.array([tensors[row["op"]] for row in rows])
            shares = (
                4 * count * r * c / (SHEET[gpu][3] * 1e9) / ((t - 25) * 1e-6)
            )  # 25 us: a launch between two events
            folds, held_out = fold_of(r, c), np.zeros(len(t))
            for fold in range(FOLDS):
                held_out[folds == fold] = np.log(shares / np.median(shares[folds != fold]))[
                    folds == fold
                ]
            wide[gpu][family] = np.median(shares)
            span(gpu, f"{family}, fp32", bytes=4 * count * r * c)
            measure(gpu, f"{family}, fp32", "shape", held_out, "N")
    # Those tensors are all zero, which takes less power: in place in models kernels are slower.
    for gpu in ("A100-PCIe-40", "A100-PCIe-80", "V100-PCIe-32", "H100-SXM", "T4"):
        elements, count, t = columns(
            table("memory_models_fp32.csv", gpu=gpu), "elements", "tensors", "forward_us"
        )
        if len(t) < 3:
            continue
        shares = 4 * count * elements / (t * 1e-6) / (SHEET[gpu][3] * 1e9)
        index = np.arange(len(t))
        unseen = np.array([np.log(shares[i] / np.median(shares[index != i])) for i in index])
        measure(gpu, "pointwise in models, fp32", "shape", unseen, "N")
        wide.setdefault(gpu, {})["pointwise"] = np.median(shares)
        span(gpu, "pointwise, fp32", bytes=4 * count * elements)
    # GH200's bandwidth is not an H100's, its chip is: shares are of what the H100 has.
    for gpu, bandwidth in (
        ("A100-SXM-40", 1555),
        ("GH200-96", 3350),
        ("V100-SXM2-16", 900),
        ("RTX-3090", 936),
    ):
        rows = table("memory_megatron_fp16.csv", gpu=gpu)

        def shares_of(op, counts):
            some = [row for row in rows if row["op"] == op]
            elements, forward, backward = columns(some, "elements", "forward_us", "backward_us")
            kernels = "rows" if op == "layernorm" else "pointwise"
            for count in counts:
                span(gpu, f"{kernels}, 16 bits", bytes=2 * count * elements)
            return (
                2 * counts[0] * elements / (forward * 1e-6) / (bandwidth * 1e9),
                2 * counts[1] * elements / (backward * 1e-6) / (bandwidth * 1e9),
            )

        pointwise = np.concatenate([*shares_of("gelu", (2, 3)), *shares_of("dropout", (2.5, 2.5))])
        norm = shares_of("layernorm", (2, 5))
        narrow[gpu] = {
            "pointwise": np.median(pointwise),
            "rows": np.median(norm[0]),
            "rows_backward": np.median(norm[1]),
        }
        for family, values in (
            ("pointwise, 16 bits", pointwise),
            ("layer norm, 16 bits", norm[0]),
            ("layer norm backward, 16 bits", norm[1]),
        ):
            index = np.arange(len(values))
            held_out = np.array([np.log(values[i] / np.median(values[index != i])) for i in index])
            measure(gpu, family, "shape", held_out, "E")
    return wide, narrow
