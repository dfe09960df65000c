"""What the predictions are made from: compute of one host, and collectives of two at one rate; then frozen."""

import datetime
import hashlib
import json
import os
import platform
import re

RATE_MBIT = 200
BURST = "128kb"
# The plan's batches of 16 are the only ones in between that are measured here.
BATCHES = {"small_cnn": "4,16,64", "small_mlp": "4,16,64", "densenet121": "2,8"}
HOSTS = ["--hosts", "2", "--rate", f"{RATE_MBIT}mbit", "--burst", BURST]
SIZES = "1KiB,4KiB,16KiB,64KiB,256KiB,512KiB,1MiB,2MiB,4MiB,8MiB"
UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
# Roughly, for the plan.
ESTIMATE_S = {"small_cnn": 15, "small_mlp": 10, "densenet121": 40, "collectives": 100}


def commands():
    """Every measurement: its name, the testbed's options (none: it needs no hosts) and the calibrator's."""
    for model, batches in BATCHES.items():
        yield model, None, ["compute", "--model", model, "--image", "32", "--batches", batches, "--optimizers", "sgd",
                            "--repeat", "40", "--threads", "1", "--cpu", "--quiet",
                            "--output", f"calibration/compute/{model}_image32_fp32.yaml"]
    yield ("collectives", HOSTS,
           ["comm", "--sizes", SIZES, "--link-rate", f"{RATE_MBIT}Mbps", "--overlap", "none", "--repeat", "10", "--threads", "1", "--cpu", "--quiet",
            "--output", "calibration/comm.yaml"])


def burst_bytes(burst):
    """tc's kb are 1024 bytes."""
    return burst.replace("kb", "KiB")


def seconds(text):
    number, unit = re.fullmatch(r"([0-9.e+-]+)([a-z]+)", text).groups()
    return float(number) * UNITS[unit]


class Frozen:
    """The calibration in a folder, as the scenarios beside it use it."""

    def __init__(self, folder):
        self.folder = folder / "calibration"

    @property
    def exists(self):
        return (self.folder / "cluster.yaml").exists()

    @property
    def digest(self):
        whole = hashlib.sha256()
        for file in sorted(self.folder.rglob("*.yaml")):
            whole.update(file.read_bytes())
        return whole.hexdigest()[:16]

    def step_time(self, model, batch):
        """Of one host alone, in seconds; between the measured batches in proportion."""
        text = (self.folder / "compute" / f"{model}_image32_fp32.yaml").read_text(encoding="utf-8")
        points = [(int(size), seconds(time)) for size, time in
                  re.findall(r"- batch: (\d+)\n(?:.*\n)*?    whole: \{.*step: ([^ ,}]+)\}", text)]
        below = max((point for point in points if point[0] <= batch), default=points[0])
        above = min((point for point in points if point[0] >= batch), default=points[-1])
        share = (batch - below[0]) / (above[0] - below[0]) if above[0] > below[0] else 0.0
        return below[1] + share * (above[1] - below[1])

    def write_clusters(self, source, latency_us):
        """The hosts as clusters, from what was measured on them. A message takes `latency_us` between two."""
        latency = f"  nic_latency: {latency_us:.1f}us\n"
        node = self.node_text() + latency
        header = f'source: "{source}"\n'
        # All hosts are on this machine.
        footer = f"fabric: {{star: {{}}}}\nshared_cores: {os.cpu_count()}\ncomm_profile: comm.yaml\n"
        served = self.group("worker", 2, node, RATE_MBIT) + self.group("server", 1, f"  gpus: 0\n{latency}", RATE_MBIT)
        unequal = self.group("fast", 2, node, 400) + self.group("slow", 2, node, 100)
        one = f"nodes: 2\nnode:\n{node}  nic: {RATE_MBIT}Mbps\n  nic_burst: {burst_bytes(BURST)}\n"
        for name, text in (("unequal_cluster", f"groups:\n{unequal}"), ("served_cluster", f"groups:\n{served}"),
                           ("cluster", one)):
            write_whole(self.folder / f"{name}.yaml", header + text + footer)

    @staticmethod
    def group(name, nodes, node, rate):
        inner = "".join(f"    {line}\n" for line in f"{node}  nic: {rate}Mbps\n  nic_burst: {burst_bytes(BURST)}".splitlines())
        return f"  - name: {name}\n    nodes: {nodes}\n    node:\n{inner}"

    def node_text(self):
        text = (self.folder / "compute" / "small_cnn_image32_fp32.yaml").read_text(encoding="utf-8")
        device = re.search(r"  device: (.*)", text)[1]
        rates = dict(re.findall(r"(\w+): ([^ ,}]+)", re.search(r"rates: \{(.*)\}", text)[1]))
        return (f"  gpus: 1\n  gpu:\n    name: {device}\n    fp32: {rates['fp32']}\n    memory: {rates['memory']}\n"
                f"    memory_bandwidth: {rates['memory_bandwidth']}\n    source: measured\n    profiles: compute\n"
                # What a rank computes on is the host's memory: nothing is copied on its way to the network.
                f"  pcie: {rates['memory_bandwidth']}\n  host_bandwidth: {rates['memory_bandwidth']}\n")

    def write_machine(self):
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            model = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown")
        facts = {"cpu": model, "cores": os.cpu_count(), "kernel": platform.release(),
                 "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
                 "date": datetime.datetime.now(datetime.timezone.utc).strftime("%FT%TZ"),
                 "hosts": 2, "rate_mbit": RATE_MBIT, "burst": BURST}
        write_whole(self.folder / "machine.json", json.dumps(facts, indent=2) + "\n")


def write_whole(file, text):
    """Whole or not at all."""
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_name(f".{file.name}.part")
    part.write_text(text, encoding="utf-8")
    part.replace(file)
