"""The cases that record.py runs, by set."""

pure = dict(dtype="bf16", autocast=None)
sharded = dict(wrap="fsdp2", autocast=None)


def waiting(language, image):
    """So small that the GPU waits for the host: what a launch costs it."""
    language("host/llama_1b/bf16", "llama_1b", 1, 32, **pure)
    language("host/llama_1b/amp", "llama_1b", 1, 32)
    language("host/gpt2/amp", "gpt2", 1, 32)
    language("host/bert_large/amp", "bert_large", 1, 32)
    language("host/llama_1b/fsdp2/w8", "llama_1b", 1, 32, world=8, **sharded)
    language("host/llama_1b/ddp/w8", "llama_1b", 1, 32, world=8, wrap="ddp")
    language("host/llama_1b/lora", "llama_1b", 1, 32, lora=True, **pure)
    language("host/moe_4l/bf16", "moe_4l", 1, 32, **pure)
    for network in ("resnet50", "densenet121", "efficientnet_v2_l"):
        image(network, "tf32", 1, 64, profiled=True)
    image("resnet50", "amp", 1, 64, profiled=True)


def fused_images(language, image):
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


def compiled_models(language, image):
    language("llama_1b/bf16/b4/s2048/compiled", "llama_1b", 4, 2048, compiled="blocks", need=60, **pure)
    language("llama_8b/fsdp2/w8/b1/s8192/ac/compiled", "llama_8b", 1, 8192, world=8, checkpoint=True, compiled="blocks", need=60,
             fused=True, profiled=False, **sharded)
    language("gpt2/amp/b16/s1024/compiled", "gpt2", 16, 1024, fused=True, dropout=0.0, compiled="whole", need=60)
    language("bert_large/amp/b32/s512/compiled", "bert_large", 32, 512, compiled="whole", need=80, profiled=False)


def other_models(language, image):
    language("llama_8b/fsdp2/w8/b1/s4096/offload", "llama_8b", 1, 4096, world=8, wrap="offload", autocast=None, need=40)
    language("qwen3_1_7b/bf16/b2/s4096", "qwen3_1_7b", 2, 4096, **pure)
    language("gemma2_2b/bf16/b1/s4096/eager", "gemma2_2b", 1, 4096, attention="eager", **pure)
    language("mixtral_2l/bf16/b2/s4096", "mixtral_2l", 2, 4096, **pure)
    language("deepseek_v2_3l/bf16/b2/s4096", "deepseek_v2_3l", 2, 4096, **pure)


def fine_tuned(language, image):
    """Libraries for fine-tuning: bitsandbytes' 4 and 8 bits, its optimizer, PEFT's adapters in other models, Liger's kernels."""
    adapters = dict(lora=True, dtype="bf16")
    language("llama_8b/qlora/b2/s2048/ac", "llama_8b", 2, 2048, quantized="nf4_double", checkpoint=True, optimizer="paged_adamw_8bit", **adapters)
    language("llama_8b/qlora/b1/s1024", "llama_8b", 1, 1024, quantized="nf4", **adapters)
    language("llama_8b/int8/b2/s2048/ac", "llama_8b", 2, 2048, quantized="int8", checkpoint=True, **adapters)
    language("llama_1b/adamw_8bit/b4/s2048", "llama_1b", 4, 2048, optimizer="adamw_8bit", **pure)
    language("qwen3_1_7b/lora/b4/s2048", "qwen3_1_7b", 4, 2048, lora=True, **pure)
    language("gemma2_2b/lora/b2/s4096/ac", "gemma2_2b", 2, 4096, lora=True, checkpoint=True, attention="eager", **pure)


def eight_bits(language, image):
    """torchao's float8 under torch.compile."""
    options = dict(compiled="blocks", need=70)
    language("llama_1b/bf16/b8/s2048/compiled/rowwise", "llama_1b", 8, 2048, fp8="rowwise", **options, **pure)
    language("llama_1b/bf16/b8/s2048/compiled/tensorwise", "llama_1b", 8, 2048, fp8="tensorwise", **options, **pure)
    language("llama_8b/fsdp2/w8/b1/s8192/ac/compiled/tensorwise", "llama_8b", 1, 8192, world=8, checkpoint=True, fp8="tensorwise", fused=True,
             **options, **sharded)
    language("llama_8b/fsdp2/w8/b1/s8192/ac/compiled/gathered", "llama_8b", 1, 8192, world=8, checkpoint=True, fp8="tensorwise/gathered",
             fused=True, profiled=False, **options, **sharded)
    language("llama_1b/bf16/b8/s2048/compiled", "llama_1b", 8, 2048, profiled=False, **options, **pure)
    language("moe_4l/bf16/b4/s4096/compiled", "moe_4l", 4, 4096, **options, **pure)


def unseen(language, image):
    """Other models and sizes under what the two sets above told."""
    adapters = dict(lora=True, dtype="bf16")
    language("llama_8b/qlora/b4/s1024", "llama_8b", 4, 1024, quantized="nf4", **adapters)
    language("qwen3_1_7b/qlora/b4/s2048/ac", "qwen3_1_7b", 4, 2048, quantized="nf4_double", checkpoint=True, **adapters)
    language("llama_8b/adamw_8bit/b1/s2048/ac", "llama_8b", 1, 2048, checkpoint=True, optimizer="adamw_8bit", **pure)
    language("qwen3_1_7b/adamw_8bit/b2/s4096", "qwen3_1_7b", 2, 4096, optimizer="adamw_8bit", **pure)
    language("gemma2_2b/bf16/b2/s2048/eager", "gemma2_2b", 2, 2048, attention="eager", **pure)
    options = dict(compiled="blocks", need=60)
    language("qwen3_1_7b/bf16/b4/s4096/compiled/tensorwise", "qwen3_1_7b", 4, 4096, fp8="tensorwise", **options, **pure)
    language("qwen3_1_7b/bf16/b4/s4096/compiled/rowwise", "qwen3_1_7b", 4, 4096, fp8="rowwise", **options, **pure)
    language("llama_8b/fsdp2/w8/b1/s4096/compiled/tensorwise", "llama_8b", 1, 4096, world=8, fp8="tensorwise", fused=True, **options, **sharded)
    language("llama_70b_8l/fsdp2/w64/b1/s8192/ac/compiled/tensorwise", "llama_70b_8l", 1, 8192, world=64, checkpoint=True, fp8="tensorwise",
             fused=True, **options, **sharded)
    language("qwen3_1_7b/bf16/b4/s4096/compiled", "qwen3_1_7b", 4, 4096, profiled=False, **options, **pure)
    language("mixtral_2l/bf16/b4/s4096/compiled", "mixtral_2l", 4, 4096, profiled=False, **options, **pure)
    language("deepseek_v2_3l/bf16/b4/s4096/compiled", "deepseek_v2_3l", 4, 4096, profiled=False, **options, **pure)
    language("llama_1b/bf16/b4/s2048/compiled/whole", "llama_1b", 4, 2048, compiled="whole", need=60, profiled=False, **pure)


def first_set(language, image):
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
    language("llama_8b/zero2/w8/b1/s4096/ac", "llama_8b", 1, 4096, world=8, checkpoint=True, wrap="zero2", autocast=None, profiled=False)
    language("llama_1b/ddp/w8/b2/s2048", "llama_1b", 2, 2048, world=8, wrap="ddp", profiled=False)
    language("llama_1b/ddp/w8/b2/s2048/acc4", "llama_1b", 2, 2048, world=8, wrap="ddp", accumulate=4, clip=True, profiled=False)
    language("llama2_7b/fsdp1/w8/b2/s2048", "llama2_7b", 2, 2048, world=8, wrap="fsdp1", autocast=None, profiled=False)
    language("gpt2_xl/fsdp1/w8/b8/s1024", "gpt2_xl", 8, 1024, world=8, wrap="fsdp1", autocast=None)
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


def mechanisms(language, image):
    """One mechanism each: hooks by block, optimizers' launches, fp32 with grouped heads, experts by micro-batch; traces."""
    language("trace/llama_1b_4l/bf16/b1/s2048", "llama_1b_4l", 1, 2048, traced=True, **pure)
    language("trace/llama_1b_4l/fsdp2/w8/b1/s2048", "llama_1b_4l", 1, 2048, traced=True, world=8, **sharded)
    language("trace/gpt2/amp/b4/s1024", "gpt2", 4, 1024, fused=True, dropout=0.0, traced=True)
    language("trace/bert_large/amp/b8/s512", "bert_large", 8, 512, traced=True)
    image("resnet50", "amp", 64, 224, channels_last=True, profiled=True, traced=True)
    language("trace/moe_4l/bf16/b1/s2048", "moe_4l", 1, 2048, traced=True, **pure)
    for network in ("llama_1b_4l", "llama_1b"):
        language(f"hooks/{network}/none", network, 1, 32, autocast=None, profiled=False)
        for wrap in ("ddp", "fsdp1", "fsdp2", "zero2"):
            language(f"hooks/{network}/{wrap}", network, 1, 32, world=8, wrap=wrap, autocast=None, profiled=wrap.startswith("fsdp"))
    for wrap in (None, "ddp", "fsdp1_whole", "fsdp1_sized"):
        image("resnet18", "fp32", 1, 64, wrap=wrap, world=8 if wrap else 1)
        image("resnet50", "fp32", 32, 224, wrap=wrap, world=8 if wrap else 1)
    for network in ("llama_1b", "bert_large"):
        for optimizer, fused in (("adamw_for_loop", False), ("adamw", False), ("adamw", True), ("adafactor", None), ("sgd", None)):
            kind = {False: "foreach", True: "fused", None: optimizer}[fused] if optimizer != "adamw_for_loop" else "for_loop"
            language(f"optimizer/{network}/{kind}", network, 1, 128, dtype="bf16", autocast=None, optimizer=optimizer, fused=fused)
    for tf32 in (False, True):
        kind = "tf32" if tf32 else "fp32"
        language(f"llama_1b/{kind}/b1/s2048", "llama_1b", 1, 2048, autocast=None, tf32=tf32)
        language(f"qwen3_1_7b/{kind}/b1/s1024", "qwen3_1_7b", 1, 1024, autocast=None, tf32=tf32)
        language(f"gpt2/{kind}/b4/s1024", "gpt2", 4, 1024, autocast=None, tf32=tf32, dropout=0.0, profiled=False)
    for experts in ("grouped_mm", "eager"):
        for batch in (1, 4):
            language(f"moe_4l/bf16/b{batch}/s2048/{experts}", "moe_4l", batch, 2048, experts=experts, **pure)
            language(f"mixtral_2l/bf16/b{batch}/s2048/{experts}", "mixtral_2l", batch, 2048, experts=experts, **pure)


# By the name that --sets takes.
SETS = {"waiting": waiting, "images": fused_images, "compiled": compiled_models, "models": other_models, "tuned": fine_tuned,
        "eight_bits": eight_bits, "unseen": unseen, "first": first_set, "mechanisms": mechanisms}
