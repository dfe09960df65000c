"""Steps of a small network over Gloo on CPUs, traced or timed.

    record.py trace KIND RANKS BATCH OUT.json.gz       six steps of rank 0 under PyTorch's profiler
    record.py time KIND RANKS BATCH OUT.csv            appends a row: the median of ten steps without it

KIND is ddp or fsdp2. Each rank has one thread, on a core of its own. `trace` keeps of each event what an import reads.
"""
import gzip
import json
import os
import platform
import statistics
import sys
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn as nn
import torch.nn.functional as F
from torch.profiler import ProfilerActivity, profile, schedule

WIDTH, LAYERS, TOKENS, WORDS = 384, 4, 64, 512
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


def keep(path, out):
    with open(path) as file:
        trace = json.load(file)
    events = [made for made in map(shrunk, trace["traceEvents"]) if made]
    first = min(event["ts"] for event in events)
    for event in events:
        event["ts"] = round(event["ts"] - first + 1000, 1)
    text = json.dumps({"distributedInfo": {"backend": "gloo", "rank": 0}, "torch": torch.__version__,
                       "traceEvents": events}, separators=(",", ":"))
    with open(out, "wb") as file:
        file.write(gzip.compress(text.encode(), 9, mtime=0))


def work(rank, what, kind, ranks, batch, out, port):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank), WORLD_SIZE=str(ranks))
    torch.set_num_threads(1)
    os.sched_setaffinity(0, {rank % os.cpu_count()})
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    network = Network()
    if kind == "ddp":
        network = nn.parallel.DistributedDataParallel(network)
    else:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        mesh = init_device_mesh("cpu", (ranks,))
        for layer in network.layers:
            fully_shard(layer, mesh=mesh)
        fully_shard(network, mesh=mesh)
    adam = torch.optim.AdamW(network.parameters(), lr=1e-3, foreach=True)
    tokens = torch.randint(WORDS, (batch, TOKENS))

    def step():
        F.cross_entropy(network(tokens).flatten(0, 1), tokens.flatten()).backward()
        adam.step()
        adam.zero_grad()

    for _ in range(3):
        step()
    if what == "trace":
        plan = schedule(wait=0, warmup=1, active=6, repeat=1)
        with profile(activities=[ProfilerActivity.CPU], record_shapes=True, schedule=plan) as profiler:
            for _ in range(7):
                step()
                profiler.step()
        if rank == 0:
            profiler.export_chrome_trace(out + ".whole")
            keep(out + ".whole", out)
            os.unlink(out + ".whole")
    else:
        times = []
        for _ in range(10):
            dist.barrier()
            begin = time.perf_counter()
            step()
            times.append(time.perf_counter() - begin)
        if rank == 0:
            quarter = statistics.quantiles(times, n=4)
            with open(out, "a") as file:
                file.write(f"{torch.__version__.split('+')[0]},{kind},{ranks},{batch},{statistics.median(times):.5f},"
                           f"{(quarter[2] - quarter[0]) / statistics.median(times):.3f}\n")
    dist.destroy_process_group()


if __name__ == "__main__":
    what, kind, ranks, batch, out = sys.argv[1:6]
    mp.spawn(work, (what, kind, int(ranks), int(batch), out, 20000 + os.getpid() % 20000), nprocs=int(ranks))
