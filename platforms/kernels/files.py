"""Writes what was fitted."""
import numpy as np

import closed_forms as forms
from common import ERRORS, HERE, SAMPLES, columns, table


LETTERS = (
    "A ai-dynamo/aiconfigurator, C NVIDIA/cudnn-frontend, D baidu-research/DeepBench, E eth-easl/sailor, F Dao-AILab/flash-attention, N sitar-lab/NeuSight, "
    "R Rehearse, S MooreThreads/SimuMax, V microsoft/vidur; README.md"
)

def numbers(curve, names, digits=4):
    return ", ".join(
        (
            f"{name}: {value:.{digits}g}us"
            if name in ("launch", "split")
            else f"{name}: {value:.{digits}g}"
        )
        for name, value in zip(names, curve)
    )

def product_line(curve, source):
    names = ("launch", "share", "traffic", "prologue", "small_tiles", "sharpness", "split")
    return "{" + numbers(curve, names) + f', source: "{source}"}}'

def attention_line(width, forward, backward, source, library=""):
    names = ("launch", "share", "keys", "traffic", "tail")
    by = f"library: {library}, " if library else ""
    return f'  - {{width: {width}, {by}source: "{source}",\n     forward: {{{numbers(forward, names)}}},\n     backward: {{{numbers(backward, names)}}}}}'

# GPUs whose attention in FP8 was measured, by whose file they are of.
IN_FP8 = {"B200": ("B200", "GB200", "GB300"), "H100-SXM": ("H200",), "H200-SXM": ("H200",)}

def fp8_attention_line(gpu):
    """Geometric mean of time in FP8 over time in 16 bits, each way."""
    rows = [row for row in table("attention_fp8.csv") if row["gpu"] in IN_FP8.get(gpu, ())]
    if not rows:
        return []
    ways = []
    for way in ("forward", "backward"):
        narrow, wide = columns(rows, f"fp8_{way}", f"bf16_{way}")
        ways.append(f"{way}: {np.exp(np.mean(np.log(narrow / wide))):.3f}")
    return ["fp8_attention: {" + ", ".join(ways) + ', source: "C"}']

def error_lines(gpus):
    """Of `gpus`, each a name or a name and the first words of families."""
    lines = []
    asked = [(one, "") if isinstance(one, str) else one for one in gpus]
    for row in ERRORS:
        named = any(row["gpu"] == gpu and row["family"].startswith(words) for gpu, words in asked)
        if named and "as " not in row["held_out"]:
            values = ", ".join(
                f"{key}: {row[key]:.3f}" for key in ("mean", "median", "p90", "bias")
            )
            lines.append(
                f"  - {{family: \"{row['family']}\", of: {row['gpu']}, unseen: \"{row['held_out']}\", points: {row['points']}, {values}, source: {row['source']}}}"
            )
    return lines

def write(
    date,
    gpu,
    sms,
    products,
    attention,
    sustained,
    gradients,
    convolution_numbers,
    memory,
    errors_of,
    measured_rows,
    residual=None,
    off_vectors=(None, None, None, None, ""),
    optimizer=None,
):
    """`off_vectors`: rates of products that are not aligned, of kernels that are not vectorized, of AdamW in 8 bits of batch norm, of max pooling and of conversions, and their source."""
    (share, prologue, small, *of_tf32), source_of_convolution = convolution_numbers
    unaligned, unvectorized, eight_bits, norms, pools, converted, source_of_both = off_vectors
    shares, source_of_gradients = gradients
    lines = [
        f"# Kernels on {gpu}: made by platforms/kernels/fit from data/*.csv, {date}.",
        "# README.md says what the numbers mean.",
        f"# Sources: {LETTERS}",
        f"gpu: {gpu}",
        f"date: {date}",
        f"sms: {sms}",
        f'sustained: {{share: {sustained[0]:.3f}, source: "{sustained[1]}"}}',
        "products:",
    ]
    lines += [
        f"  {format}: {product_line(curve, source)}" for format, (curve, source) in products.items()
    ]
    lines += [
        "gradients: {"
        + f"input: {shares['NN']:.3f}, weight: {shares['NT']:.3f}, "
        + "".join(f"{key}: {shares[key]:.3f}, " for key in shares if key not in ("NN", "NT"))
        + f"source: {source_of_gradients}}}"
    ]
    if unaligned:
        rates = ", ".join(f"{name}: {rate:.3f}" for name, rate in unaligned.items())
        lines.append(f'unaligned: {{{rates}, source: "{source_of_both}"}}')
    if residual is not None:
        lines.append(
            "residual:  # ln(time) added at log2 m = 4, 6 .. 16, n = 6 .. 16, k = 6 .. 16; k runs fastest"
        )
        side = forms.knots("n") * forms.knots("k")
        for i in range(forms.knots("m")):
            row = ", ".join(
                f"{value:.3f}".replace("-0.000", "0").replace("0.000", "0")
                for value in residual[i * side : (i + 1) * side]
            )
            lines.append(
                ("  [" if i == 0 else "   ") + row + ("]" if i == forms.knots("m") - 1 else ",")
            )
    if attention:
        lines += ["attention:"] + attention + fp8_attention_line(gpu)
    wide = f", tf32: {of_tf32[0]:.3f}, tf32_weight: {of_tf32[1]:.3f}" if of_tf32 else ""
    lines.append(
        f'convolution: {{share: {share:.3f}, prologue: {prologue:.1f}, small_tiles: {small:.3f}{wide}, source: "{source_of_convolution}"}}'
    )
    lines.append(
        "memory: {"
        + ", ".join(f"{key}: {value:.3f}" for key, value in memory[0].items())
        + f', source: "{memory[1]}"}}'
    )
    if optimizer:
        names = ("foreach", "fused", "narrow_foreach", "narrow_fused")
        shares_of_steps = ", ".join(f"{name}: {optimizer[name]:.3f}" for name in names)
        lines.append(f"optimizer: {{{shares_of_steps}, source: R}}")
    if unvectorized:
        lines.append(f"unvectorized: {unvectorized / 1e9:.3g}e9")
        lines.append(f"adamw_8bit: {eight_bits / 1e9:.3g}e9")
    if norms:
        for kernels, rates in (("batch_norm", norms), ("max_pool", pools)):
            pairs = ", ".join(f"{name}: [{one:.3g}, {two:.3g}]" for name, (one, two) in rates.items())
            lines.append(f'{kernels}: {{{pairs}, source: "{source_of_both}"}}')
        lines.append(f"conversion: {converted / 1e9:.3g}e9")
    lines += [
        "measured:  # on which GPU, from what size to what, and how far unseen points were off in the mean"
    ] + measured_rows
    lines += [
        "errors:  # of points that the fit had not seen: five folds by shape, or a GPU left out"
    ] + error_lines(errors_of)
    (HERE / f"{gpu}.yaml").write_text("\n".join(lines) + "\n", encoding="utf-8")


def write_tables():
    with open(HERE / "errors.csv", "w", encoding="utf-8") as file:
        file.write("gpu,family,held_out,points,mean,median,p90,bias,source\n")
        for row in ERRORS:
            values = ",".join(f"{row[key]:.4f}" for key in ("mean", "median", "p90", "bias"))
            names = f'{row["gpu"]},"{row["family"]}","{row["held_out"]}"'
            file.write(f"{names},{row['points']},{values},{row['source']}\n")
    with open(HERE / "samples.csv", "w", encoding="utf-8") as file:
        file.write("gpu,family,a,b,c,d,e,f,seconds\n")
        file.writelines(",".join(row) + "\n" for row in SAMPLES)
