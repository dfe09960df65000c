#!/usr/bin/env python3
"""Real training steps of Hugging Face's and torchvision's models on one GPU.

    record.py --out FOLDER [--budget-s S] [--only REGEX] [--device cpu --quick]

Sharded and replicated ones are one rank of a group whose other ranks are faked: the collectives of
torch's "fake" backend return at once, while buffers, copies and streams are real.

FOLDER/steps.jsonl gets a line of JSON for each case: seconds (CUDA events, median over steps),
bytes of PyTorch's allocator in the step before those, and the time of each kernel and operator. A
case that the budget has no time for is named. --quick is for a look at the script on a CPU: small
models, two steps; FSDP1 refuses a CPU.

A traced case also leaves FOLDER/traces/CASE.json.gz, Kineto's trace of two steps with the shapes of operators.
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
from sets import SETS

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--out", required=True)
parser.add_argument("--budget-s", type=float, default=540)
parser.add_argument("--only", default=".")
parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
parser.add_argument("--quick", action="store_true")
parser.add_argument("--sets", default="waiting,images,compiled,models,tuned,first")
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
def language_model(name, dtype, attention, dropout, experts):
    import transformers as T
    config = CONFIGS[name](args.quick, dropout)
    mixed = name.startswith(("moe", "mixtral", "deepseek"))
    options = {"experts_implementation": experts or "grouped_mm"} if mixed and cuda else {}
    kind = T.AutoModelForMaskedLM if name.startswith("bert") else T.AutoModelForCausalLM
    with device:
        model = kind.from_config(config, attn_implementation=attention, dtype=dtype, **options)
    model.config.use_cache = False
    return model


def quantized_linears(model, kind):
    """bitsandbytes' layers instead of the blocks' linear layers: "nf4", "nf4_double" (its scales in 8 bits) or "int8"."""
    import bitsandbytes as bnb
    for module in list(blocks_of(model).modules()):
        for name, layer in list(module.named_children()):
            if not isinstance(layer, torch.nn.Linear):
                continue
            options = dict(bias=layer.bias is not None, device="meta")
            if kind == "int8":
                small = bnb.nn.Linear8bitLt(layer.in_features, layer.out_features, has_fp16_weights=False, threshold=6.0, **options)
                small.weight = bnb.nn.Int8Params(layer.weight.data.cpu(), requires_grad=False, has_fp16_weights=False)
            else:
                small = bnb.nn.Linear4bit(layer.in_features, layer.out_features, compute_dtype=torch.bfloat16, quant_type="nf4", **options)
                small.weight = bnb.nn.Params4bit(layer.weight.data.cpu(), requires_grad=False, quant_type="nf4",
                                                 compress_statistics=kind == "nf4_double", module=small)
            setattr(module, name, small.to(device))
    setattr(model, "is_loaded_in_8bit" if kind == "int8" else "is_loaded_in_4bit", True)
    return model


def narrow_linears(model, recipe):
    """torchao's Float8Linear for the blocks' linear layers. "tensorwise/gathered" gathers FSDP2's shards in 8 bits, too."""
    from torchao.float8 import Float8LinearConfig, convert_to_float8_training
    config = Float8LinearConfig.from_recipe_name(recipe.split("/")[0])
    if recipe.endswith("/gathered"):
        config = Float8LinearConfig(enable_fsdp_float8_all_gather=True)
    return convert_to_float8_training(model, config=config, module_filter_fn=lambda layer, name: "lm_head" not in name)


def image_model(name):
    import torchvision
    with device:
        return getattr(torchvision.models, name)(num_classes=1000)


def with_adapters(model, quantized):
    import peft
    if quantized:  # other parameters in fp32
        model = peft.prepare_model_for_kbit_training(model, use_gradient_checkpointing=False)
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


def fsdp1_whole(model):
    from torch.distributed.fsdp import FullyShardedDataParallel
    return FullyShardedDataParallel(model, device_id=0 if cuda else None, use_orig_params=True)


def fsdp1_sized(model):
    """A unit for each module of 20,000 parameters, as PyTorch's tutorial wraps."""
    import functools
    from torch.distributed.fsdp import FullyShardedDataParallel
    from torch.distributed.fsdp.wrap import size_based_auto_wrap_policy
    policy = functools.partial(size_based_auto_wrap_policy, min_num_params=20000)
    return FullyShardedDataParallel(model, auto_wrap_policy=policy, device_id=0 if cuda else None, use_orig_params=True)


def no_collective(state, bucket):
    future = torch.futures.Future()
    future.set_result(bucket.buffer())
    return future


def ddp(model):
    wrapped = torch.nn.parallel.DistributedDataParallel(model, device_ids=[0] if cuda else None)
    wrapped.register_comm_hook(None, no_collective)
    return wrapped


STRATEGIES = {"ddp": ddp, "fsdp1": fsdp1, "fsdp2": fsdp2, "zero2": zero2, "offload": offload,
              "fsdp1_whole": fsdp1_whole, "fsdp1_sized": fsdp1_sized}


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


def trace(name, step):
    """Kineto's trace of two steps after one that warms the profiler up."""
    from torch.profiler import ProfilerActivity, profile, schedule
    os.makedirs(os.path.join(args.out, "traces"), exist_ok=True)
    file = os.path.join(args.out, "traces", name.replace("/", "-") + ".json.gz")
    activities = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if cuda else [])
    with profile(activities=activities, record_shapes=True, schedule=schedule(wait=0, warmup=1, active=2),
                 on_trace_ready=lambda seen: seen.export_chrome_trace(file)) as seen:
        for _ in range(3):
            step()
            sync()
            seen.step()


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
        traced=False, compiled=None, need=20):
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
        torch._dynamo.reset()
        if world > 1:
            group(world)
        net = build().train()
        counts = {"parameters": sum(p.numel() for p in net.parameters()),
                  "trained": sum(p.numel() for p in net.parameters() if p.requires_grad)}
        if compiled == "blocks":
            for block in blocks_of(net):
                block.forward = torch.compile(block.forward)
        if wrap:
            net = STRATEGIES[wrap](net)
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
        if traced:
            trace(name, step)
        settings |= {"autocast": bool(autocast), "compiled": compiled, "strategy": wrap, "world": world, "accumulate": accumulate,
                     "clip": clip}
        write(name, **settings, **counts, **result)
    except torch.OutOfMemoryError as error:
        write(name, **settings, note="out of memory", message=str(error)[:400])
    except Exception as error:  # the other cases are worth having
        write(name, **settings, note="failed", message=f"{type(error).__name__}: {error}"[:600])
    finally:
        del net, chosen, step


def optimizer_of(name, fused):
    if name == "adamw":
        return lambda p: torch.optim.AdamW(p, lr=1e-5, fused=fused)
    if name == "adamw_for_loop":
        return lambda p: torch.optim.AdamW(p, lr=1e-5, foreach=False, fused=False)
    if name == "adafactor":
        return lambda p: torch.optim.Adafactor(p, lr=1e-5)
    if name == "sgd":
        return lambda p: torch.optim.SGD(p, lr=1e-5, momentum=0.9)
    import bitsandbytes as bnb
    kind = {"adamw_8bit": bnb.optim.AdamW8bit, "paged_adamw_8bit": bnb.optim.PagedAdamW8bit}[name]
    return lambda p: kind(p, lr=1e-5)


def language(name, model, batch, sequence, dtype="fp32", autocast=torch.bfloat16, checkpoint=False, lora=False, fused=None, attention="sdpa",
             dropout=0.1, quantized=None, fp8=None, optimizer="adamw", experts=None, tf32=False, **more):
    """AdamW on random tokens."""
    torch.backends.cuda.matmul.allow_tf32 = tf32
    if args.quick:
        batch, sequence = min(batch, 2), min(sequence, 64)

    def build():
        net = language_model(model, {"fp32": torch.float32, "bf16": torch.bfloat16}[dtype], attention, dropout, experts)
        if quantized:
            net = quantized_linears(net, quantized)
        if lora:
            net = with_adapters(net, quantized)
        if fp8:
            net = narrow_linears(net, fp8)
        if checkpoint:
            net.gradient_checkpointing_enable({"use_reentrant": False})
            if lora:
                net.enable_input_require_grads()
        return net

    data = torch.randint(0, 500 if args.quick else CONFIGS[model](args.quick, 0).vocab_size, (batch, sequence), device=device)
    settings = dict(model=model, batch=batch, sequence=sequence, dtype=dtype, checkpoint=checkpoint, lora=lora, fused=fused,
                    attention=attention, quantized=quantized, fp8=fp8, optimizer=optimizer, experts=experts, tf32=tf32)
    run(name, build, lambda net: net(input_ids=data, labels=data).loss, optimizer_of(optimizer, fused), settings, autocast=autocast, **more)


def image(model, precision, batch, side, channels_last=False, profiled=False, compiled=None, wrap=None,
          **more):
    """SGD with momentum on random images. fp32: neither products nor convolutions in tf32; amp: autocast to bfloat16."""
    name = f"cnn/{model}/{precision}/b{batch}/i{side}" + ("/channels_last" if channels_last else "") + ("/compiled" if compiled else "")
    name += f"/{wrap}" if wrap else ""
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = precision != "fp32"
    if args.quick:
        batch, side = 2, 224 if model.startswith("vit") else 64
    layout = torch.channels_last if channels_last else torch.contiguous_format
    inputs = torch.randn(batch, 3, side, side, device=device).to(memory_format=layout)
    labels = torch.randint(0, 1000, (batch,), device=device)
    settings = dict(model=model, batch=batch, image=side, precision=precision, channels_last=channels_last)
    run(name, lambda: image_model(model).to(memory_format=layout), lambda net: F.cross_entropy(net(inputs), labels),
        lambda p: torch.optim.SGD(p, lr=1e-3, momentum=0.9), settings, profiled=profiled, compiled=compiled, wrap=wrap, **more,
        autocast=torch.bfloat16 if precision == "amp" else None)
    torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = False, True


write("environment", note=torch.cuda.get_device_name() if cuda else "cpu", torch=torch.__version__, cuda=torch.version.cuda)
if cuda:  # wakes its clocks
    square = torch.randn(8192, 8192, device=device, dtype=torch.bfloat16)
    for _ in range(20):
        square @ square
    sync()
    del square

for cases in args.sets.split(","):
    SETS[cases](language, image)
print("done")
