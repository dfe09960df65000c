#!/usr/bin/env python3
"""Fits platforms/engines to tpot.csv, and says how far it is off for a model that it has not seen.

    tests/rollout/fit.py            # numbers of each engine, errors with one model left out

Least squares of ln(measured / predicted) with softened outliers. A group of rows (model, engine,
version, GPU, format) weighs as its root, and each number is drawn to where it started: five models
say little. The formulas are those of sim/rollout/decode.cpp. Experts and all_reduces of few tokens
are not fitted: kernel_tables.py has them, and the engines' files. Needs NumPy, SciPy and PyYAML.
"""
import csv
import collections
import math
import pathlib

import numpy as np
import yaml
from scipy.optimize import least_squares

HERE = pathlib.Path(__file__).parent
#          start, spread of ln(value)
NUMBERS = {
    "weights": (0.86, 0.1), "cache": (0.77, 0.15), "products": (0.6, 0.3), "spread": (0.6, 0.3),
    "kernel_hopper": (6e-6, 0.25), "kernel_blackwell": (3.8e-6, 0.25),
    "all_reduce_wait_hopper": (2e-6, 0.7), "all_reduce_wait_blackwell": (2e-6, 0.7),
    "step": (270e-6, 0.7), "sequence": (14e-6, 0.7), "eager_layer": (300e-6, 0.7),
    "prompt_attention": (0.4, 0.5), "prompt_products": (0.65, 0.2), "overlap": (2.0, 0.5),
    "grouped_hopper": (0.26, 0.2), "grouped_blackwell": (0.17, 0.2), "grouped_four": (0.29, 0.2),
    "grouped_unpacked": (0.45, 0.2), "grouped_mixed": (0.4, 0.2), "routed": (10, 0.2),
    "answer": (2e-6, 1.0), "layer": (8, 0.2), "with_experts": (2, 0.4), "quantized": (2, 0.4),
    "head_norms": (1.5, 0.3), "latent": (6, 0.3), "indexer": (10, 0.3), "fused_norms": (0.8, 0.3),
    "kernel of sglang": (1, 0.15), "kernel of trtllm": (0.88, 0.15), "kernel of earlier": (1, 0.3),
    "kernel of serial": (1, 0.3),
    "host of sglang": (1.2, 0.5), "host of trtllm": (0.8, 0.5),
    "prompt of sglang": (1, 0.3), "prompt of trtllm": (1, 0.3)}
TRUST = 0.02      # of a row beside a number's start
ENGINES = HERE.parent.parent / "platforms" / "engines"
#            bandwidth, 16 bits, 8 bits, 4 bits, NVLink, Blackwell
GPUS = {"h100_sxm": (3.35e12, 989e12, 1979e12, 0, 450e9, 0),
        "h200_sxm": (4.8e12, 989e12, 1979e12, 0, 450e9, 0),
        "b200_sxm": (8e12, 2250e12, 4500e12, 9000e12, 900e9, 1),
        "b300_sxm": (8e12, 2250e12, 4500e12, 13125e12, 900e9, 1)}


def network(layers, hidden, heads, kv, width, words, wide=0, experts=(1, 0, 0, 0), latent=None,
            window=0, windowed=0, dense=0, norms=0):
    """Dimensions as in decode.cpp's DecodeModel."""
    count, active, expert, shared = experts
    with_experts = layers - dense if active else 0
    if latent:
        q, key, plain, turned, value = latent
        attention = (hidden * q + q * heads * (plain + turned) + hidden * (key + turned) +
                     heads * key * (plain + value) + heads * value * hidden)
        mean_width, cached = (plain + turned + value) / 2, key + turned
    else:
        attention, mean_width, cached = hidden * width * 2 * (heads + kv), width, 2 * width * kv
    return dict(layers=layers, expert_layers=with_experts, dense_layers=layers - with_experts,
                hidden=hidden, heads=heads, kv=kv, width=mean_width, cached=cached, words=words,
                attention=attention, wide=3 * hidden * wide, count=count, active=active,
                expert=3 * hidden * expert, shared=3 * hidden * shared, window=window,
                windowed=windowed, latent=float(bool(latent)),
                indexer=float(bool(latent and window)), norms=norms)


LLAMA = network(32, 4096, 32, 8, 128, 128256, wide=14336)
NETWORKS = {
    "Llama-3.1-8B-Instruct": LLAMA, "Llama-3.1-8B-Instruct-FP8": LLAMA,
    "MiniMax-M2.5": network(62, 3072, 48, 8, 128, 200064, experts=(256, 8, 1536, 0), norms=1),
    "Qwen3-235B-A22B-FP8": network(94, 4096, 64, 4, 128, 151936, experts=(128, 8, 1536, 0),
                                   norms=1),
    "gpt-oss-120b": network(36, 2880, 64, 8, 64, 201088, experts=(128, 4, 2880, 0), window=128,
                            windowed=18),
    "GLM-5": network(78, 6144, 64, 64, 256, 154880, wide=12288, experts=(256, 8, 2048, 2048),
                     latent=(2048, 512, 192, 64, 256), window=2048, windowed=78, dense=3)}


def number(text):
    """Of a quantity as the engines' files have it."""
    units = {"us": 1e-6, "TBps": 1e12, "KiB": 2**10, "MiB": 2**20}
    if not isinstance(text, str):
        return float(text)
    unit = next(one for one in units if text.endswith(one))
    return float(text[:-len(unit)]) * units[unit]


def expert_kernel(file, form, blackwell, bandwidth, columns):
    """Seconds to launch grouped experts, and bytes a second at which they are read."""
    key = {"nvfp4": "nvfp4", "mxfp4": "mxfp4"}.get(form, "blackwell" if blackwell else "hopper")
    if form in ("nvfp4", "mxfp4") and not blackwell:
        key = "unpacked"
    own = file["experts"][key]
    rate = own["share"] * columns / (columns + own["narrow"]) * bandwidth
    return number(own["launch"]), min(rate, number(own.get("most", rate)))


def all_reduce_times(file, blackwell, ranks):
    """Logarithms of sizes and times of an engine's own all_reduce."""
    table = file["all_reduce"]
    row = table["blackwell" if blackwell else "hopper"][
        "2" if ranks <= 2 else "4" if ranks <= 4 else "8"]
    return (tuple(math.log(number(one)) for one in table["sizes"]),
            tuple(math.log(number(one)) for one in row))


def read_rows():
    """A dictionary of columns."""
    rows = []
    files = {path.stem: yaml.safe_load(path.read_text()) for path in ENGINES.glob("*.yaml")}
    for cells in csv.DictReader(open(HERE / "tpot.csv")):
        if cells["version"] == "1.3.0rc1":  # four times as long as 1.2's
            continue
        own = NETWORKS[cells["model"]]
        bandwidth, half, eight, four, link, blackwell = GPUS[cells["gpu"]]
        tensor = int(cells["tensor_parallel"])
        spread_over = int(cells["expert_tensor"]) * int(cells["expert_parallel"])
        groups = max(1, spread_over // tensor) if own["active"] else 1
        prompt, response = float(cells["prompt"]), float(cells["response"])
        if prompt in (1024, 8192) and response in (1024, 8192):
            prompt, response = 0.9 * prompt, 0.9 * response
        engine = cells["engine"]
        form = {"fp8": "fp8", "fp4": "nvfp4"}.get(cells["precision"], "bf16")
        form = "mxfp4" if cells["model"] == "gpt-oss-120b" else form
        narrow = form in ("fp8", "nvfp4")
        cache = 2.0
        if own["latent"] or form == "mxfp4" and (engine == "trtllm" or blackwell):
            cache = 1.0  # InferenceMAX's files: kv_cache_dtype
        earlier = engine == "vllm" and cells["version"] in ("", "0.15.1", "0.16.0", "0.17.0")
        serial = cells["version"] == "0.12.0"
        file = files["vllm_0_17" if earlier else "vllm_0_10" if serial else
                     {"trtllm": "tensorrt_llm"}.get(engine, engine)]
        columns = own["expert"] / 3 / own["hidden"] / int(cells["expert_tensor"])
        launch, rate = (expert_kernel(file, form, blackwell, bandwidth, columns)
                        if own["active"] else (0.0, 1.0))
        rows.append(dict(
            own, engine=engine, model="Llama" if own is LLAMA else cells["model"],
            group=(cells["model"], engine, cells["version"], cells["gpu"], form),
            measured=float(cells["tpot_ms"]) / 1e3, batch=float(cells["batch"]), prompt=prompt,
            response=response, tensor=tensor, ranks=tensor * groups, bandwidth=bandwidth, half=half,
            link=link, blackwell=blackwell, dense_peak=eight if narrow else half,
            dense_element=1 if narrow else 2,
            expert_peak={"nvfp4": four or eight, "mxfp4": eight if blackwell else half}.get(
                form, eight if narrow else half),
            expert_element={"nvfp4": 4.5 / 8, "mxfp4": 4.25 / 8}.get(form, 1 if narrow else 2),
            four=float(form == "nvfp4"), mixed=float(form == "mxfp4"),
            unpacked=float(form in ("nvfp4", "mxfp4") and not four),
            quantized=float(narrow and own["active"] > 0 and engine != "trtllm"),
            norms=own["norms"] * (engine != "trtllm"),
            token=(own["cached"] if own["latent"] else
                   own["cached"] / own["kv"] * max(own["kv"] / tensor, 1)) * cache,
            fused=2.0 * (file["kernels"]["fused_norms"] > 0 and tensor * groups > 1),
            file="vllm_0_10" if serial else engine, launch=launch, rate=rate, times=all_reduce_times(file, blackwell, tensor * groups),
            earlier=float(earlier), serial=float(serial)))
    return {key: [row[key] for row in rows] if key in ("group", "times") else
            np.array([row[key] for row in rows]) for key in rows[0]}


def own_all_reduce(r, size):
    """Seconds, row by row, of the engines' own kernels: straight between logarithms."""
    seconds, tables = np.zeros(len(size)), collections.defaultdict(list)
    for at, table in enumerate(r["times"]):
        tables[table].append(at)
    for (sizes, times), rows in tables.items():
        seconds[rows] = np.exp(np.interp(np.log(size[rows]), sizes, times))
    return seconds


def by_engine(numbers, what, r):
    """The factor of each row's engine."""
    factor = np.ones(len(r["batch"]))
    for engine in ("sglang", "trtllm"):
        factor = np.where(r["engine"] == engine, numbers.get(f"{what} of {engine}", 1), factor)
    for version in ("earlier", "serial"):
        factor = np.where(r[version] > 0, factor * numbers.get(f"{what} of {version}", 1), factor)
    return factor


def step(x, r, batch, context, prompt_tokens, prompt):
    """Seconds of a step, row by row."""
    host_factor, prompt_factor = by_engine(x, "host", r), by_engine(x, "prompt", r)
    reach = np.where(prompt_tokens > 0, x["prompt_products"] * prompt_factor, x["products"])
    tokens = batch + prompt_tokens

    def product(parameters, moved, count, peak):
        computed = 2 * count * parameters / (reach * peak)
        return ((moved / r["bandwidth"]) ** 3 + computed ** 3) ** (1 / 3)

    def dense(parameters):
        own = parameters / r["tensor"]
        return product(own, own * r["dense_element"] / x["weights"], tokens, r["dense_peak"])

    gpu = (r["layers"] * dense(r["attention"]) + r["dense_layers"] * dense(r["wide"]) +
           r["expert_layers"] * dense(r["shared"]))
    everywhere = tokens * r["ranks"] / r["tensor"]
    read = r["count"] * (1 - (1 - r["active"] / r["count"]) **
                         np.maximum(everywhere * x["spread"], 1))
    grouped = np.where(r["blackwell"] > 0, x["grouped_blackwell"], x["grouped_hopper"])
    grouped = np.where(r["four"] > 0, x["grouped_four"], grouped)
    grouped = np.where(r["mixed"] > 0, x["grouped_mixed"], grouped)
    grouped = np.where(r["unpacked"] > 0, x["grouped_unpacked"], grouped) * prompt_factor
    gpu += r["expert_layers"] * product(
        r["active"] * r["expert"] / r["ranks"],
        read * r["expert"] / r["ranks"] * r["expert_element"] * r["bandwidth"] / r["rate"], everywhere,
        r["expert_peak"] * grouped / reach)
    gpu += r["expert_layers"] * r["launch"]
    gpu += (r["expert_layers"] * everywhere * r["active"] * r["hidden"] * x["routed"] /
            (r["ranks"] / r["tensor"]) / r["bandwidth"])
    seen = np.minimum(context, r["window"])
    held = np.where(r["indexer"] > 0, r["layers"] * (seen * r["token"] + context * 132),
                    ((r["layers"] - r["windowed"]) * context + r["windowed"] * seen) * r["token"])
    gpu += batch * held / (x["cache"] * r["bandwidth"])
    gpu += 2 * r["hidden"] * r["words"] / r["tensor"] / (x["weights"] * r["bandwidth"])
    count = r["layers"] * (x["layer"] + r["latent"] * x["latent"] + r["indexer"] * x["indexer"] +
                           r["quantized"] * x["quantized"] + r["norms"] * x["head_norms"])
    count += r["expert_layers"] * x["with_experts"]
    size = tokens * r["hidden"] * 2
    count -= np.where(size <= 8 * 2**20, r["layers"] * r["fused"] * x["fused_norms"], 0)
    gpu += count * by_engine(x, "kernel", r) * np.where(r["blackwell"] > 0, x["kernel_blackwell"],
                                                        x["kernel_hopper"])
    ring = 2 * (r["ranks"] - 1) / r["ranks"] * size
    wait = np.where(r["blackwell"] > 0, x["all_reduce_wait_blackwell"], x["all_reduce_wait_hopper"])
    one = np.where(size > 8 * 2**20, 20e-6 + ring / (0.7 * r["link"]),
                   own_all_reduce(r, size) + wait)
    gpu += np.where(r["ranks"] > 1, 2 * r["layers"] * one, 0)
    half = prompt / 2
    keys = (r["layers"] - r["windowed"]) * half + r["windowed"] * np.minimum(half, r["window"])
    gpu += (4 * r["heads"] * r["width"] * keys * prompt_tokens / r["tensor"] /
            (x["prompt_attention"] * prompt_factor * r["half"]))
    host = host_factor * (x["step"] + batch * x["sequence"])
    host = np.where(r["serial"] > 0, 650e-6 + batch * x["sequence"], host)
    power = np.where(r["serial"] > 0, 1.0, max(x["overlap"], 1.0))
    total = (gpu ** power + host ** power) ** (1 / power) + batch * x["answer"]
    eager = (r["layers"] + r["expert_layers"] / 2) * x["eager_layer"] * host_factor
    return np.where(prompt_tokens > 0, np.maximum(total, eager), total)


def predict(x, r):
    """Seconds per output token."""
    most, context, none = 8192, r["prompt"] + r["response"] / 2, np.zeros(len(r["batch"]))
    decode = step(x, r, r["batch"], context, none, r["prompt"])
    owed = r["batch"] * r["prompt"] / r["response"]
    part = np.minimum(r["prompt"], most)
    share = np.minimum(1, owed / part)
    mixed = step(x, r, r["batch"], context, np.maximum(owed, part), r["prompt"])
    come = r["batch"] / r["response"]  # prompts that came during one step are taken together
    taken = np.clip(r["prompt"] * come / -np.expm1(-come), part, most)
    alone = step(x, r, none, context, taken, r["prompt"])
    steady = np.where(r["engine"] == "sglang", decode + owed / taken * alone,
                      (1 - share) * decode + share * mixed)
    return np.where(r["serial"] > 0, decode, steady)


def fit(r, mask):
    """The numbers that suit the rows of the mask."""
    sizes = collections.Counter(r["group"])
    weight = np.array([1 / math.sqrt(sizes[group]) for group in r["group"]])
    weight = TRUST * weight / weight.mean()

    def values(point):
        return {name: start * math.exp(at) for (name, (start, _)), at in zip(NUMBERS.items(), point)}

    def residuals(point):
        off = np.log(r["measured"] / predict(values(point), r))[mask] / 0.15
        soft = np.sign(off) * np.sqrt(2 * (np.sqrt(1 + off ** 2) - 1)) * np.sqrt(weight[mask])
        return np.concatenate([soft, point / np.array([sigma for _, sigma in NUMBERS.values()])])

    return values(least_squares(residuals, np.zeros(len(NUMBERS)), max_nfev=40).x)


def left_out(r):
    """ln(measured / predicted) of each row, by a fit that has not seen its network."""
    off = np.zeros(len(r["batch"]))
    for model in sorted(set(r["model"])):
        here = r["model"] == model
        off[here] = np.log(r["measured"] / predict(fit(r, ~here), r))[here]
    return off


def main():
    """Prints what goes into the engines' files."""
    r = read_rows()
    off = left_out(r)
    for engine in ("vllm", "vllm_0_10", "sglang", "trtllm"):
        here = r["file"] == engine
        own, ends = off[here], []
        far = np.abs(np.exp(-own) - 1)
        for model in set(r["model"][here]):  # ends from the errors of other models alone
            others = off[here & (r["model"] != model)]
            if len(others):
                low, high = np.quantile(others, [0.05, 0.95])
                ends += list((off[here & (r["model"] == model)] >= low) &
                             (off[here & (r["model"] == model)] <= high))
        print(f"{engine}: {len(own)} rows, left out: median {np.median(far):.3f}, 90th "
              f"{np.quantile(far, 0.9):.3f}, ends {np.quantile(own, 0.05):.2f} "
              f"{np.quantile(own, 0.95):.2f}, which hold {np.mean(ends):.2f} of another model's")
    for name, value in fit(r, np.ones(len(off), bool)).items():
        print(f"{name}: {value:.4g}")


if __name__ == "__main__":
    main()
