"""Steps of a small network over Gloo on CPUs, traced and timed.

    record.py KIND RANKS FOLDER

KIND is ddp or fsdp2. Two processes compute, with one thread each on a core of its own: both ranks of a run, or two
runs of one rank each, so that cores and memory are shared alike. Of two ranks FOLDER gets traces of rank 0 with 8 and
16 samples. runs.csv there gets rows of other batches: the median of steps without the profiler. All take turns, so
that what else the machine does meets them alike. Processes keep the memory that they free: pages that are touched anew
take a virtual machine's time, which grows with no batch. A trace keeps of each event what an import reads.
"""
import json
import os
import platform
import statistics
import sys
import time
from collections import defaultdict

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn as nn
import torch.nn.functional as F
from torch.profiler import ProfilerActivity, profile, schedule

WIDTH, LAYERS, TOKENS, WORDS = 384, 4, 64, 512
ROUNDS, STEPS, TRACED, TIMED = 4, 2, (8, 16), {1: (8, 32), 2: (4, 32)}
KEPT = ("Sequence number", "Input Dims", "Input type")


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.up = nn.Linear(WIDTH, 4 * WIDTH)
        self.down = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.start = nn.Embedding(WORDS, WIDTH)
        self.layers = nn.ModuleList(Block() for _ in range(LAYERS))
        self.end = nn.Linear(WIDTH, WORDS)

    def forward(self, tokens):
        x = self.start(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.end(x)


def shrunk(event):
    """What an import reads of an event, or nothing of one that it drops."""
    name, category = event.get("name", ""), event.get("cat")
    if event.get("ph") != "X" or category not in ("cpu_op", "user_annotation"):
        return None
    args = {key: value for key, value in event.get("args", {}).items() if key in KEPT}
    if not name.endswith("AccumulateGrad") and not name.startswith("gloo:"):
        args = {key: value for key, value in args.items() if key == "Sequence number"}
    made = {key: event[key] for key in ("ph", "cat", "name", "pid", "tid")}
    return made | {"ts": round(event["ts"], 1), "dur": round(event["dur"], 1), "args": args}


def keep(rounds, out):
    """Writes rounds one behind the other, as if nothing had passed between them."""
    events, at = [], 1000
    for one in rounds:
        first = min(event["ts"] for event in one)
        for event in one:
            event["ts"] = round(event["ts"] - first + at, 1)
        at = max(event["ts"] + event["dur"] for event in one)
        events += one
    with open(out, "w") as file:
        json.dump({"distributedInfo": {"backend": "gloo", "rank": 0}, "torch": torch.__version__,
                   "traceEvents": events}, file, separators=(",", ":"))


def build(kind, ranks):
    torch.manual_seed(0)
    network = Network()
    if kind == "ddp":
        return nn.parallel.DistributedDataParallel(network)
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cpu", (ranks,))
    for layer in network.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(network, mesh=mesh)
    return network


def traced(step, out):
    """Events of steps under the profiler, after one that warms it up."""
    plan = schedule(wait=0, warmup=1, active=STEPS, repeat=1)
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True, schedule=plan) as profiler:
        for _ in range(STEPS + 1):
            step()
            profiler.step()
    profiler.export_chrome_trace(out)
    with open(out) as file:
        events = json.load(file)["traceEvents"]
    os.unlink(out)
    return [made for made in map(shrunk, events) if made]


def timed(step):
    times = []
    for _ in range(3 * STEPS):
        dist.barrier()
        begin = time.perf_counter()
        step()
        times.append(time.perf_counter() - begin)
    return times


def work(process, kind, ranks, folder, port):
    rank = process if ranks == 2 else 0
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port + process - rank), RANK=str(rank),
                      WORLD_SIZE=str(ranks))
    torch.set_num_threads(1)
    os.sched_setaffinity(0, {process})
    dist.init_process_group("gloo")
    network = build(kind, ranks)
    adam = torch.optim.AdamW(network.parameters(), lr=1e-3, foreach=True)
    version = torch.__version__.split("+")[0]

    def step_of(batch):
        tokens = torch.randint(WORDS, (batch, TOKENS))

        def step():
            F.cross_entropy(network(tokens).flatten(0, 1), tokens.flatten()).backward()
            adam.step()
            adam.zero_grad()

        step()
        return step

    rounds, times = defaultdict(list), defaultdict(list)
    for _ in range(ROUNDS):
        for batch in TRACED if ranks == 2 else ():
            rounds[batch].append(traced(step_of(batch), f"{folder}/{process}.whole"))
        for batch in TIMED[ranks]:
            times[batch] += timed(step_of(batch))
    for batch, kept in rounds.items() if process == 0 else ():
        keep(kept, f"{folder}/{version}-{kind}-2-{batch}.json")
    for batch, seconds in times.items() if process == 0 else ():
        median, quarter = statistics.median(seconds), statistics.quantiles(seconds, n=4)
        with open(f"{folder}/runs.csv", "a") as file:
            file.write(f"{version},{kind},{ranks},{batch},{median:.5f},{(quarter[2] - quarter[0]) / median:.3f}\n")
    dist.destroy_process_group()


if __name__ == "__main__":
    os.environ.update(MALLOC_MMAP_MAX_="0", MALLOC_TRIM_THRESHOLD_=str(1 << 33), MALLOC_ARENA_MAX="1")
    kind, ranks, folder = sys.argv[1:]
    mp.spawn(work, (kind, int(ranks), folder, 20000 + os.getpid() % 20000), nprocs=2)
