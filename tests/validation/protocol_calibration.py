"""What the predictions are made from: compute of one host, and collectives of two at one rate; then frozen."""

import datetime
import hashlib
import json
import math
import os
import platform
import re
import statistics

RATE_MBIT = 200
BURST = "128kb"
# The plan's batches of 16 are the only ones in between that are measured here.
BATCHES = {"small_cnn": "4,16,64", "small_mlp": "4,16,64", "densenet121": "2,8"}
HOSTS = ["--hosts", "2", "--rate", f"{RATE_MBIT}mbit", "--burst", BURST]
SIZES = "1KiB,4KiB,16KiB,64KiB,256KiB,512KiB,1MiB,2MiB,4MiB,8MiB"
UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
# A machine that others use changes its speed from second to second: a profile is the median one of some that were
# measured minutes apart.
PROFILE_ROUNDS = 3
# What one process takes alone, and each of as many as there are cores, in turns, some in every round.
BUSY_MODEL, BUSY_BATCH, BUSY_TURNS, BUSY_ESTIMATE_S = "small_cnn", 16, 2, 20
BUSY_COMMAND = ["compute", "--model", BUSY_MODEL, "--image", "32", "--batches", str(BUSY_BATCH), "--optimizers", "sgd",
                "--repeat", "40", "--threads", "1", "--cpu", "--quiet", "--output"]
# Roughly, for the plan.
ESTIMATE_S = {"small_cnn": 15, "small_mlp": 10, "densenet121": 40, "collectives": 100, "head start": 30}


COLLECTIVES = ["comm", "--sizes", SIZES, "--link-rate", f"{RATE_MBIT}Mbps", "--overlap", "none", "--repeat", "10",
               "--threads", "1", "--cpu", "--quiet", "--output", "calibration/comm.yaml"]


def profile_command(model, output):
    return ["compute", "--model", model, "--image", "32", "--batches", BATCHES[model], "--optimizers", "sgd",
            "--repeat", "40", "--threads", "1", "--cpu", "--quiet", "--output", str(output)]


def step_times(file):
    """Of a profile: each batch with the seconds of its whole step."""
    text = file.read_text(encoding="utf-8")
    return [(int(size), seconds(time)) for size, time in
            re.findall(r"- batch: (\d+)\n(?:.*\n)*?    whole: \{.*step: ([^ ,}]+)\}", text)]


def median_profile(files):
    """The one whose steps take, all batches together, as long as the median one's; of two the faster."""
    ranked = sorted(files, key=lambda file: (sum(time for _, time in step_times(file)), file.name))
    return ranked[(len(ranked) - 1) // 2]


def drift(rounds):
    """How far the speed of one core for a second is from that of another, or its own later: the standard deviation of
    the logarithm. Of processes that computed together, each by its median unit against all of them."""
    processes = [process for _, together in rounds for process in together]
    if len(processes) < 2:
        return 0.0
    typical = [statistics.median(process[unit][0] for process in processes) for unit in range(len(processes[0]))]
    return statistics.stdev(math.log(statistics.median(time / usual for (time, _), usual in zip(process, typical)))
                            for process in processes)


def burst_bytes(burst):
    """tc's kb are 1024 bytes."""
    return burst.replace("kb", "KiB")


def seconds(text):
    number, unit = re.fullmatch(r"([0-9.e+-]+)([a-z]+)", text).groups()
    return float(number) * UNITS[unit]


def unit_times(file):
    """Of every unit, forward and backward: its median in seconds, and its interquartile range over that."""
    times = []
    for line in file.read_text(encoding="utf-8").splitlines():
        if found := re.search(r"- \{name: .*forward: ([^,]+), backward: ([^,]+), forward_spread: ([^,]+), backward_spread: ([^,]+),", line):
            forward, backward, of_forward, of_backward = found.groups()
            times += [(seconds(forward), float(of_forward)), (seconds(backward), float(of_backward))]
    return times


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

    def profile(self, model):
        return self.folder / "compute" / f"{model}_image32_fp32.yaml"

    def keep_profiles(self, measured):
        """The median one of each model's, of those in a folder."""
        (self.folder / "compute").mkdir(parents=True, exist_ok=True)
        for model in BATCHES:
            write_whole(self.profile(model), median_profile(list(measured.glob(f"{model}.*.yaml"))).read_text("utf-8"))

    def forward_s(self):
        """What a forward pass of BUSY_MODEL took, on all cores at once."""
        text = self.profile(BUSY_MODEL).read_text(encoding="utf-8")
        forward = re.search(rf"- batch: {BUSY_BATCH}\n(?:.*\n)*?    whole: \{{forward: ([^,]+),", text)[1]
        busy = re.search(r"busy_cores: \{slowdown: ([0-9.]+)", (self.folder / "cluster.yaml").read_text(encoding="utf-8"))
        return seconds(forward) * (float(busy[1]) if busy else 1.0)

    def write_busy(self, rounds):
        """What computation takes while all cores compute, over what it takes alone, from the times of each round's
        processes alone and together (unit_times)."""
        raw = [{"alone": alone, "together": together} for alone, together in rounds]
        slowdown = statistics.median(
            statistics.median(process[unit][0] for process in one["together"]) / process_alone[unit][0]
            for one in raw for process_alone in one["alone"] for unit in range(len(process_alone)))
        spread = statistics.median(spread for one in raw for process in one["together"] for _, spread in process)
        self.busy = {"slowdown": round(max(1.0, slowdown), 3), "spread": round(spread, 3),
                     "drift": round(drift(rounds), 3)}
        write_whole(self.folder / "busy.json", json.dumps({**self.busy, "model": BUSY_MODEL, "batch": BUSY_BATCH,
                                                           "rounds": raw}) + "\n")

    def write_clusters(self, source, latency_us, head_start):
        """The hosts as clusters, from what was measured on them. A message takes `latency_us` between two, and those
        under way get the part `head_start` of one ahead of it."""
        latency = f"  nic_latency: {latency_us:.1f}us\n"
        node = self.node_text() + latency
        header = f'source: "{source}"\n'
        # All hosts are on this machine.
        footer = (f"fabric: {{star: {{}}}}\nshared_cores: {os.cpu_count()}\n"
                  f"busy_cores: {{slowdown: {self.busy['slowdown']}, spread: {self.busy['spread']}, "
                  f"drift: {self.busy['drift']}}}\nhead_start: {head_start}\ncomm_profile: comm.yaml\n")
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
