#!/usr/bin/env python3
"""Predicts rows.csv and prints errors and orders: predict.py BINARY [--rows FILE] [--set KEY=VALUE ...]

Of each group (hosts, rate, sockets) the row `alone` is given: a step without exchange, as hosts that share two cores
take it. The others are predicted with the Gloo model's own constants; --set changes the scenario's cluster."""
import argparse
import csv
import itertools
import json
import math
import pathlib
import subprocess
import sys
import tempfile

here = pathlib.Path(__file__).resolve().parent
LAYERS, PARAMETERS = 24, 512 * 512  # train.py's


def scenario(group, alone, setting, extra):
    hosts, rate, _ = group
    third = alone / LAYERS / 3  # backward makes two products for each of forward's
    units = [f"{{name: l{i}, parameters: {PARAMETERS}, forward: {third * 1e3:.6f}ms, backward: {2e3 * third:.6f}ms, "
             "activation: 16KiB}" for i in range(LAYERS)]
    strategy = (f"{{ddp: {{bucket_cap_mb: {setting}, first_bucket_mb: {setting}}}}}" if setting != "server" else
                "{ps: {servers: 1, server_host: worker, layerwise: true}}")
    if "comm_profile" in extra:
        extra = {"shared_cores": 2, **extra}
    cluster = {"nodes": hosts, "node": f"{{gpus: 1, gpu: generic, memory: 8GiB, nic: {rate.replace('gbit', 'Gbps')}, "
                                       "transport: tcp}", "fabric": "{star: {}}", **(extra or {"collectives": "gloo"})}
    return "\n".join([f"model: {{name: mlp, batch_per_gpu: 8, optimizer_time: 0ms, units: [{', '.join(units)}]}}",
                      "cluster: {" + ", ".join(f"{key}: {value}" for key, value in cluster.items()) + "}",
                      f"strategy: {strategy}", "optimizer: {sgd: {}}", "run: {steps: 4, warmup_steps: 2}"])


def step_time(binary, text):
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(text)
        file.flush()
        done = subprocess.run([binary, "run", file.name, "--format", "json"], capture_output=True, text=True)
    if done.returncode:
        sys.exit(text + "\n" + done.stderr)
    return json.loads(done.stdout)["step_time_s"]


def tau_b(a, b):
    """Kendall's, with ties."""
    signs = [((x > u) - (x < u), (y > v) - (y < v)) for (x, y), (u, v) in itertools.combinations(zip(a, b), 2)]
    norm = math.sqrt(sum(p != 0 for p, _ in signs) * sum(q != 0 for _, q in signs))
    return sum(p * q for p, q in signs) / norm if norm else 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("binary")
    parser.add_argument("--rows", default=here / "rows.csv", type=pathlib.Path)
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    extra = dict(one.split("=", 1) for one in options.set)
    rows = list(csv.DictReader(options.rows.open()))
    errors = []
    print("hosts  rate    sockets  mean error %  tau-b  server %")
    for group, members in itertools.groupby(rows, lambda row: (int(row["hosts"]), row["rate"], int(row["sockets"]))):
        measured = {row["setting"]: float(row["step_s"]) for row in members}
        alone = measured.pop("alone")
        predicted = {key: step_time(options.binary, scenario(group, alone, key, extra)) for key in measured}
        off = {key: 100 * (predicted[key] / measured[key] - 1) for key in measured}
        buckets = [key for key in measured if key != "server"]
        mean = sum(abs(off[key]) for key in buckets) / len(buckets)
        tau = tau_b([predicted[key] for key in buckets], [measured[key] for key in buckets])
        errors += [abs(off[key]) for key in buckets]
        print(f"{group[0]:5}  {group[1]:7} {group[2]:7}  {mean:12.1f}  {tau:5.2f}  {off.get('server', math.nan):+8.1f}")
        if options.verbose:
            for key in measured:
                print(f"       {key:>7} MB  {measured[key]:.4f} s  {predicted[key]:.4f} s  {off[key]:+.1f} %")
    print(f"all: {sum(errors) / len(errors):.1f} %")


if __name__ == "__main__":
    main()
