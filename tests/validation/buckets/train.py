#!/usr/bin/env python3
"""One rank of DistributedDataParallel over Gloo, whose backward is short beside what it exchanges.

train.py --buckets MB[,MB...] [--steps N] [--server]: median seconds of a step for each bucket size, as JSON on rank 0.
--server: every rank pushes its gradients to rank 0 (reduce), which sends back what it made of them (broadcast)."""
import argparse
import json
import os
import statistics
import time

import torch
import torch.distributed as dist

LAYERS, WIDTH, BATCH = 24, 512, 8  # 24 layers of 1 MiB in fp32


def network():
    return torch.nn.Sequential(*[torch.nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(LAYERS)])


def timed(step, steps):
    times = []
    for _ in range(steps + 3):
        dist.barrier()
        begin = time.perf_counter()
        step()
        taken = torch.tensor([time.perf_counter() - begin])
        dist.all_reduce(taken, op=dist.ReduceOp.MAX)
        times.append(taken.item())
    return times[3:]


def summary(times):
    low, median, high = statistics.quantiles(times, n=4)
    return {"step_s": round(median, 5), "low": round(low, 5), "high": round(high, 5)}


def replicated(bucket_mb, steps):
    model = network()
    ddp = model if bucket_mb is None else torch.nn.parallel.DistributedDataParallel(model, bucket_cap_mb=bucket_mb)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    inputs = torch.randn(BATCH, WIDTH)

    def step():
        ddp(inputs).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    return summary(timed(step, steps))


def served(steps):
    model = network()
    inputs = torch.randn(BATCH, WIDTH)

    def step():
        model(inputs).sum().backward()
        for parameter in model.parameters():
            dist.reduce(parameter.grad, 0)
        for parameter in model.parameters():
            dist.broadcast(parameter.grad, 0)
        model.zero_grad()

    return summary(timed(step, steps))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--buckets", default="")
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--server", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rows = {"alone": replicated(None, options.steps)}
    for bucket in filter(None, options.buckets.split(",")):
        rows[bucket] = replicated(float(bucket), options.steps)
    if options.server:
        rows["server"] = served(options.steps)
    if dist.get_rank() == 0:
        print(json.dumps(rows), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
