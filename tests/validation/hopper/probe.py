#!/usr/bin/env python3
"""Times single kernels as PyTorch calls them, by family: products in 16, 8 and 32 bits, grouped products, convolutions,
fused attention, kernels that memory bounds, optimizers. A line of JSON per point.

    probe.py --out FOLDER [--budget-s S] [--only REGEX] [--device cpu]
"""
import argparse, json, os, re, statistics, time
import torch
import torch.nn.functional as F

parser = argparse.ArgumentParser()
parser.add_argument("--out", required=True)
parser.add_argument("--budget-s", type=float, default=200)
parser.add_argument("--only", default=".")
parser.add_argument("--device", default="cuda")
args = parser.parse_args()
cuda = args.device == "cuda"
device = torch.device(args.device)
started = time.monotonic()
os.makedirs(args.out, exist_ok=True)
sink = open(os.path.join(args.out, "probe.jsonl"), "a")
bf16, fp32, fp16 = torch.bfloat16, torch.float32, torch.float16
SMALL = 1 if cuda else 64  # shapes are cut on a CPU, to try the script
count = 0


def left():
    return args.budget_s - (time.monotonic() - started)


def once(call, n, sets, hold=0.0):
    """Seconds of the device and of the host for each of n calls; `hold` keeps the device busy until the host is ahead."""
    if cuda:
        a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        if hold:
            torch.cuda._sleep(int(hold * 2e9))
        a.record()
        t = time.perf_counter()
        for i in range(n):
            call(i % sets)
        host = (time.perf_counter() - t) / n
        b.record()
        b.synchronize()
        return a.elapsed_time(b) / 1e3 / n, host
    t = time.perf_counter()
    for i in range(n):
        call(i % sets)
    t = (time.perf_counter() - t) / n
    return t, t


def timed(call, sets=1, seconds=0.012, rounds=3):
    once(call, 1, 1)
    first, host = once(call, max(3, sets), sets)
    n = max(sets, min(100, int(seconds / first) + 1)) if cuda else 1
    hold = min(0.05, 1.3 * host * n) if host > 0.5 * first else 0.0
    results = [once(call, n, sets, hold) for _ in range(rounds)]
    return statistics.median(r[0] for r in results), statistics.median(r[1] for r in results)


def point(family, call, sets=1, **data):
    global count
    try:
        t, host = timed(call, sets)
        sink.write(json.dumps({"family": family, **data, "us": round(t * 1e6, 3), "host_us": round(host * 1e6, 2)}) + "\n")
        count += 1
    except Exception as error:
        sink.write(json.dumps({"family": family, **data, "error": f"{type(error).__name__}: {error}"[:160]}) + "\n")


def many(sets, *shape, dtype=bf16):
    return [torch.randn(*shape, device=device, dtype=dtype) for _ in range(sets)]


def sets_for(size):
    return max(1, min(6, int(256e6 / size) if size else 6))


def section(name):
    def wrap(f):
        if not re.search(args.only, name):
            return
        if left() < 5:
            print(f"left out: {name}", flush=True)
            return
        begin, before = time.monotonic(), count
        try:
            f()
        except Exception as error:
            print(f"{name} failed: {type(error).__name__}: {error}"[:500], flush=True)
        sink.flush()
        if cuda:
            torch.cuda.empty_cache()
        print(f"[{time.monotonic() - started:6.1f} s] {name}: {count - before} points in {time.monotonic() - begin:.1f} s", flush=True)
    return wrap


LAYERS = [(6144, 4096), (4096, 4096), (14336, 4096), (4096, 14336), (28672, 4096), (128256, 4096), (10240, 8192), (8192, 8192), (28672, 8192),
          (8192, 28672), (2304, 768), (768, 768), (3072, 768), (768, 3072), (50257, 768), (1024, 1024), (4096, 1024), (1024, 4096), (30522, 1024),
          (768, 4096), (3584, 4096), (4096, 1792), (11008, 4096), (4096, 11008), (2048, 2048), (16384, 2048), (2048, 8192)]


def products(family, dtype, layers, tokens):
    for t in tokens:
        for n, k in layers:
            if left() < 3:
                return
            t_, n_, k_ = t // SMALL, max(8, n // SMALL), max(8, k // SMALL)
            size = torch.empty((), dtype=dtype).element_size() * (t_ * k_ + n_ * k_ + t_ * n_)
            s = sets_for(size)
            x, w, g = many(s, t_, k_, dtype=dtype), many(s, n_, k_, dtype=dtype), many(s, t_, n_, dtype=dtype)
            point(family, lambda i: x[i] @ w[i].t(), s, layout="TN", m=t_, n=n_, k=k_)
            point(family, lambda i: g[i] @ w[i], s, layout="NN", m=t_, n=k_, k=n_)
            point(family, lambda i: g[i].t() @ x[i], s, layout="NT", m=n_, n=k_, k=t_)


@section("gemm_bf16")
def _():
    products("gemm_bf16", bf16, LAYERS, (2048, 8192))
    products("gemm_bf16", bf16, LAYERS[:4] + LAYERS[10:14], (512, 32768))


@section("sustained")
def _():
    for n in (4096, 8192, 16384):
        n //= SMALL
        x, y = many(4, n, n), many(4, n, n)
        if not cuda:
            continue
        for seconds in (0.005, 0.1, 1.0):
            time.sleep(0.2)
            t, _ = once(lambda i: x[i] @ y[i], 3, 4)
            t, _ = once(lambda i: x[i] @ y[i], max(4, int(seconds / t)), 4)
            sink.write(json.dumps({"family": "sustained", "n": n, "seconds": seconds, "us": t * 1e6, "tflops": 2 * n**3 / t / 1e12}) + "\n")


@section("attention")
def _():
    from torch.nn.attention import SDPBackend, sdpa_kernel
    kinds = {"flash": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION, "efficient": SDPBackend.EFFICIENT_ATTENTION, "math": SDPBackend.MATH}
    sizes = [(16, 12, 12, 1024, 64), (32, 16, 16, 128, 64), (8, 16, 16, 512, 64), (4, 32, 8, 2048, 64), (2, 32, 32, 2048, 128), (1, 32, 8, 4096, 128),
             (1, 32, 8, 8192, 128), (1, 64, 8, 8192, 128), (1, 8, 1, 8192, 128), (1, 32, 8, 16384, 128), (1, 32, 32, 32768, 128), (4, 16, 16, 1024, 128), (2, 16, 16, 4096, 256)]
    for b, h, kv, s, d in sizes:
        s //= SMALL
        for causal in (True, False):
            for kind, backend in kinds.items():
                if kind == "math" and s > 2048 or kind == "efficient" and s > 8192 or left() < 3:
                    continue
                for wide in ([d] if kind != "cudnn" or d != 128 else [d, 192]):  # MLA: 192 wide for keys, 128 for values
                    q = torch.randn(b, h, s, wide, device=device, dtype=bf16, requires_grad=True)
                    heads = h if kind in ("efficient", "math") or wide != d else kv  # HF repeats keys and values for those
                    k = torch.randn(b, heads, s, wide, device=device, dtype=bf16, requires_grad=True)
                    v = torch.randn(b, heads, s, d, device=device, dtype=bf16, requires_grad=True)
                    data = dict(kernel=kind, causal=causal, batch=b, heads=h, kv_heads=heads, seq=s, width=wide, value_width=d)
                    with sdpa_kernel(backend):
                        call = lambda i=0: F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=heads != h)
                        try:
                            out = call()
                        except Exception as error:
                            sink.write(json.dumps({"family": "attention", **data, "error": str(error)[:120]}) + "\n")
                            continue
                        point("attention", lambda i: call(), direction="forward", **data)
                        g = torch.randn_like(out)
                        point("attention", lambda i: torch.autograd.grad(out, (q, k, v), g, retain_graph=True), direction="backward", **data)


@section("memory")
def _():
    shapes = [(8192, 4096), (8192, 14336), (32768, 1024), (16384, 8192), (2048, 4096)]
    for dtype in (bf16, fp32):
        for rows, cols in shapes:
            rows //= SMALL
            if left() < 3:
                return
            e = torch.empty((), dtype=dtype).element_size()
            s = sets_for(2 * e * rows * cols)
            x, y = many(s, rows, cols, dtype=dtype), many(s, rows, cols, dtype=dtype)
            data = dict(dtype=str(dtype)[6:], rows=rows, columns=cols)
            weight = torch.ones(cols, device=device, dtype=dtype, requires_grad=True)
            bias = torch.zeros(cols, device=device, dtype=dtype, requires_grad=True)
            with torch.no_grad():
                point("memory", lambda i: torch.add(x[i], y[i]), s, op="add", **data)
                point("memory", lambda i: torch.mul(x[i], y[i]), s, op="mul", **data)
                point("memory", lambda i: x[i].copy_(y[i]), s, op="copy", **data)
                point("memory", lambda i: x[i].zero_(), s, op="zero", **data)
                point("memory", lambda i: x[i].to(fp32 if dtype is bf16 else bf16), s, op="cast", **data)
                point("memory", lambda i: x[i].sum(0), s, op="sum_rows", **data)
                point("memory", lambda i: x[i].t().contiguous(), s, op="transpose", **data)
                point("memory", lambda i: x[i].view(rows // 64, 64, cols // 64, 64).transpose(1, 2).contiguous(), s, op="heads_transpose", **data)
                point("memory", lambda i: x[i].pow(2), s, op="pow", **data)
                point("memory", lambda i: x[i].mean(-1, keepdim=True), s, op="mean_last", **data)
                point("memory", lambda i: torch.cat((x[i], y[i]), -1), s, op="cat", **data)
                point("memory", lambda i: torch.linalg.vector_norm(x[i]), s, op="norm2", **data)
            ops = {"gelu": F.gelu, "gelu_tanh": lambda v: F.gelu(v, approximate="tanh"), "silu": F.silu, "relu": F.relu, "dropout": lambda v: F.dropout(v, 0.1),
                   "layer_norm": lambda v: F.layer_norm(v, (cols,), weight, bias), "rms_norm": lambda v: F.rms_norm(v, (cols,), weight, 1e-5),
                   "softmax": lambda v: F.softmax(v, -1)}
            for name, f in ops.items():
                ins = [v.detach().requires_grad_() for v in x]
                outs = [f(v) for v in ins]
                point("memory", lambda i: f(ins[i]), s, op=name, direction="forward", **data)
                leaves = lambda i: [ins[i]] + ([weight, bias] if name == "layer_norm" else [weight] if name == "rms_norm" else [])
                point("memory", lambda i: torch.autograd.grad(outs[i], leaves(i), y[i], retain_graph=True), s, op=name, direction="backward", **data)
                del outs
            del x, y, ins
    for vocab, rows in ((128256, 4096), (50257, 8192), (32000, 8192), (30522, 4096)):
        rows //= SMALL
        if left() < 3:
            return
        logits = torch.randn(rows, vocab, device=device, dtype=fp32, requires_grad=True)
        target = torch.randint(0, vocab, (rows,), device=device)
        loss = F.cross_entropy(logits, target)
        data = dict(dtype="float32", rows=rows, columns=vocab)
        point("memory", lambda i: F.cross_entropy(logits, target), op="cross_entropy", direction="forward", **data)
        point("memory", lambda i: torch.autograd.grad(loss, logits, retain_graph=True), op="cross_entropy", direction="backward", **data)
        del logits, loss
        for width, dtype in ((4096, bf16), (4096, fp32), (1024, fp32)):
            table = torch.randn(vocab, width, device=device, dtype=dtype, requires_grad=True)
            ids = torch.randint(0, vocab, (rows,), device=device)
            out = F.embedding(ids, table)
            g = torch.randn_like(out)
            data = dict(dtype=str(dtype)[6:], rows=rows, columns=width, vocabulary=vocab)
            point("memory", lambda i: F.embedding(ids, table), op="embedding", direction="forward", **data)
            point("memory", lambda i: torch.autograd.grad(out, table, g, retain_graph=True), op="embedding", direction="backward", **data)
            del table, out


CONVOLUTIONS = [  # channels in, out, kernel, stride, image in
    (3, 64, 7, 2, 224), (64, 64, 1, 1, 56), (64, 64, 3, 1, 56), (64, 256, 1, 1, 56), (256, 64, 1, 1, 56), (256, 128, 1, 1, 56), (128, 128, 3, 2, 56),
    (128, 512, 1, 1, 28), (256, 512, 1, 2, 56), (512, 128, 1, 1, 28), (128, 128, 3, 1, 28), (512, 256, 1, 1, 28), (256, 256, 3, 2, 28), (256, 1024, 1, 1, 14),
    (512, 1024, 1, 2, 28), (1024, 256, 1, 1, 14), (256, 256, 3, 1, 14), (1024, 512, 1, 1, 14), (512, 512, 3, 2, 14), (512, 2048, 1, 1, 7), (1024, 2048, 1, 2, 14),
    (2048, 512, 1, 1, 7), (512, 512, 3, 1, 7), (3, 64, 3, 1, 224), (64, 64, 3, 1, 224), (64, 128, 3, 1, 112), (128, 128, 3, 1, 112), (128, 256, 3, 1, 56),
    (256, 256, 3, 1, 56), (256, 512, 3, 1, 28), (512, 512, 3, 1, 28), (512, 512, 3, 1, 14), (3, 192, 4, 4, 224), (192, 384, 2, 2, 56), (128, 32, 3, 1, 28),
    (32, 32, 3, 1, 112), (192, -192, 7, 1, 56), (384, -384, 7, 1, 28), (768, -768, 7, 1, 14), (1536, -1536, 7, 1, 7), (512, -512, 3, 1, 14)]


@section("optimizer")
def _():
    shapes = [(4096, 4096), (1024, 4096), (14336, 4096), (4096, 14336), (4096,)] * (2 if cuda else 1)
    for dtype in (fp32, bf16):
        parameters = [torch.randn(max(1, s[0] // SMALL), *s[1:], device=device, dtype=dtype, requires_grad=True) for s in shapes]
        for p in parameters:
            p.grad = torch.randn_like(p)
        n = sum(p.numel() for p in parameters)
        for name, make in {"adamw_foreach": lambda: torch.optim.AdamW(parameters, lr=1e-6), "adamw_fused": lambda: torch.optim.AdamW(parameters, lr=1e-6, fused=True),
                           "adamw_loop": lambda: torch.optim.AdamW(parameters, lr=1e-6, foreach=False), "sgd_momentum": lambda: torch.optim.SGD(parameters, lr=1e-6, momentum=0.9),
                           "sgd_momentum_fused": lambda: torch.optim.SGD(parameters, lr=1e-6, momentum=0.9, fused=True)}.items():
            o = make()
            point("optimizer", lambda i: o.step(), op=name, dtype=str(dtype)[6:], parameters=n, tensors=len(parameters))
            del o
        point("optimizer", lambda i: torch.nn.utils.clip_grad_norm_(parameters, 1e9), op="clip", dtype=str(dtype)[6:], parameters=n, tensors=len(parameters))
        if dtype is fp32:
            out = [torch.empty_like(p, dtype=bf16) for p in parameters]
            point("optimizer", lambda i: torch._foreach_copy_(out, [p.detach() for p in parameters]), op="foreach_cast", dtype="float32", parameters=n, tensors=len(parameters))


@section("gemm_tf32")
def _():
    torch.backends.cuda.matmul.allow_tf32 = True
    products("gemm_tf32", fp32, [(4096, 4096), (14336, 4096), (4096, 14336), (2304, 768), (3072, 768), (768, 3072), (4096, 1024), (1024, 4096), (1024, 1024), (50257, 768)], (2048, 8192))
    torch.backends.cuda.matmul.allow_tf32 = False


@section("gemm_fp32")
def _():
    products("gemm_fp32", fp32, [(4096, 4096), (2304, 768), (3072, 768), (768, 3072), (4096, 1024), (1024, 1024)], (2048, 8192))


@section("gemm_fp8")
def _():
    if not cuda:
        return
    e4 = torch.float8_e4m3fn
    for t in (2048, 8192, 32768):
        for n, k in LAYERS[:10]:
            if left() < 3 or t * n > 2e9:
                continue
            s = sets_for(t * k + n * k + 2 * t * n)
            x = [torch.randn(t, k, device=device).to(e4) for _ in range(s)]
            w = [torch.randn(n, k, device=device).to(e4) for _ in range(s)]
            one = torch.ones((), device=device)
            rows, columns = torch.ones(t, 1, device=device), torch.ones(1, n, device=device)
            for scale, a, b in (("tensor", one, one), ("row", rows, columns)):
                for fast in (True, False):
                    point("gemm_fp8", lambda i: torch._scaled_mm(x[i], w[i].t(), a, b, out_dtype=bf16, use_fast_accum=fast), s, m=t, n=n, k=k, scale=scale, fast=fast)


@section("grouped")
def _():
    if not cuda:
        return
    for experts, tokens, n, k in ((8, 8192, 14336, 4096), (8, 8192, 4096, 14336), (16, 16384, 4096, 2048), (64, 32768, 2816, 2048), (64, 32768, 2048, 1408),
                                  (128, 32768, 1536, 2048), (128, 32768, 2048, 768), (128, 131072, 1536, 2048), (32, 65536, 4096, 7168), (8, 65536, 4096, 7168)):
        if left() < 3:
            return
        each = tokens // experts
        x, w = torch.randn(tokens, k, device=device, dtype=bf16), torch.randn(experts, k, n, device=device, dtype=bf16)
        g = torch.randn(tokens, n, device=device, dtype=bf16)
        ends = torch.arange(1, experts + 1, device=device, dtype=torch.int32) * each
        data = dict(experts=experts, tokens=tokens, n=n, k=k)
        point("grouped", lambda i: torch._grouped_mm(x, w, offs=ends), op="grouped_mm", direction="forward", **data)
        point("grouped", lambda i: torch._grouped_mm(g, w.transpose(-2, -1), offs=ends), op="grouped_mm", direction="input", **data)
        point("grouped", lambda i: torch._grouped_mm(x.t(), g, offs=ends), op="grouped_mm", direction="weight", **data)
        def loop(i):
            for e in range(experts):
                x[e * each:(e + 1) * each] @ w[e]
        point("grouped", loop, op="loop", direction="forward", **data)
        point("grouped", lambda i: torch.bmm(x.view(experts, each, k), w), op="bmm", direction="forward", **data)
        ids = torch.randperm(tokens, device=device)
        point("grouped", lambda i: x[ids], op="gather_rows", direction="forward", **data)
        out = torch.zeros(tokens, k, device=device, dtype=bf16)
        point("grouped", lambda i: out.index_add_(0, ids, x), op="index_add", direction="forward", **data)
        scores = torch.randn(tokens // 8, experts, device=device)
        point("grouped", lambda i: torch.topk(scores, min(8, experts), -1), op="topk", direction="forward", **data)


@section("beside")
def _():
    """Kernels beside one that holds some multiprocessors, as NCCL's channels do: it copies, 512 threads a block."""
    if not cuda:
        return
    import triton
    import triton.language as tl

    @triton.jit
    def channels(source, target, blocks, turns, BLOCK: tl.constexpr):
        at = tl.program_id(0)
        step = tl.num_programs(0)
        for turn in range(turns):
            for block in range(at, blocks, step):
                i = block * BLOCK + tl.arange(0, BLOCK)
                tl.store(target + i, tl.load(source + i))

    side = torch.cuda.Stream()
    size = 1 << 28  # elements of 4 bytes: 1 GiB
    source, target = torch.ones(size, device=device), torch.ones(size, device=device)
    x, w = torch.randn(8192, 4096, device=device, dtype=bf16), torch.randn(14336, 4096, device=device, dtype=bf16)
    u, v = torch.randn(8192, 8192, device=device, dtype=bf16), torch.randn(8192, 8192, device=device, dtype=bf16)
    q = torch.randn(1, 32, 8192, 128, device=device, dtype=bf16)
    big = torch.randn(16384, 8192, device=device, dtype=bf16)
    calls = {"gemm 8192x14336x4096": lambda i: x @ w.t(), "gemm 8192x8192x8192": lambda i: u @ v, "attention": lambda i: F.scaled_dot_product_attention(q, q, q, is_causal=True),
             "add": lambda i: big + big, "layer_norm": lambda i: F.layer_norm(big, (8192,))}
    channels[(4,)](source, target, 1024, 1, BLOCK=4096, num_warps=16)
    for blocks in (0, 4, 8, 16, 24, 32, 64):
        alone = None
        if blocks:
            a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            a.record()
            channels[(blocks,)](source, target, size // 4096, 1, BLOCK=4096, num_warps=16)
            b.record()
            b.synchronize()
            alone = a.elapsed_time(b) / 1e3
        for name, call in calls.items():
            for _ in range(3):
                call(0)
            torch.cuda.synchronize()
            n = 20
            if blocks:
                with torch.cuda.stream(side):
                    channels[(blocks,)](source, target, size // 4096, max(2, int(0.03 / alone)), BLOCK=4096, num_warps=16)
                time.sleep(0.002)
            a, b, end = (torch.cuda.Event(enable_timing=True) for _ in range(3))
            a.record()
            for i in range(n):
                call(i)
            b.record()
            with torch.cuda.stream(side):
                end.record()
            torch.cuda.synchronize()
            sink.write(json.dumps({"family": "beside", "op": name, "blocks": blocks, "gib_in_s": alone, "us": a.elapsed_time(b) * 1e3 / n,
                                   "covered": a.elapsed_time(end) >= a.elapsed_time(b)}) + "\n")


@section("convolution")
def _():
    for batch in (32, 128):
        for kind in ("bf16", "bf16_last", "tf32", "fp32"):
            if kind == "fp32" and batch > 32:
                continue
            torch.backends.cudnn.allow_tf32 = kind == "tf32"
            dtype = bf16 if kind.startswith("bf16") else fp32
            for cin, cout, kernel, stride, image in CONVOLUTIONS:
                if left() < 3:
                    return
                groups, cout, b = (cin if cout < 0 else 1), abs(cout), max(1, batch // SMALL)
                pad = 0 if kernel in (2, 4) else kernel // 2
                form = torch.channels_last if kind == "bf16_last" else torch.contiguous_format
                x = torch.randn(b, cin, image, image, device=device, dtype=dtype).to(memory_format=form)
                w = torch.randn(cout, cin // groups, kernel, kernel, device=device, dtype=dtype).to(memory_format=form)
                out = F.conv2d(x, w, None, stride, pad, 1, groups)
                g = torch.randn_like(out)
                data = dict(kind=kind, batch=b, cin=cin, cout=cout, kernel=kernel, stride=stride, image=image, groups=groups)
                point("convolution", lambda i: F.conv2d(x, w, None, stride, pad, 1, groups), direction="forward", **data)
                for name, mask in (("input", [True, False, False]), ("weight", [False, True, False])):
                    point("convolution", lambda i: torch.ops.aten.convolution_backward(g, x, w, None, [stride] * 2, [pad] * 2, [1, 1], False, [0, 0], groups, mask),
                          direction=name, **data)
    torch.backends.cudnn.allow_tf32 = False
    for kind, dtype, form in (("fp32", fp32, torch.contiguous_format), ("bf16", bf16, torch.contiguous_format), ("bf16_last", bf16, torch.channels_last)):
        for channels, image in ((64, 112), (256, 56), (512, 28), (2048, 7)):
            x = torch.randn(max(1, 64 // SMALL), channels, image, image, device=device, dtype=dtype).to(memory_format=form).requires_grad_()
            g = torch.randn_like(x)
            w, b = (torch.ones(channels, device=device, dtype=fp32, requires_grad=True) for _ in range(2))
            mean, var = torch.zeros(channels, device=device), torch.ones(channels, device=device)
            data = dict(kind=kind, batch=64, channels=channels, image=image)
            norm = lambda: F.batch_norm(x, mean, var, w, b, True)
            out = norm()
            point("image", lambda i: norm(), op="batch_norm", direction="forward", **data)
            point("image", lambda i: torch.autograd.grad(out, (x, w, b), g, retain_graph=True), op="batch_norm", direction="backward", **data)
            if image > 7:
                pool = F.max_pool2d(x, 3, 2, 1)
                gp = torch.randn_like(pool)
                point("image", lambda i: F.max_pool2d(x, 3, 2, 1), op="max_pool", direction="forward", **data)
                point("image", lambda i: torch.autograd.grad(pool, x, gp, retain_graph=True), op="max_pool", direction="backward", **data)


print("done", flush=True)
