"""Which GPU's kernels each fit of a file is of, from what size to what, and how far it was off."""
import numpy as np

from common import ERRORS, SPANS

# Cards of one chip.
CHIPS = {"GH200": "H100", "H200": "H100"}


def chip(gpu):
    name = gpu.split("-")[0]
    return CHIPS.get(name, name)


def off(families, gpus):
    """The mean error of points that the fit had not seen, of the last family that has one."""
    for family in families:
        of_gpus = [
            [
                row["mean"]
                for row in ERRORS
                if row["family"] == family and row["gpu"] == gpu and "GPU" not in row["held_out"]
            ]
            for gpu in gpus
        ]
        if all(of_gpus):
            return np.mean([means[-1] for means in of_gpus])
    return None


def line(gpu, kernels, measured_on, families):
    """`measured_on`: one GPU, or those whose mean stands for it."""
    own = len(measured_on) == 1 and chip(measured_on[0]) == chip(gpu)
    sizes = {}
    for one in measured_on:
        for name, (low, high) in SPANS.get((one, kernels), {}).items():
            least, most = sizes.get(name, (np.inf, 0))
            sizes[name] = (min(least, low), max(most, high))
    spans = ", ".join(f"{name}: [{low:.0f}, {high:.0f}]" for name, (low, high) in sizes.items())
    # Of another GPU the error is not the one of shapes: the interval is wider instead.
    error = off(families, measured_on) if own else None
    tail = "" if error is None else f", off: {error:.3f}"
    return (
        f'  - {{kernels: "{kernels}", on: "{", ".join(measured_on)}", chip: {"own" if own else "others"}'
        f"{tail}, sizes: {{{spans}}}}}"
    )


def products(gpu, measured_on):
    return [line(gpu, f"gemm {form}", [one], (f"gemm {form}",)) for form, one in measured_on.items()]


def attention(gpu, measured_on):
    rows = []
    for width in (64, 128, 256):
        if (measured_on, f"attention {width}") in SPANS:
            families = (f"attention both ways, heads of {width}, FlashAttention-2",
                        f"attention forward, heads of {width}")
            rows.append(line(gpu, f"attention {width}", [measured_on], families))
    return rows


def convolution(gpu):
    if chip(gpu) not in ("V100", "T4"):
        return [line(gpu, "convolution", ["H100-SXM", "H200-SXM"], ())]
    row = line(gpu, "convolution", ["V100 and T4"], ())
    ways = ("backward_weights_us", "backward_inputs_us", "forward_us")
    fp32 = line(gpu, "convolution, fp32", [chip(gpu)], [f"convolution in fp32, {way}" for way in ways])
    return [row.replace("chip: others", "chip: own"), fp32]


def memory(gpu, narrow, wide):
    """`narrow`, `wide`: GPUs whose 16-bit and fp32 kernels they are; several: their mean."""
    fp32 = ("pointwise in models, fp32", "pointwise, fp32")
    return [
        line(gpu, "pointwise, 16 bits", narrow, ("pointwise, 16 bits",)),
        line(gpu, "rows, 16 bits", narrow, ("layer norm, 16 bits",)),
        line(gpu, "pointwise, fp32", wide["pointwise"], fp32),
        line(gpu, "rows, fp32", wide["rows"], ("rows, fp32",)),
    ]
