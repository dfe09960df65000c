#!/usr/bin/env python3
"""AIConfigurator on each ninth row of tpot.csv, beside this model fitted without the row's network.

    tests/rollout/peer_aiconfigurator.py        # pip install aiconfigurator==0.12.0 SciPy PyYAML

Its package (Apache-2.0) has its kernels' tables. Where they have none of a row's it is asked once
more in its hybrid mode, which estimates them. README.md has what came out. Without the package it
says so, and ends with 0.
"""
import csv
import importlib.util
import logging
import warnings

import fit
import numpy as np

NAMES = {"Llama-3.1-8B-Instruct": "meta-llama/Meta-Llama-3.1-8B",
         "Llama-3.1-8B-Instruct-FP8": "meta-llama/Meta-Llama-3.1-8B",
         "MiniMax-M2.5": "MiniMaxAI/MiniMax-M2.5", "GLM-5": "zai-org/GLM-5",
         "Qwen3-235B-A22B-FP8": "Qwen/Qwen3-235B-A22B-FP8", "gpt-oss-120b": "openai/gpt-oss-120b"}
FOUR_BITS = {"MiniMax-M2.5": "nvidia/MiniMax-M2.5-NVFP4", "GLM-5": "nvidia/GLM-5-NVFP4"}
EACH = 9


def estimate(row):
    """Its mode and its milliseconds per output token; nothing where it has no answer."""
    from aiconfigurator.cli.api import cli_estimate
    model, dense = row["model"], "Llama" in row["model"]
    narrow, eight = row["precision"] == "fp4", row["precision"] == "fp8"
    name = FOUR_BITS.get(model, NAMES[model]) if narrow else NAMES[model]
    tensor, parts = int(row["tensor_parallel"]), int(row["expert_parallel"])
    columns = int(row["expert_tensor"])
    asked = {"tp_size": tensor, "attention_dp_size": 1}
    if not dense:
        asked = {"tp_size": tensor, "attention_dp_size": max(1, columns * parts // tensor),
                 "moe_tp_size": columns, "moe_ep_size": parts}
    if dense and eight:
        asked["gemm_quant_mode"] = "fp8"
    if model == "GLM-5" and eight:
        asked |= {"gemm_quant_mode": "fp8_block", "moe_quant_mode": "fp8_block"}
    prompt, response = int(row["prompt"]), int(row["response"])
    if prompt in (1024, 8192) and response in (1024, 8192):
        prompt, response = int(0.9 * prompt), int(0.9 * response)
    for mode in ("SILICON", "HYBRID"):
        try:
            return mode, cli_estimate(name, row["gpu"], database_mode=mode, isl=prompt,
                                      osl=response, backend_name=row["engine"],
                                      batch_size=max(1, round(float(row["batch"]))), **asked).tpot
        except Exception:  # pylint: disable=broad-except  # it has many kinds of its own
            continue
    return None


def main():
    """Prints the table."""
    if importlib.util.find_spec("aiconfigurator") is None:
        print("aiconfigurator is not installed: pip install aiconfigurator==0.12.0")
        return
    warnings.filterwarnings("ignore")
    logging.disable(logging.CRITICAL)
    rows = [row for row in csv.DictReader(open(fit.HERE / "tpot.csv"))
            if row["version"] != "1.3.0rc1"]
    read = fit.read_rows()
    ours = np.abs(np.exp(-fit.left_out(read)) - 1)
    errors = {}
    for at in range(0, len(rows), EACH):
        told = estimate(rows[at])
        own = errors.setdefault(rows[at]["engine"], [])
        own.append((told and told[0], told and abs(told[1] / float(rows[at]["tpot_ms"]) - 1),
                    ours[at]))
    print("| engine | rows | answers | median | 90th | here, left out: median | 90th |")
    print("|---|---|---|---|---|---|---|")
    for engine, own in errors.items():
        for mode, some in (("all", [one for one in own if one[0]]),
                           ("measured kernels", [one for one in own if one[0] == "SILICON"])):
            if some:
                theirs, here = np.array([one[1:] for one in some]).T
                cells = [np.median(theirs), np.quantile(theirs, 0.9), np.median(here),
                         np.quantile(here, 0.9)]
                print(f"| {engine}, {mode} | {len(own)} | {len(some)} | " +
                      " | ".join(f"{100 * cell:.1f} %" for cell in cells) + " |")


if __name__ == "__main__":
    main()
