"""`rehearse capture NAME`: a network of a library by its name, as a file that `--model` takes."""

from __future__ import annotations

import argparse
import sys

from .named import capture_named
from .plans import UnknownNetwork


def first_line(why: BaseException) -> str:
    return (str(why).splitlines() or [""])[0]


def told_of(name: str, why: BaseException) -> str:
    """What is wrong, where in the network's own code, and a remedy."""
    from .running import CaptureError, DependsOnSize, place_of

    if isinstance(why, UnknownNetwork):
        return f"rehearse: error: {why}"
    if isinstance(why, DependsOnSize):
        return (f"rehearse: error: {name} runs otherwise at other batches: {why}\n"
                "remedy: --batch 8, the only one that it holds at then")  # fmt: skip
    if isinstance(why, CaptureError):
        return (f"rehearse: error: {name} cannot be captured: {why}\n"
                "remedy: rehearse_sim.capture takes the module with inputs of your own")  # fmt: skip
    return (f"rehearse: error: {name} does not run here: {type(why).__name__}: {first_line(why)}\n"
            f"  at {place_of(why)}\n"
            f"remedy: {'a config that people train, as hf:ORG/NAME' if name.startswith('transformers:') else 'another --precision'}; "
            "or rehearse_sim.capture takes the module as you change it")  # fmt: skip


def main(words: list[str]) -> int:
    """Prints the file's name; what it is, and how to go on, on standard error."""
    parser = argparse.ArgumentParser(
        prog="rehearse capture",
        description="A network by its name, from the library that has it, as a file for --model.",
        epilog="NAME: hf:ORG/NAME, a folder with config.json, transformers:swin, "
        "diffusers:UNet2DConditionModel, torchvision:swin_t, timm:convnext_large. "
        "Any other module: rehearse_sim.capture in Python.",
    )
    parser.add_argument("name", metavar="NAME")
    parser.add_argument("--precision", default="", help="fp32, tf32, bf16, fp16, bf16_pure or bf16_master (bf16; of experts bf16_pure)")
    parser.add_argument("--sequence", type=int, default=0, metavar="TOKENS", help="tokens of a sample")
    parser.add_argument("--batch", type=int, default=0, metavar="SAMPLES", help="the only batch that it shall hold at")
    parser.add_argument("--channels-last", action="store_true", help="images and convolutions in channels_last")
    parser.add_argument("--out", metavar="FILE", help="write it here; else into a cache")
    asked = parser.parse_args(words)
    try:
        import torch
    except ImportError:
        print("rehearse: error: this Python has no torch, which runs the network\n"
              "remedy: pip install torch transformers, or write its dimensions: "
              "`rehearse help model.transformer`", file=sys.stderr)  # fmt: skip
        return 4
    del torch
    try:
        found = capture_named(
            asked.name, precision=asked.precision, sequence=asked.sequence,
            channels_last=asked.channels_last, batch=asked.batch, path=asked.out,
        )
    except Exception as why:  # of a name, of the network itself, or of what PyTorch's CPU lacks
        print(told_of(asked.name, why), file=sys.stderr)
        return 2
    print(found.note, file=sys.stderr)
    print(found.path)
    print(f"rehearse run --model {found.path} --on 1xdgx_h100 --batch 8", file=sys.stderr)
    return 0
