#!/usr/bin/env python3
"""Real training steps of Hugging Face's and torchvision's models on one GPU.

    record.py --out FOLDER [--budget-s S] [--only REGEX] [--device cpu --quick]

Sharded and replicated ones are one rank of a group whose other ranks are faked: the collectives of
torch's "fake" backend return at once, while buffers, copies and streams are real.

FOLDER/steps.jsonl gets a line of JSON for each case: seconds (CUDA events, median over steps),
bytes of PyTorch's allocator in the step before those, and the time of each kernel and operator. A
case that the budget has no time for is named. --quick is for a look at the script on a CPU: small
models, two steps; FSDP1 refuses a CPU.
"""
import argparse
import contextlib
import gc
import json
import os
import re
import statistics
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F

from networks import CONFIGS

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--out", required=True)
parser.add_argument("--budget-s", type=float, default=540)
parser.add_argument("--only", default=".")
parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
parser.add_argument("--quick", action="store_true")
parser.add_argument("--sets", default="waiting,images,compiled,models,first")
args = parser.parse_args()
cuda = args.device == "cuda"
device = torch.device(args.device)
started = time.monotonic()
recorded = set()
os.makedirs(args.out, exist_ok=True)
with contextlib.suppress(FileNotFoundError), open(os.path.join(args.out, "steps.jsonl"), encoding="utf-8") as lines:
    recorded = {json.loads(line)["case"] for line in lines}
sink = open(os.path.join(args.out, "steps.jsonl"), "a", encoding="utf-8")


def left():
    return args.budget_s - (time.monotonic() - started)


def write(case, **data):
    sink.write(json.dumps({"case": case, **data}) + "\n")
    sink.flush()
    shown = data.get("step_s", data.get("note", ""))
    print(f"[{time.monotonic() - started:6.1f} s] {case}: {shown} {data.get('message', '')[:200]}", flush=True)


def sync():
    if cuda:
        torch.cuda.synchronize()


def memory():
    if not cuda:
        return {}
    stats = torch.cuda.memory_stats()
    return {f"{kind}{peak}": stats[f"{kind}_bytes.all.{'peak' if peak else 'current'}"]
            for kind in ("allocated", "reserved") for peak in ("", "_peak")}


def mark():
    if not cuda:
        return time.perf_counter()
    event = torch.cuda.Event(enable_timing=True)
    event.record()
    return event


def between(a, b):
    return a.elapsed_time(b) / 1e3 if cuda else b - a


# Models ------------------------------------------------------------------------------------------
def language_model(name, dtype, attention, dropout):
    import transformers as T
    config = CONFIGS[name](args.quick, dropout)
    mixed = name.startswith(("moe", "mixtral", "deepseek"))
    options = {"experts_implementation": "grouped_mm"} if mixed and cuda else {}
    kind = T.AutoModelForMaskedLM if name.startswith("bert") else T.AutoModelForCausalLM
    with device:
        model = kind.from_config(config, attn_implementation=attention, dtype=dtype, **options)
    model.config.use_cache = False
    return model


def image_model(name):
    import torchvision
    with device:
        return getattr(torchvision.models, name)(num_classes=1000)


def with_adapters(model):
    import peft
    targets = [f"{part}_proj" for part in ("q", "k", "v", "o", "gate", "up", "down")]
    return peft.get_peft_model(model, peft.LoraConfig(r=16, lora_alpha=32, lora_dropout=0.0, target_modules=targets))


# Strategies --------------------------------------------------------------------------------------
def group(world):
    from torch.testing._internal.distributed.fake_pg import FakeStore
    if dist.is_initialized():
        dist.destroy_process_group()
    dist.init_process_group("fake", rank=0, world_size=world, store=FakeStore())


def blocks_of(model):
    for path in ("model.layers", "transformer.h", "base_model.model.model.layers"):
        with contextlib.suppress(AttributeError):
            return model.get_submodule(path)
    raise RuntimeError("no blocks")


def fsdp2(model, reshard=True, **more):
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for block in blocks_of(model):
        fully_shard(block, mp_policy=policy, reshard_after_forward=reshard, **more)
    return fully_shard(model, mp_policy=policy, reshard_after_forward=reshard, **more)


def offload(model):
    from torch.distributed.fsdp import CPUOffloadPolicy
    return fsdp2(model, offload_policy=CPUOffloadPolicy())


def zero2(model):
    return fsdp2(model, reshard=False)


def fsdp1(model):
    from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecision
    from torch.distributed.fsdp.wrap import ModuleWrapPolicy
    return FullyShardedDataParallel(
        model, auto_wrap_policy=ModuleWrapPolicy({type(blocks_of(model)[0])}), device_id=0 if cuda else None, use_orig_params=True,
        mixed_precision=MixedPrecision(param_dtype=torch.bfloat16, reduce_dtype=torch.bfloat16, buffer_dtype=torch.bfloat16))


def no_collective(state, bucket):
    future = torch.futures.Future()
    future.set_result(bucket.buffer())
    return future


def ddp(model):
    wrapped = torch.nn.parallel.DistributedDataParallel(model, device_ids=[0] if cuda else None)
    wrapped.register_comm_hook(None, no_collective)
    return wrapped


# Steps -------------------------------------------------------------------------------------------
MARKS = ("Optimizer.", "FSDP", "FullySharded")


def operators(profile):
    """Kernels as they ran, and operators by the shapes of their inputs, in us of one step; without the profiler's own marks."""
    rows, kernels = [], {}
    for event in profile.key_averages(group_by_input_shape=True):
        us = event.self_device_time_total if cuda else event.self_cpu_time_total
        if us > 0 and event.key != "Command Buffer Full" and (not cuda or "CUDA" not in str(event.device_type)):
            rows.append({"op": event.key, "shapes": event.input_shapes, "n": event.count, "us": round(us, 2)})
    for event in profile.events() if cuda else ():
        if "CUDA" in str(event.device_type) and not event.name.startswith(MARKS):
            row = kernels.setdefault(event.name[:110], [0, 0.0])
            row[0] += 1
            row[1] += event.self_device_time_total
    table = [{"kernel": name, "n": n, "us": round(us, 2)} for name, (n, us) in kernels.items()]
    return {"operators": sorted(rows, key=lambda row: -row["us"])[:90], "kernels": sorted(table, key=lambda row: -row["us"])[:60]}


PHASES = ("forward", "backward", "optimizer")
LAUNCHES = ("cudaLaunchKernel", "cuLaunchKernel", "cudaMemcpyAsync", "cudaMemsetAsync")


def launches(profile):
    """Calls that put work on the GPU, and operators, in each phase."""
    events = [event for event in profile.events() if "CPU" in str(event.device_type)]
    spans = {event.name: event.time_range for event in events if event.name in PHASES}
    table = {phase: {"launches": 0, "operators": 0} for phase in PHASES}
    for event in events:
        kind = "launches" if event.name.startswith(LAUNCHES) else "operators" if event.name.startswith("aten::") else None
        for phase, span in spans.items():
            if kind and span.start <= event.time_range.start < span.end:
                table[phase][kind] += 1
    return table


def measure(step, marks, steps):
    """Seconds of the steps and of their parts; with micro-batches forward and backward are the last one's."""
    for _ in range(3):
        step()
    sync()
    if cuda:
        torch.cuda.reset_peak_memory_stats()
    step()
    sync()
    steady = memory()
    marks.clear()
    for _ in range(steps):
        step()
    sync()
    parts = {"step_s": (0, 4), "forward_s": (1, 2), "backward_s": (2, 3), "optimizer_s": (3, 4)}
    seconds = {name: statistics.median(between(m[a], m[b]) for m in marks) for name, (a, b) in parts.items()}
    return {**seconds, "steps_s": [between(m[0], m[4]) for m in marks], "memory": steady}


def stepper(net, loss_of, parameters, optimizer, autocast, accumulate, clip, marks):
    def step():
        span = torch.profiler.record_function
        first = mark()
        for _ in range(accumulate):
            a = mark()
            with span("forward"), torch.autocast(device.type, dtype=autocast) if autocast else contextlib.nullcontext():
                loss = loss_of(net)
            b = mark()
            with span("backward"):
                loss.backward()
            c = mark()
        with span("optimizer"):
            if clip:
                torch.nn.utils.clip_grad_norm_(parameters, 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        marks.append((first, a, b, c, mark()))
    return step


def run(name, build, loss_of, optimizer, settings, *, wrap=None, world=1, autocast=None, accumulate=1, clip=False, profiled=True,
        compiled=None, need=20):
    """One case; its memory is given back before the next one."""
    if not re.search(args.only, name) or name in recorded:
        return
    if left() < need:
        print(f"left out: {name}", flush=True)
        return
    net = chosen = step = None
    try:
        gc.collect()
        if cuda:
            torch.cuda.empty_cache()
        torch.manual_seed(1)
        if world > 1:
            group(world)
        net = build().train()
        counts = {"parameters": sum(p.numel() for p in net.parameters()),
                  "trained": sum(p.numel() for p in net.parameters() if p.requires_grad)}
        if compiled == "blocks":
            for block in blocks_of(net):
                block.forward = torch.compile(block.forward)
        if wrap:
            net = wrap(net)
        chosen = [p for p in net.parameters() if p.requires_grad]
        if compiled == "whole":
            net.compile()
        marks = []
        step = stepper(net, loss_of, chosen, optimizer(chosen), autocast, accumulate, clip, marks)
        result = measure(step, marks, 2 if args.quick else 6)
        if profiled:
            from torch.profiler import ProfilerActivity, profile
            activities = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if cuda else [])
            with profile(activities=activities, record_shapes=True) as seen:
                step()
                sync()
            result.update(operators(seen), phases=launches(seen))
        settings |= {"autocast": bool(autocast), "compiled": compiled, "strategy": wrap.__name__ if wrap else None, "world": world, "accumulate": accumulate,
                     "clip": clip}
        write(name, **settings, **counts, **result)
    except torch.OutOfMemoryError as error:
        write(name, **settings, note="out of memory", message=str(error)[:400])
    except Exception as error:  # the other cases are worth having
        write(name, **settings, note="failed", message=f"{type(error).__name__}: {error}"[:600])
    finally:
        del net, chosen, step


def language(name, model, batch, sequence, dtype="fp32", autocast=torch.bfloat16, checkpoint=False, lora=False, fused=None, attention="sdpa",
             dropout=0.1, **more):
    """AdamW on random tokens."""
    if args.quick:
        batch, sequence = min(batch, 2), min(sequence, 64)

    def build():
        net = language_model(model, {"fp32": torch.float32, "bf16": torch.bfloat16}[dtype], attention, dropout)
        if lora:
            net = with_adapters(net)
        if checkpoint:
            net.gradient_checkpointing_enable({"use_reentrant": False})
            if lora:
                net.enable_input_require_grads()
        return net

    data = torch.randint(0, 500 if args.quick else CONFIGS[model](args.quick, 0).vocab_size, (batch, sequence), device=device)
    settings = dict(model=model, batch=batch, sequence=sequence, dtype=dtype, checkpoint=checkpoint, lora=lora, fused=fused,
                    attention=attention)
    run(name, build, lambda net: net(input_ids=data, labels=data).loss, lambda p: torch.optim.AdamW(p, lr=1e-5, fused=fused), settings,
        autocast=autocast, **more)


def image(model, precision, batch, side, channels_last=False, profiled=False, compiled=None):
    """SGD with momentum on random images. fp32: neither products nor convolutions in tf32; amp: autocast to bfloat16."""
    name = f"cnn/{model}/{precision}/b{batch}/i{side}" + ("/channels_last" if channels_last else "") + ("/compiled" if compiled else "")
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = precision != "fp32"
    if args.quick:
        batch, side = 2, 224 if model.startswith("vit") else 64
    layout = torch.channels_last if channels_last else torch.contiguous_format
    inputs = torch.randn(batch, 3, side, side, device=device).to(memory_format=layout)
    labels = torch.randint(0, 1000, (batch,), device=device)
    settings = dict(model=model, batch=batch, image=side, precision=precision, channels_last=channels_last)
    run(name, lambda: image_model(model).to(memory_format=layout), lambda net: F.cross_entropy(net(inputs), labels),
        lambda p: torch.optim.SGD(p, lr=1e-3, momentum=0.9), settings, profiled=profiled, compiled=compiled,
        autocast=torch.bfloat16 if precision == "amp" else None)
    torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = False, True


write("environment", note=torch.cuda.get_device_name() if cuda else "cpu", torch=torch.__version__, cuda=torch.version.cuda)
if cuda:  # wakes its clocks
    square = torch.randn(8192, 8192, device=device, dtype=torch.bfloat16)
    for _ in range(20):
        square @ square
    sync()
    del square

pure = dict(dtype="bf16", autocast=None)
sharded = dict(wrap=fsdp2, autocast=None)


def waiting():
    """So small that the GPU waits for the host: what a launch costs it."""
    language("host/llama_1b/bf16", "llama_1b", 1, 32, **pure)
    language("host/llama_1b/amp", "llama_1b", 1, 32)
    language("host/gpt2/amp", "gpt2", 1, 32)
    language("host/bert_large/amp", "bert_large", 1, 32)
    language("host/llama_1b/fsdp2/w8", "llama_1b", 1, 32, world=8, **sharded)
    language("host/llama_1b/ddp/w8", "llama_1b", 1, 32, world=8, wrap=ddp)
    language("host/llama_1b/lora", "llama_1b", 1, 32, lora=True, **pure)
    language("host/moe_4l/bf16", "moe_4l", 1, 32, **pure)
    for network in ("resnet50", "densenet121", "efficientnet_v2_l"):
        image(network, "tf32", 1, 64, profiled=True)
    image("resnet50", "amp", 1, 64, profiled=True)


def fused_images():
    image("resnet50", "amp", 256, 224, channels_last=True, profiled=True)
    image("vit_l_16", "amp", 64, 224, profiled=True)
    image("convnext_large", "amp", 64, 224, channels_last=True)
    image("efficientnet_v2_l", "amp", 64, 224, channels_last=True, profiled=True)
    image("densenet121", "amp", 128, 224, channels_last=True)
    image("vgg16", "amp", 128, 224, channels_last=True)
    image("resnet50", "amp", 256, 224, profiled=True)
    image("resnet50", "tf32", 256, 224, channels_last=True)
    image("convnext_large", "tf32", 64, 224, profiled=True)
    image("resnet50", "amp", 256, 224, channels_last=True, compiled="whole")


def compiled_models():
    language("llama_1b/bf16/b4/s2048/compiled", "llama_1b", 4, 2048, compiled="blocks", need=60, **pure)
    language("llama_8b/fsdp2/w8/b1/s8192/ac/compiled", "llama_8b", 1, 8192, world=8, checkpoint=True, compiled="blocks", need=60,
             fused=True, profiled=False, **sharded)
    language("gpt2/amp/b16/s1024/compiled", "gpt2", 16, 1024, fused=True, dropout=0.0, compiled="whole", need=60)
    language("bert_large/amp/b32/s512/compiled", "bert_large", 32, 512, compiled="whole", need=80, profiled=False)


def other_models():
    language("llama_8b/fsdp2/w8/b1/s4096/offload", "llama_8b", 1, 4096, world=8, wrap=offload, autocast=None, need=40)
    language("qwen3_1_7b/bf16/b2/s4096", "qwen3_1_7b", 2, 4096, **pure)
    language("gemma2_2b/bf16/b1/s4096/eager", "gemma2_2b", 1, 4096, attention="eager", **pure)
    language("mixtral_2l/bf16/b2/s4096", "mixtral_2l", 2, 4096, **pure)
    language("deepseek_v2_3l/bf16/b2/s4096", "deepseek_v2_3l", 2, 4096, **pure)


def first_set():
    """What the H200 ran."""
    language("llama_1b/bf16/b4/s2048", "llama_1b", 4, 2048, **pure)
    language("llama_1b/amp/b4/s2048", "llama_1b", 4, 2048, fused=True)
    language("gpt2/amp/b16/s1024", "gpt2", 16, 1024, fused=True, dropout=0.0)
    language("bert_large/amp/b32/s512", "bert_large", 32, 512)
    language("llama_8b/fsdp2/w8/b1/s4096", "llama_8b", 1, 4096, world=8, **sharded)
    language("llama_8b/fsdp2/w8/b1/s8192/ac", "llama_8b", 1, 8192, world=8, checkpoint=True, fused=True, **sharded)
    language("llama_70b_8l/fsdp2/w64/b1/s4096", "llama_70b_8l", 1, 4096, world=64, **sharded)
    language("moe_4l/bf16/b4/s4096", "moe_4l", 4, 4096, **pure)
    language("llama_8b/lora/b2/s2048/ac", "llama_8b", 2, 2048, lora=True, checkpoint=True, **pure)
    language("llama_8b/lora/b2/s2048", "llama_8b", 2, 2048, lora=True, **pure)
    language("llama_8b/fsdp2/w8/b2/s4096/ac", "llama_8b", 2, 4096, world=8, checkpoint=True, profiled=False, **sharded)
    language("llama_8b/zero2/w8/b1/s4096/ac", "llama_8b", 1, 4096, world=8, checkpoint=True, wrap=zero2, autocast=None, profiled=False)
    language("llama_1b/ddp/w8/b2/s2048", "llama_1b", 2, 2048, world=8, wrap=ddp, profiled=False)
    language("llama_1b/ddp/w8/b2/s2048/acc4", "llama_1b", 2, 2048, world=8, wrap=ddp, accumulate=4, clip=True, profiled=False)
    language("llama2_7b/fsdp1/w8/b2/s2048", "llama2_7b", 2, 2048, world=8, wrap=fsdp1, autocast=None, profiled=False)
    language("gpt2_xl/fsdp1/w8/b8/s1024", "gpt2_xl", 8, 1024, world=8, wrap=fsdp1, autocast=None)
    language("llama_8b/fsdp2/w8/b1/s8192", "llama_8b", 1, 8192, world=8, profiled=False, **sharded)
    language("llama_8b/fsdp2/w8/b1/s4096/bf16", "llama_8b", 1, 4096, world=8, dtype="bf16", clip=True, profiled=False, **sharded)
    language("llama_1b/fsdp2/w8/b4/s4096", "llama_1b", 4, 4096, world=8, profiled=False, **sharded)
    language("llama_8b/lora/fsdp2/w2/b2/s2048/ac", "llama_8b", 2, 2048, dtype="bf16", lora=True, checkpoint=True, world=2, profiled=False,
             **sharded)
    language("moe_4l/fsdp2/w8/b4/s4096", "moe_4l", 4, 4096, world=8, profiled=False, **sharded)
    language("llama_1b/bf16/b4/s2048/eager", "llama_1b", 4, 2048, attention="eager", **pure)
    language("llama_70b_8l/fsdp2/w64/b2/s8192/ac", "llama_70b_8l", 2, 8192, world=64, checkpoint=True, profiled=False, **sharded)
    for network, length, batches in (("gpt2", 1024, (4, 16)), ("bert_large", 128, (32, 128)), ("llama_1b", 2048, (1, 4)),
                                     ("gpt2_xl", 512, (2, 8))):
        for samples in batches:
            language(f"transformer/{network}/bf16/b{samples}/l{length}", network, samples, length, profiled=False)
    for network in ("resnet50", "vgg16", "convnext_large", "densenet121", "efficientnet_v2_l"):
        image(network, "tf32", 64, 224)
    image("resnet50", "fp32", 64, 224)


for cases in args.sets.split(","):
    {"waiting": waiting, "images": fused_images, "compiled": compiled_models, "models": other_models, "first": first_set}[cases]()
print("done")
