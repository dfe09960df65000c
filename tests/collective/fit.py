#!/usr/bin/env python3
"""Fits and scores the model of NCCL's times on the open curves of tests/data/collectives.

An independent copy of sim/collective/nccl_model.cpp in numpy: tests/collective/open_curves.cpp
holds the two to each other. Times are in us, sizes in bytes, rates in GB/s.

  fit.py score       errors by band of the shipped constants, of alpha-beta, of links alone
  fit.py left-out    each curve between nodes predicted by a fit of the others; writes left_out.csv

fit_constants.py refits the constants of one node. Needs numpy, scipy and yaml.
"""
import csv
import math
import pathlib
import sys

import numpy as np
import yaml
from scipy.optimize import least_squares

DATA = pathlib.Path(__file__).resolve().parent.parent / "data" / "collectives"
MIB = 2.0**20
BANDS = [("< 64 KiB", 0), ("64 KiB - 1 MiB", 2**16), ("1 - 64 MiB", 2**20), (">= 64 MiB", 2**26)]

PLATFORMS = DATA.parent.parent.parent / "platforms"
CONSTANTS = ["launch", "step", "ll", "ll128", "simple", "nvls", "all_to_all", "all_to_all_own"]


def generations_of_file():
    """The constants of each generation by name: times in us, shares."""
    known = yaml.safe_load((PLATFORMS / "architectures.yaml").read_text(encoding="utf-8"))

    def of(name):
        own = known[name]
        return (of(own["like"]) if "like" in own else {}) | own.get("nccl", {})

    return {name: {k: float(str(of(name)[k]).removesuffix("us")) for k in CONSTANTS}
            for name in ("volta", "ampere", "hopper", "blackwell")}


# What all generations have in common, and cards without NVLink: sim/collective/nccl_constants.hpp
GENERATIONS = generations_of_file() | {
    "cards": dict(zip(CONSTANTS, [5, 1.17, 0.5, 0.9, 1, 1, 1, 0]))}
SHARED = dict(
    ll128_launch=10, ll128_step=2.5, simple_launch=4.1, simple_step=1.67, fill=1.21, fill_half=196,
    simple_launch_between=8.3, simple_step_between=4, fill_between=1.52, fill_between_half=32,
    nvls_begin=15.9, nvls_fill=1.23, peer=0.5, one_process=2.3,
    own_all_reduce=0.44, own_all_gather=0.86, own_reduce_scatter=0.95,
    network_simple=0.96, network_ll128=0.88, network_ll=0.48, ll128_between=2,
    chain_step=2.37, chain_ll=0.037, chain_ll128=0.27, chain_simple=0.292,
    tree_chunk=0.275, tree_half=0.083, nvls_tree_fill=2.0, nvls_tree_half=0.194)
LL_CAPS = {"hopper": (45, 35), "blackwell": (90, 70)}
CUBE_MESH = {2: 1 / 6, 3: 1 / 3, 4: 2 / 3, 5: 0.28, 6: 1 / 3, 7: 2 / 3, 8: 1}


def number(text, missing=0.0):
    return float(text) if text else missing


def read():
    with open(DATA / "machines.csv", encoding="utf-8") as file:
        machines = {row["machine"]: row for row in csv.DictReader(file)}
    rows = []
    with open(DATA / "curves.csv", encoding="utf-8") as file:
        for curve in csv.DictReader(file):
            for point in curve["bytes:time_us"].split():
                size, time = map(float, point.split(":"))
                rows.append(dict(machine=machines[curve["machine"]], kind=curve["collective"],
                                 ranks=int(curve["ranks"]), nodes=int(curve["nodes"]), size=size,
                                 time=time))
    return rows


def bus_factor(kind, n):
    if kind == "all_reduce":
        return 2 * (n - 1) / n
    return (n - 1) / n if kind in ("all_gather", "reduce_scatter", "all_to_all") else 1


def inner(row):
    """Name of the generation's constants, and the rate inside a node."""
    machine, g = row["machine"], row["ranks"] // row["nodes"]
    if machine["nvlink_GBps"]:
        share = CUBE_MESH.get(g, 1) if machine["architecture"] == "volta" else 1
        return machine["architecture"], float(machine["nvlink_GBps"]) * share
    if machine["staged_GBps"]:
        return "cards", min(float(machine["staged_GBps"]) / g, float(machine["pcie_GBps"]))
    return "cards", 0.95 * float(machine["pcie_GBps"])


def network(row, change):
    """NICs, payload of all of them, a step, what Simple adds to it."""
    machine = row["machine"]
    values = {key: number(machine[key]) for key in
              ("nics", "nic_GBps", "efficiency", "rate_GBps", "step_us", "chunk_us")}
    values.update(change.get(machine["net"], {}))
    rate = values["nic_GBps"] * values["efficiency"]
    if values["rate_GBps"]:
        rate = min(rate, values["rate_GBps"])
    return values["nics"], values["nics"] * rate, values["step_us"], values["chunk_us"]


def candidates(row, generations=GENERATIONS, s=SHARED, change={}):
    n, nodes, kind, size = row["ranks"], row["nodes"], row["kind"], row["size"] / 1e3
    g, machine = n // nodes, row["machine"]
    name, rate = inner(row)
    c = generations[name]
    launch, step = c["launch"], c["step"]
    if machine["one_process"] == "1":
        launch += s["one_process"] * n
    nics, net, hop, chunk = network(row, change) if nodes > 1 else (0, math.inf, 0, 0)
    inside = rate if g > 1 else math.inf
    low_latency = nodes == 1 or machine["low_latency"] == "1"
    staged = bool(machine["staged_GBps"]) and g > 1
    q = s.get("own_" + kind, 0) if name != "cards" else 0
    if kind == "all_to_all":
        q = c["all_to_all_own"]
    few = (1 - q / n) / (1 - q / 8)
    volume = bus_factor(kind, n) * size
    twice = 2 if kind == "all_reduce" else 1
    across = twice * (nodes - 1)
    steps = twice * (n - 1) - across
    only, protocols = machine["algorithms"].split(), machine["protocols"].split()
    times = {}

    def add(algorithm, time):
        name, protocol = (algorithm + " Simple").split()[:2]
        if (not only or name in only) and (not protocols or protocol in protocols):
            times[algorithm] = launch + time

    def filled(k, half, latency, moved):
        return k * math.sqrt(latency * moved) / (1 + math.sqrt(moved / (half * latency)))

    if kind == "all_to_all":
        moved = volume / (c["all_to_all"] * inside * few)
        peers = s["peer"] * (n - 1)
        if nodes > 1:
            moved = max(moved, g * size * (nodes - 1) / nodes / (s["network_simple"] * net))
            add("direct", peers + hop + chunk + moved +
                filled(s["fill_between"], s["fill_between_half"], hop + chunk, moved))
        else:
            add("direct", peers + moved +
                filled(s["fill"], s["fill_half"], s["simple_launch_between"] + peers, moved))
        return times
    cap = LL_CAPS.get(name, (22.5, 19))[nodes > 2] if nodes > 1 else math.inf
    if low_latency:
        add("Ring LL", steps * step + across * hop +
            volume / min(c["ll"] * inside, s["network_ll"] * net, cap))
        if not staged:
            add("Ring LL128", s["ll128_launch"] + s["ll128_step"] * steps * step +
                across * (hop + s["ll128_between"]) +
                volume / min(c["ll128"] * inside, s["network_ll128"] * net))
    moved = volume / min(c["simple"] * inside * few, s["network_simple"] * net)
    if nodes == 1:
        latency = s["simple_launch"] + s["simple_step"] * steps * step
        add("Ring Simple", latency + moved + filled(s["fill"], s["fill_half"], latency, moved))
    else:
        latency = (s["simple_launch_between"] + s["simple_step_between"] * steps * step +
                   across * (hop + chunk))
        add("Ring Simple", latency + moved +
            filled(s["fill_between"], s["fill_between_half"], launch + latency, moved))
    if kind != "all_reduce":
        return times
    version = tuple(map(int, machine["nccl"].split(".")[:2])) if machine["nccl"] else (9, 0)
    switch = name in ("hopper", "blackwell") and g > 4
    if nodes == 1:
        if switch and version >= (2, 17):
            moved = volume / (c["nvls"] * inside)
            add("NVLS", s["nvls_begin"] + moved + s["nvls_fill"] * math.sqrt(s["nvls_begin"] * moved))
        return times
    crossings = 2 if nodes > 2 else (1 if version >= (2, 13) else bus_factor(kind, n))
    depth, channels = math.ceil(math.log2(nodes)), 2 * min(nics, g)
    buffers = channels * 4 * MIB / 1e3
    for protocol, begin, scale, shift, of_chain, of_net in (
            ("LL", 0, 1, 0, "chain_ll", s["network_ll"]),
            ("LL128", s["ll128_launch"], s["ll128_step"], s["ll128_between"], "chain_ll128",
             s["network_ll128"]),
            ("Simple", s["simple_launch_between"], s["simple_step_between"], chunk,
             "chain_simple", s["network_simple"])):
        if protocol != "Simple" and (not low_latency or (staged and protocol == "LL128")):
            continue
        share = s[of_chain] if name != "cards" else 0.5 * c[protocol.lower()]
        moved = max(crossings * size / (of_net * net), size / (share * inside) if g > 1 else 0)
        if protocol == "LL":
            moved = max(moved, crossings * size / cap)
        latency = begin + 2 * ((g - 1) * s["chain_step"] * scale * step + depth * (hop + shift))
        if protocol == "Simple":
            stages = 2 * (g - 1 + depth)
            latency += (stages * channels * s["tree_chunk"] * 1e3 / (of_net * net) * size /
                        (size + s["tree_half"] * buffers))
        add("Tree " + protocol, latency + moved)
    if switch and version >= (2, 18):
        moved = max(crossings * size / (s["network_simple"] * net),
                    volume / (c["nvls"] * inside))
        add("NVLSTree", s["nvls_begin"] + 2 * depth * (hop + chunk) + moved +
            s["nvls_tree_fill"] * buffers / (s["network_simple"] * net) * size /
            (size + s["nvls_tree_half"] * buffers))
    return times


def predict(row, *constants):
    return min(candidates(row, *constants).values())


# --- scoring

def group(row):
    if row["nodes"] > 1:
        return "several nodes"
    return "one node, NVLink" if row["machine"]["nvlink_GBps"] else "one node, PCIe"


def band(row):
    return max(i for i, (_, least) in enumerate(BANDS) if row["size"] * 1.0001 >= least)


def table(title, rows, predicted):
    errors = [(band(r), p / r["time"] - 1) for r, p in zip(rows, predicted)]
    cells = []
    for i in range(len(BANDS)):
        mine = np.array([e for b, e in errors if b == i])
        cells.append(f"{100 * np.mean(abs(mine)):5.1f} /{100 * np.median(abs(mine)):5.1f} "
                     f"({100 * np.mean(mine):+5.1f}), {len(mine):3d}" if len(mine) else "-")
    print(f"| {title} | " + " | ".join(cells) + " |")


def half_widths(rows, predicted):
    """What 90 % of ln(measured / predicted) stay within, by band."""
    off = [(band(r), abs(math.log(r["time"] / p))) for r, p in zip(rows, predicted)]
    return [round(float(np.quantile([o for b, o in off if b == i], 0.9)), 3)
            for i in range(len(BANDS))]


def header():
    print("mean / median absolute error in % (signed mean), points")
    print("| | " + " | ".join(name for name, _ in BANDS) + " |")
    print("|---|" + "---|" * len(BANDS))


# Ring, one protocol, the largest latency on every step: what most simulators have.
def alpha_beta(row, constants):
    """(launch, step, share) of a generation; hop and efficiency of a network."""
    name, rate = inner(row)
    launch, step, share = constants[name]
    if row["machine"]["one_process"] == "1":
        launch += SHARED["one_process"] * row["ranks"]
    steps = (2 if row["kind"] == "all_reduce" else 1) * (row["ranks"] - 1)
    rate = share * rate if row["ranks"] > row["nodes"] else math.inf
    if row["nodes"] > 1:
        hop, efficiency = constants[row["machine"]["net"]]
        step, rate = max(step, hop), min(rate, efficiency * network(row, {})[1])
    return launch + steps * step + bus_factor(row["kind"], row["ranks"]) * row["size"] / 1e3 / rate


def fitted_alpha_beta(rows):
    names = sorted({inner(r)[0] for r in rows})
    nets = sorted({r["machine"]["net"] for r in rows if r["nodes"] > 1})

    def unpack(x):
        x = np.exp(x)
        constants = {n: x[3 * i:3 * i + 3] for i, n in enumerate(names)}
        constants.update({n: x[3 * len(names) + 2 * i:][:2] for i, n in enumerate(nets)})
        return constants

    start = np.log([10, 1, 0.7] * len(names) + [20, 0.8] * len(nets))
    fit = least_squares(
        lambda x: [math.log(alpha_beta(r, unpack(x)) / r["time"]) for r in rows], start,
        loss="soft_l1", f_scale=0.2)
    constants = unpack(fit.x)
    return [alpha_beta(r, constants) for r in rows]


def links_alone(row):
    """The closed form of rings and trees at the links' own rates and latencies."""
    n, nodes, size = row["ranks"], row["nodes"], row["size"] / 1e3
    name, rate = inner(row)
    inside, volume = (0.6 if name != "cards" else 1), bus_factor(row["kind"], n) * size
    twice = 2 if row["kind"] == "all_reduce" else 1
    if nodes == 1:
        if row["kind"] == "all_to_all":
            return inside + volume / rate
        return twice * (n - 1) * inside + volume / rate
    _, net, hop, _ = network(row, {})
    g = n // nodes
    least = min(rate, net) if g > 1 else net
    ring = twice * ((nodes - 1) * hop + (n - nodes) * inside) + volume / least
    tree = (2 * (math.ceil(math.log2(nodes)) * hop + (g - 1) * inside) +
            max((1 if nodes == 2 else 2) * size / net, size / rate if g > 1 else 0))
    return min(ring, tree) if row["kind"] == "all_reduce" else ring


def score():
    rows = read()
    header()
    for name in ("one node, NVLink", "one node, PCIe", "several nodes"):
        some = [r for r in rows if group(r) == name]
        predicted = [predict(r) for r in some]
        table(name, some, predicted)
        for kind in sorted({r["kind"] for r in some}):
            pairs = [(r, p) for r, p in zip(some, predicted) if r["kind"] == kind]
            table("... " + kind, *zip(*pairs))
        table("alpha-beta, fitted to the same rows", some, fitted_alpha_beta(some))
        table("links alone", some, [links_alone(r) for r in some])
        print("half-widths of ln(time) that hold 90 %:", half_widths(some, predicted))


# --- each curve between nodes left out of the fit

# Constants that curves between nodes fit: where they start, and how firmly (standard deviation of
# the logarithm). Networks that one curve has start where the others are: 35 us a step.
# TCP's rate is stated, as staged rates are: one machine's own.
PRIORS = {
    "efa step": (35, 0.5), "efa efficiency": (0.88, 0.1), "without GPUDirect": (3.1, 0.1),
    "fastrak step": (35, 0.5), "fastrak chunk": (35, 0.7), "fastrak efficiency": (0.94, 0.1),
    "sockets step": (45, 0.5), "sockets rate": (2.08, 0.05), "ib efficiency": (0.99, 0.05),
    "fill_between": (1.28, 0.7), "fill_between_half": (30, 1.0), "tree_chunk": (0.25, 0.7),
    "tree_half": (0.085, 0.7), "nvls_tree_fill": (1.6, 0.7), "nvls_tree_half": (0.245, 0.7),
    "chain_step": (2.3, 0.3), "chain_simple": (0.31, 0.3),
}


def unpacked(x):
    value = dict(zip(PRIORS, np.exp(x)))
    efa = dict(step_us=value["efa step"], efficiency=value["efa efficiency"])
    change = {
        "efa_simple": efa, "efa_nogdr": dict(efa, rate_GBps=value["without GPUDirect"]),
        "fastrak": dict(step_us=value["fastrak step"], chunk_us=value["fastrak chunk"],
                        efficiency=min(1, value["fastrak efficiency"])),
        "sockets": dict(step_us=value["sockets step"], rate_GBps=value["sockets rate"]),
        "ib": dict(efficiency=min(1, value["ib efficiency"])),
        "roce": dict(efficiency=min(1, value["ib efficiency"]))}
    shared = dict(SHARED, **{k: v for k, v in value.items() if k in SHARED})
    return GENERATIONS, shared, change


def fit_between(rows):
    count = {}
    for r in rows:
        key = r["machine"]["machine"], band(r)
        count[key] = count.get(key, 0) + 1
    weights = [2 / math.sqrt(count[r["machine"]["machine"], band(r)]) for r in rows]
    start = np.array([math.log(centre) for centre, _ in PRIORS.values()])
    spread = np.array([width for _, width in PRIORS.values()])

    def residuals(x):
        constants = unpacked(x)
        off = [w * math.log(predict(r, *constants) / r["time"]) for r, w in zip(rows, weights)]
        return np.concatenate([off, 0.25 * (x - start) / spread])

    return least_squares(residuals, start, loss="soft_l1", f_scale=0.2, diff_step=1e-3).x


def left_out():
    rows = [r for r in read() if r["nodes"] > 1]
    fitted = fit_between(rows)
    for name, value in zip(PRIORS, np.exp(fitted)):
        print(f"{name}: {value:.4g}")
    predicted = [0.0] * len(rows)
    for name in sorted({r["machine"]["machine"] for r in rows}):
        constants = unpacked(fit_between([r for r in rows if r["machine"]["machine"] != name]))
        for i, r in enumerate(rows):
            if r["machine"]["machine"] == name:
                predicted[i] = predict(r, *constants)
    with open(DATA / "left_out.csv", "w", encoding="utf-8") as file:
        file.write("machine,bytes,measured_us,shipped_us,left_out_us\n")
        for r, p in zip(rows, predicted):
            file.write(f"{r['machine']['machine']},{r['size']:.0f},{r['time']:g},"
                       f"{predict(r):.5g},{p:.5g}\n")
    header()
    table("as shipped", rows, [predict(r) for r in rows])
    table("each curve left out", rows, predicted)
    for name in sorted({r["machine"]["machine"] for r in rows}):
        pairs = [(r, p) for r, p in zip(rows, predicted) if r["machine"]["machine"] == name]
        table("... " + name, *zip(*pairs))
    print("half-widths of ln(time) that hold 90 %:", half_widths(rows, predicted))


if __name__ == "__main__":
    tasks = {"score": score, "left-out": left_out}
    if len(sys.argv) != 2 or sys.argv[1] not in tasks:
        sys.exit(__doc__)
    tasks[sys.argv[1]]()
