#!/usr/bin/env python3
"""One rank of a real run: a small transformer over torch.distributed.pipelining and tensor parallelism.

    RANK=... WORLD_SIZE=... MASTER_ADDR=... MASTER_PORT=... train.py CASE.json FOLDER

CASE.json says the model, the degrees, the schedule and what each half of a block takes (`times`, seconds). Every rank writes
FOLDER/RANK.json: how long its steps took, and of the last step what it computed, sent and received, in order (Log).

A block computes, but takes the given time: it sleeps for what is left of it (Pace). A sleeping rank takes no core, so that
eight of them fit on two.
"""
import json
import os
import pathlib
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe, ScheduleInterleaved1F1B, schedules
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

SCHEDULES = {"gpipe": ScheduleGPipe, "1f1b": Schedule1F1B, "interleaved_1f1b": ScheduleInterleaved1F1B}


def sleep_until(moment):
    if (left := moment - time.monotonic()) > 0:
        time.sleep(left)


class Pace:
    """A part of a block takes so long each way, from when its input is there. `behind`: what of that it takes after it has
    slept."""

    def __init__(self, times, behind):
        self.forward, self.backward = (each - behind for each in times)
        self.begin = 0.0


class SlowForward(torch.autograd.Function):
    """Behind most of what a part computes."""

    @staticmethod
    def forward(_, tensor, pace):
        sleep_until(pace.begin + pace.forward)
        return tensor.view_as(tensor)

    @staticmethod
    def backward(_, gradient):
        return gradient, None


class SlowBackward(torch.autograd.Function):
    """In front of most of it, where backward ends."""

    @staticmethod
    def forward(ctx, tensor, pace):
        ctx.pace = pace
        return tensor.view_as(tensor)

    @staticmethod
    def backward(ctx, gradient):
        sleep_until(ctx.pace.begin + ctx.pace.backward)
        return gradient, None


class BeginBackward(torch.autograd.Function):
    """At a part's output, where backward begins."""

    @staticmethod
    def forward(ctx, tensor, pace):
        ctx.pace = pace
        return tensor.view_as(tensor)

    @staticmethod
    def backward(ctx, gradient):
        ctx.pace.begin = time.monotonic()
        return gradient, None


class Part(nn.Module):
    """Half a block: norm, a product over all channels, what is between them, a product back, and the sum. The first product
    is split by its columns, the second by its rows."""

    def __init__(self, width, inner, pace):
        super().__init__()
        self.norm = nn.RMSNorm(width)
        self.enter = nn.Linear(width, inner[0], bias=False)
        self.leave = nn.Linear(inner[1], width, bias=False)
        self.pace = pace

    def forward(self, tensor):
        self.pace.begin = time.monotonic()
        inner = SlowBackward.apply(self.enter(self.norm(tensor)), self.pace)
        out = self.leave(SlowForward.apply(self.between(inner), self.pace))
        return tensor + BeginBackward.apply(out, self.pace)


class Attention(Part):
    def __init__(self, model, pace):
        super().__init__(model["hidden_size"], (3 * model["hidden_size"], model["hidden_size"]), pace)
        self.width = model["hidden_size"] // model["heads"]

    def between(self, inner):
        batch, tokens, _ = inner.shape
        query, key, value = inner.view(batch, tokens, -1, 3, self.width).permute(3, 0, 2, 1, 4)
        out = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return out.transpose(1, 2).reshape(batch, tokens, -1)


class FeedForward(Part):
    def __init__(self, model, pace):
        super().__init__(model["hidden_size"], (2 * model["intermediate_size"], model["intermediate_size"]), pace)

    def between(self, inner):
        gate, up = inner.view(*inner.shape[:-1], -1, 2).unbind(-1)
        return nn.functional.silu(gate) * up


class Head(nn.Module):
    def __init__(self, model, pace):
        super().__init__()
        self.norm = nn.RMSNorm(model["hidden_size"])
        self.logits = nn.Linear(model["hidden_size"], model["vocab_size"], bias=False)
        self.pace = pace

    def forward(self, tensor):
        self.pace.begin = time.monotonic()
        logits = SlowBackward.apply(self.logits(self.norm(tensor)), self.pace)
        return BeginBackward.apply(SlowForward.apply(logits, self.pace), self.pace)


class CrossEntropy(torch.autograd.Function):
    """Of logits that are split over the ranks of a group; three small all_reduces, as Megatron-LM has them."""

    @staticmethod
    def forward(ctx, logits, target, group):
        most = logits.max(dim=-1).values
        dist.all_reduce(most, dist.ReduceOp.MAX, group=group)
        first = dist.get_rank(group) * logits.shape[-1]
        here = (target >= first) & (target < first + logits.shape[-1])
        local = torch.where(here, target - first, 0)
        logits = logits - most.unsqueeze(-1)
        wanted = torch.where(here, logits.gather(-1, local.unsqueeze(-1)).squeeze(-1), 0.0)
        dist.all_reduce(wanted, group=group)
        exponents = logits.exp()
        total = exponents.sum(dim=-1)
        dist.all_reduce(total, group=group)
        ctx.save_for_backward(exponents / total.unsqueeze(-1), here, local)
        return (total.log() - wanted).mean()

    @staticmethod
    def backward(ctx, gradient):
        shares, here, local = ctx.saved_tensors
        out = shares.clone()
        out.scatter_add_(-1, local.unsqueeze(-1), -here.unsqueeze(-1).to(out.dtype))
        return out * (gradient / here.numel()), None, None


def blocks_of(case, stage):
    """A stage's part of the model; blocks in equal parts."""
    model, stages = case["model"], case["stages"]
    pace = {name: lambda times=times: Pace(times, case["behind"]) for name, times in case["times"].items()}
    each = model["layers"] // stages
    parts = [nn.Embedding(model["vocab_size"], model["hidden_size"])] if stage == 0 else []
    for _ in range(each):
        parts += [Attention(model, pace["attention"]()), FeedForward(model, pace["feed_forward"]())]
    if stage == stages - 1:
        parts.append(Head(model, pace["head"]()))
    return nn.Sequential(*parts)


def split(module, mesh):
    """Over the ranks of a tensor-parallel group, by torch.distributed.tensor.parallel."""
    plan = {}
    for name, part in module.named_children():
        if isinstance(part, nn.Embedding):
            plan[name] = RowwiseParallel(input_layouts=Replicate())
        elif isinstance(part, Head):
            plan[f"{name}.logits"] = ColwiseParallel(output_layouts=Shard(-1))
        else:
            plan[f"{name}.enter"] = ColwiseParallel()
            plan[f"{name}.leave"] = RowwiseParallel()
    return parallelize_module(module, mesh, plan)


class Log:
    """What a rank does in a step, in order. "F2.0" is the forward of stage 2 on micro-batch 0, "B2.0" its backward; "F2.0>3"
    sends what that made to rank 3, "F2.0<1" receives what it needs from rank 1. A send stands where it is issued, a receive
    where it was waited for."""

    def __init__(self):
        self.events, self.of_operation, self.of_work = [], {}, {}

    def watch(self, stage):
        for method, what in (("get_fwd_recv_ops", "F"), ("get_bwd_recv_ops", "B"), ("get_fwd_send_ops", "F"),
                             ("get_bwd_send_ops", "B")):
            self.label(stage, method, what)
        for method, what in (("forward_one_chunk", "F"), ("backward_one_chunk", "B")):
            self.computes(stage, method, what)

    def label(self, stage, method, what):
        original = getattr(stage, method)

        def labelled(micro):
            operations = original(micro)
            for operation in operations:
                way = ">" if "send" in method else "<"
                self.of_operation[id(operation)] = f"{what}{stage.stage_index}.{micro}{way}{operation.peer}"
            return operations

        setattr(stage, method, labelled)

    def computes(self, stage, method, what):
        original = getattr(stage, method)

        def computing(micro, *arguments, **options):
            self.events.append(f"{what}{stage.stage_index}.{micro}")
            return original(micro, *arguments, **options)

        setattr(stage, method, computing)

    def hook(self):
        """Into what issues and awaits batches of sends and receives."""
        issue, wait = schedules._batch_p2p, schedules._wait_batch_p2p

        def issuing(operations, desc=None):
            labels = [self.of_operation.pop(id(operation), None) for operation in operations]
            self.events += [label for label in labels if label and ">" in label]
            works = issue(operations, desc)
            for label, work in zip(labels, works):
                if label and "<" in label:
                    self.of_work[id(work)] = label
            return works

        def waiting(works):
            wait(works)
            for work in works:
                if label := self.of_work.pop(id(work), None):
                    self.events.append(label)

        schedules._batch_p2p, schedules._wait_batch_p2p = issuing, waiting


class Run:
    def __init__(self, case):
        self.case, self.log = case, Log()
        pipeline, tensor = case["pipeline"], case["tensor"]
        self.mesh = init_device_mesh("cpu", (pipeline, tensor), mesh_dim_names=("pp", "tp"))
        self.ranks, self.tensor = self.mesh["pp"], self.mesh["tp"]
        self.stages = [self.stage(index) for index in range(case["stages"])
                       if index % pipeline == self.ranks.get_local_rank()]
        self.last = any(stage.is_last for stage in self.stages)
        parameters = [parameter for stage in self.stages for parameter in stage.submod.parameters()]
        self.optimizer = torch.optim.SGD(parameters, lr=0.01)
        self.log.hook()
        kind = SCHEDULES[case["schedule"]]
        stages = self.stages if kind is ScheduleInterleaved1F1B else self.stages[0]
        self.schedule = kind(stages, case["micro_batches"], loss_fn=self.loss)
        size = (case["micro_batches"] * case["batch"], case["sequence"])
        draw = torch.Generator().manual_seed(1)
        self.tokens = torch.randint(case["model"]["vocab_size"], size, generator=draw)
        self.targets = torch.randint(case["model"]["vocab_size"], size, generator=draw)

    def stage(self, index):
        torch.manual_seed(index)
        module = blocks_of(self.case, index)
        if self.case["split"]:
            split(module, self.tensor)
        stage = PipelineStage(module, index, self.case["stages"], torch.device("cpu"), group=self.ranks.get_group(),
                              **self.shapes(index))
        self.log.watch(stage)
        return stage

    def shapes(self, index):
        """Of what a stage takes and gives, so that nobody asks."""
        model, tokens = self.case["model"], (self.case["batch"], self.case["sequence"])
        between = torch.empty(*tokens, model["hidden_size"], requires_grad=True)
        first, last = index == 0, index == self.case["stages"] - 1
        logits = torch.empty(*tokens, model["vocab_size"] // self.case["tensor"], requires_grad=True)
        return {"input_args": torch.empty(tokens, dtype=torch.int64) if first else between,
                "output_args": logits if last else between,
                "input_grads": (None,) if first else between.detach(), "output_grads": (None,) if last else between.detach()}

    def loss(self, logits, target):
        if self.case["split"]:
            return CrossEntropy.apply(logits, target, self.tensor.get_group())
        return nn.functional.cross_entropy(logits.flatten(0, 1), target.flatten())

    def step(self):
        self.log.events.clear()
        losses = []
        self.optimizer.zero_grad()
        inputs = (self.tokens,) if self.stages[0].is_first else ()
        self.schedule.step(*inputs, target=self.targets if self.last else None, losses=losses, return_outputs=False)
        self.optimizer.step()
        return float(sum(losses)) / len(losses) if losses else None

    def measure(self):
        times, losses = [], []
        for number in range(self.case["warmup_steps"] + self.case["steps"]):
            begin = time.monotonic()
            losses.append(self.step())
            if number >= self.case["warmup_steps"]:
                times.append(time.monotonic() - begin)
        return {"rank": dist.get_rank(), "step_times_s": [round(each, 6) for each in times], "losses": losses,
                "order": " ".join(self.log.events)}


def main():
    case = json.loads(pathlib.Path(sys.argv[1]).read_text(encoding="utf-8"))
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    result = Run(case).measure()
    (pathlib.Path(sys.argv[2]) / f"{dist.get_rank()}.json").write_text(json.dumps(result), encoding="utf-8")
    dist.barrier()
    dist.destroy_process_group()
    os._exit(0)


if __name__ == "__main__":
    main()
