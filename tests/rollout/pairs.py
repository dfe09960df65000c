#!/usr/bin/env python3
"""Published pairs of supervised training and DPO beside what `rehearse run` says.

    tests/rollout/pairs.py build/release/rehearse

Zephyr 7B (huggingface/alignment-handbook, recipes/zephyr-7b-beta): train_results.json of
alignment-handbook/zephyr-7b-sft-full and -dpo-full at the hub. Both have 128 samples a step on 8
GPUs under ZeRO-3. Of the time of the run the evaluations are taken away: one of 142 s as published,
four of 40 s as another run of the recipe had them. The GPUs are not named: 5.0 s are an H100's,
as 10.5 s are predicted for an A100. Its transformers, 4.36.2, had no SDPA for Mistral, and the DPO
recipe does not ask for FlashAttention: that attention is eager.

Soup (MakazhanAlpamys/Soup, benchmarks/gate-h100-validation.md, item 18): Llama 3.1 8B in NF4 with
adapters on one H100, weights streamed from the host. DPO has 0.77 times the throughput. Here the
weights stay, so that the ratio alone is compared.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

ZEPHYR = """framework: deepspeed
model: {use: mistral_7b, activation_checkpointing: {units: [layers.*]}, attention: %s,
        precision: bf16_master, sequence: %d, batch_per_gpu: 16}
cluster: {use: dgx_h100, nodes: 1}
strategy: {zero: {stage: 3}}
optimizer: {adamw: {clip_grad: 1, fused: true}}
"""
SOUP = """framework: torch
model: {use: llama_3_8b, activation_checkpointing: {units: [layers.*]}, attention: flash2,
        precision: bf16_pure_autocast, lora: {rank: 16}, quantization: nf4, sequence: 1024,
        batch_per_gpu: 4}
cluster: {use: dgx_h100, nodes: 1, gpus_per_node: 1}
strategy: {ddp: {}}
optimizer: {adamw: {}}
"""
DPO = """rl:
  algorithm: dpo
  lengths: {prompt: {limit: 512, mean: %d}, response: {deviation: %d, limit: 512, mean: %d}}
  packing: false
  prompts: %d
  reference: true
"""
#        name, supervised, pairs, published seconds of each (None: the ratio alone), ratio
PAIRS = [("Zephyr 7B, 8 GPUs, ZeRO-3", ZEPHYR % ("flash2", 2048),
          ZEPHYR % ("eager", 1024) + DPO % (190, 200, 300, 128),
          (5608.3 - 142.3) / 1090, (5328.5 - 4 * 40) / 478, None),
         ("Llama 3.1 8B, NF4, adapters", SOUP, SOUP + DPO % (300, 100, 300, 2), None, None,
          1 / 0.77)]


def step(program, text):
    """Seconds of a step."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "pair.yaml"
        file.write_text(text)
        run = subprocess.run([program, "run", file, "--format", "json", "--no-intervals"],
                             capture_output=True, text=True, check=True)
    return json.loads(run.stdout)["step_time_s"]


def main():
    """Prints the table."""
    print(f"{'pair':<30} {'run':<12} {'published':>10} {'predicted':>10} {'error':>7}")
    for name, supervised, pairs, plain, preferred, ratio in PAIRS:
        own = [step(sys.argv[1], supervised), step(sys.argv[1], pairs)]
        if not ratio:
            ratio = preferred / plain
        rows = [("supervised", plain, own[0]), ("DPO", preferred, own[1]),
                ("DPO over it", ratio, own[1] / own[0])]
        for run, published, predicted in rows:
            if published:
                print(f"{name:<30} {run:<12} {published:>10.2f} {predicted:>10.2f} "
                      f"{100 * (predicted / published - 1):>+6.1f}%")


if __name__ == "__main__":
    main()
