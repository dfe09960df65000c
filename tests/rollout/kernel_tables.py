#!/usr/bin/env python3
"""Measured kernels of AIConfigurator as the numbers of platforms/engines: experts and all_reduce.

    tests/rollout/kernel_tables.py SITE_PACKAGES    # where aiconfigurator_core 0.12.0 lies

Its tables (Apache-2.0) are of kernels alone, so that no time of a whole step is in these numbers.
Grouped experts of few tokens, dealt equally: time = launch + bytes / (share w / (w + narrow)
bandwidth), w the columns that a rank has of an expert. Of weights that are unpacked to 16 bits
`most` is the rate of bytes, whatever the bandwidth. Needs pandas, pyarrow and SciPy.
"""
import pathlib
import sys

import numpy as np
import pandas as pd
from scipy.optimize import least_squares

BANDWIDTH = {"h100_sxm": 3.35e12, "h200_sxm": 4.8e12, "b200_sxm": 8e12, "b300_sxm": 8e12}
BYTES = {"fp8_block": 1, "nvfp4": 4.5 / 8, "w4a16_mxfp4": 4.25 / 8, "w4a8_mxfp4_mxfp8": 4.25 / 8}
# Engine, key of its file, version of the table, GPUs, format, a word of the kernel's name.
EXPERTS = [
    ("vllm", "hopper", "0.19.0", ["h200_sxm"], "fp8_block", "fused_moe"),
    ("vllm", "blackwell", "0.19.0", ["b200_sxm"], "fp8_block", "fused_moe"),
    ("vllm", "nvfp4", "0.19.0", ["b200_sxm"], "nvfp4", "flashinfer_trtllm"),
    ("vllm", "mxfp4", "0.24.0", ["b200_sxm", "b300_sxm"], "w4a8_mxfp4_mxfp8", "modular"),
    ("vllm", "unpacked", "0.24.0", ["h100_sxm", "h200_sxm"], "w4a16_mxfp4", "oaitriton"),
    ("sglang", "hopper", "0.5.14", ["h100_sxm", "h200_sxm"], "fp8_block", "fused_moe_triton"),
    ("sglang", "blackwell", "0.5.14", ["b200_sxm", "b300_sxm"], "fp8_block", "flashinfer_trtllm"),
    ("sglang", "nvfp4", "0.5.14", ["b200_sxm", "b300_sxm"], "nvfp4", "flashinfer_trtllm"),
    ("sglang", "mxfp4", "0.5.14", ["b200_sxm", "b300_sxm"], "w4a8_mxfp4_mxfp8", "sglang_flash"),
    ("sglang", "unpacked", "0.5.14", ["h100_sxm", "h200_sxm"], "w4a16_mxfp4", "fused_moe_triton"),
    ("trtllm", "hopper", "1.3.0rc20", ["h100_sxm", "h200_sxm"], "fp8_block", "cutlass"),
    ("trtllm", "blackwell", "1.3.0rc20", ["b200_sxm", "b300_sxm"], "fp8_block", "deepgemm"),
    ("trtllm", "nvfp4", "1.3.0rc20", ["b300_sxm"], "nvfp4", "cutlass"),
    ("trtllm", "mxfp4", "1.3.0rc20", ["b200_sxm", "b300_sxm"], "w4a8_mxfp4_mxfp8", "torch_flow"),
    ("trtllm", "unpacked", "1.3.0rc20", ["h100_sxm", "h200_sxm"], "w4a16_mxfp4", "torch_flow")]
SIZES = [2**shift for shift in range(13, 24)]  # 8 KiB to 8 MiB
ALL_REDUCE = [("vllm", "0.19.0"), ("sglang", "0.5.9"), ("trtllm", "1.3.0rc10")]


def read_experts(data, engine, version, gpus, form, word):
    """Rows of few tokens: bytes, columns, bandwidth, seconds."""
    rows = []
    for gpu in gpus:
        table = pd.read_parquet(data / gpu / "moe" / engine / version / "moe_perf.parquet")
        table = table[(table.distribution == "balanced") & (table.moe_dtype == form) &
                      table.kernel_source.str.contains(word) & (table.num_tokens <= 128)]
        keys = ["hidden_size", "inter_size", "topk", "num_experts", "moe_tp_size", "moe_ep_size",
                "num_tokens"]
        for own, seconds in (table.groupby(keys).latency.min() / 1e3).items():
            hidden, width, active, count, tensor, parts, tokens = own
            read = min(max(tokens * active / parts, 1), count / parts)
            moved = read * 3 * hidden * width / tensor * BYTES[form]
            rows.append((moved, width / tensor, BANDWIDTH[gpu], seconds))
    moved, columns, bandwidth, seconds = np.array(rows).T
    matters = moved > 256e6  # else they stay in the cache between repetitions
    return moved[matters], columns[matters], bandwidth[matters], seconds[matters]


def fit_experts(key, moved, columns, bandwidth, seconds):
    """share (of 1, or bytes a second of weights that are unpacked), narrow, launch, and errors."""
    top = 1e12 if key == "unpacked" else bandwidth

    def rate(x):
        return np.exp(x[0] if key == "unpacked" else min(x[0], 0))

    def predicted(x):
        return np.exp(x[2]) + moved * (columns + np.exp(x[1])) / columns / (rate(x) * top)

    fit = least_squares(lambda x: np.log(predicted(x) / seconds), [-0.1, 3, np.log(4e-5)],
                        loss="soft_l1", f_scale=0.1)
    found = rate(fit.x), np.exp(fit.x[1]), np.exp(fit.x[2])
    return found, np.median(np.abs(predicted(fit.x) / seconds - 1))


def main():
    """Prints lines for the engines' files."""
    data = pathlib.Path(sys.argv[1]) / "aiconfigurator_core" / "systems" / "data"
    for engine, key, version, gpus, form, word in EXPERTS:
        rows = read_experts(data, engine, version, gpus, form, word)
        (share, narrow, launch), off = fit_experts(key, *rows)
        print(f"{engine} {key}: share {share:.3f} narrow {narrow:.0f} launch {launch * 1e6:.1f}us; "
              f"{len(rows[0])} rows, median error {100 * off:.1f} %")
    for engine, version in ALL_REDUCE:
        for generation, gpu in (("hopper", "h200_sxm"), ("blackwell", "b200_sxm")):
            table = pd.read_parquet(data / gpu / "comm" / engine / version /
                                    "custom_allreduce_perf.parquet")
            if "backend" in table:
                table = table[~table.backend.str.contains("eager")]
            for ranks in (2, 4, 8):
                times = table[table.num_gpus == ranks].groupby("message_size").latency.min()
                row = ", ".join(f"{times[size] * 1e3:.1f}us" for size in SIZES)
                print(f"{engine} {generation} {ranks}: [{row}]")


if __name__ == "__main__":
    main()
