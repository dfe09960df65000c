#!/usr/bin/env python3
"""Times one layer of experts, forward and backward, as frameworks compute it on one rank of an expert-parallel group.

    expert_layers.py --out FOLDER [--device cpu --quick]

FOLDER/expert_layers.jsonl gets a line of JSON for each case: seconds of the device and of the host, launches of each
pass, and the kernels. `sequential` runs local experts one by one behind a copy of their counts to the host, as
Megatron-LM's SequentialMLP does; `grouped` runs torch._grouped_mm, as torchtitan does. `exchanged` also copies what two
all_to_alls would send, and their split sizes to the host. Routing is balanced.
"""
import argparse
import json
import os
import statistics
import time

import torch
import torch.nn.functional as F

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--out", required=True)
parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
parser.add_argument("--quick", action="store_true")
args = parser.parse_args()
cuda = args.device == "cuda"
os.makedirs(args.out, exist_ok=True)
sink = open(os.path.join(args.out, "expert_layers.jsonl"), "w", encoding="utf-8")
LAUNCHES = ("cudaLaunchKernel", "cuLaunchKernel", "cudaMemcpyAsync", "cudaMemsetAsync")


def sync():
    if cuda:
        torch.cuda.synchronize()


class Layer(torch.nn.Module):
    """A router over `experts` x `ranks` and the rank's own experts: gate and up in one product, down in another."""

    def __init__(self, kind, hidden, feed_forward, experts, ranks, top_k, exchanged):
        super().__init__()
        self.kind, self.experts, self.ranks, self.top_k, self.exchanged = kind, experts, ranks, top_k, exchanged
        options = dict(device=args.device, dtype=torch.bfloat16)
        self.router = torch.nn.Parameter(torch.randn(experts * ranks, hidden, device=args.device) * 0.02)
        self.up = torch.nn.Parameter(torch.randn(experts, hidden, 2 * feed_forward, **options) * 0.02)
        self.down = torch.nn.Parameter(torch.randn(experts, feed_forward, hidden, **options) * 0.02)

    def route(self, x):
        """Scores as the router gives them; experts in turn, so that each gets as many tokens."""
        scores = F.softmax(x.float() @ self.router.t(), dim=-1)
        _, chosen = scores.topk(self.top_k, dim=-1)
        turn = torch.arange(chosen.numel(), device=x.device).view_as(chosen) % scores.shape[1]
        return scores.gather(1, turn), turn

    def exchange(self, rows, counts):
        """An all_to_all to oneself: split sizes on the host, and a copy."""
        counts.view(self.ranks, -1).sum(1).tolist()
        return rows.clone()

    def compute(self, rows, counts):
        if self.kind == "grouped":
            ends = counts.cumsum(0, dtype=torch.int32)
            gate, up = torch._grouped_mm(rows, self.up, offs=ends).chunk(2, dim=-1)
            return torch._grouped_mm(F.silu(gate) * up, self.down, offs=ends)
        parts = []
        for expert, part in enumerate(rows.split(counts.tolist())):
            gate, up = (part @ self.up[expert]).chunk(2, dim=-1)
            parts.append((F.silu(gate) * up) @ self.down[expert])
        return torch.cat(parts)

    def forward(self, x):
        scores, chosen = self.route(x)
        counts = torch.bincount(chosen.flatten(), minlength=self.experts * self.ranks)
        order = chosen.flatten().argsort(stable=True)
        tokens = order // self.top_k
        rows = x[tokens]
        if self.exchanged:
            rows = self.exchange(rows, counts)
            rows = rows.view(self.ranks, self.experts, -1, rows.shape[1]).transpose(0, 1).reshape(rows.shape)
        local = counts.view(self.ranks, self.experts).sum(0)
        rows = self.compute(rows, local)
        if self.exchanged:
            rows = self.exchange(rows.view(self.experts, self.ranks, -1, rows.shape[1]).transpose(0, 1).reshape(rows.shape), counts)
        weighted = rows * scores.flatten()[order].unsqueeze(1).to(rows.dtype)
        return torch.zeros_like(x).index_add(0, tokens, weighted)


def passes(layer, x, gradient):
    """Seconds of forward and backward, each between two synchronizations, and of the host until it has issued them."""
    sync()
    a = time.perf_counter()
    y = layer(x)
    issued = time.perf_counter()
    sync()
    b = time.perf_counter()
    y.backward(gradient)
    issued_backward = time.perf_counter()
    sync()
    c = time.perf_counter()
    layer.zero_grad(set_to_none=True)
    x.grad = None
    return b - a, c - b, issued - a, issued_backward - b


def profiled(layer, x, gradient):
    from torch.profiler import ProfilerActivity, profile, record_function
    activities = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if cuda else [])
    with profile(activities=activities) as seen:
        with record_function("forward"):
            y = layer(x)
        sync()
        with record_function("backward"):
            y.backward(gradient)
        sync()
    events = list(seen.events())
    spans = {e.name: e.time_range for e in events if e.name in ("forward", "backward") and "CPU" in str(e.device_type)}
    counts = {name: sum(e.name.startswith(LAUNCHES) and span.start <= e.time_range.start < span.end for e in events)
              for name, span in spans.items()}
    kernels = {}
    for e in events:
        if "CUDA" in str(e.device_type) and e.name not in ("forward", "backward"):
            row = kernels.setdefault(e.name[:80], [0, 0.0])
            row[0] += 1
            row[1] += e.self_device_time_total
    return counts, sorted(([name, n, round(us, 1)] for name, (n, us) in kernels.items()), key=lambda row: -row[2])[:24]


def case(kind, name, hidden, feed_forward, experts, ranks, top_k, tokens, exchanged):
    layer = Layer(kind, hidden, feed_forward, experts, ranks, top_k, exchanged)
    x = torch.randn(tokens, hidden, device=args.device, dtype=torch.bfloat16, requires_grad=True)
    gradient = torch.randn_like(x)
    for _ in range(3):
        passes(layer, x, gradient)
    rows = [passes(layer, x, gradient) for _ in range(2 if args.quick else 9)]
    seconds = dict(zip(("forward_s", "backward_s", "forward_host_s", "backward_host_s"),
                       (statistics.median(column) for column in zip(*rows))))
    launches, kernels = profiled(layer, x, gradient)
    line = dict(kind=kind, network=name, hidden=hidden, feed_forward=feed_forward, experts=experts, ranks=ranks, top_k=top_k,
                tokens=tokens, exchanged=exchanged, **seconds, launches=launches, kernels=kernels)
    sink.write(json.dumps(line) + "\n")
    sink.flush()
    print(kind, name, experts, tokens, exchanged, {k: round(v * 1e3, 3) for k, v in seconds.items()}, launches, flush=True)


SIZES = [("qwen3_30b", 2048, 768, 16, 8, 8), ("qwen3_30b", 2048, 768, 128, 1, 8), ("mixtral_8x7b", 4096, 14336, 1, 8, 2),
         ("mixtral_8x7b", 4096, 14336, 8, 1, 2), ("deepseek_v3", 7168, 2048, 8, 32, 8), ("deepseek_v3", 7168, 2048, 32, 8, 8)]
for name, hidden, feed_forward, experts, ranks, top_k in SIZES:
    for kind in ("sequential", "grouped"):
        for tokens in ((256,) if args.quick else (4096, 16384)):
            try:
                scale = 32 if args.quick else 1
                case(kind, name, hidden // scale, feed_forward // scale, experts, ranks, top_k, tokens, ranks > 1)
            except Exception as error:  # the other cases are worth having
                print(f"{kind} {name} {experts} {tokens}: {type(error).__name__}: {str(error)[:200]}", flush=True)
