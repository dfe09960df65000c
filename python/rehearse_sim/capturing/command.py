"""`rehearse capture NAME`: a network of a library by its name, as a file that `--model` takes."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from .named import capture_named
from .plans import UnknownNetwork


def first_line(why: BaseException) -> str:
    return (str(why).splitlines() or [""])[0]


def plan_in(file: str) -> dict[str, str]:
    """Modules' names, which may have a *, and what the ranks divide of each."""
    try:
        found = json.loads(Path(file).read_text())
    except OSError as why:
        raise UnknownNetwork(f"{file}: {why.strerror}") from why
    except json.JSONDecodeError as why:
        raise UnknownNetwork(f"{file}:{why.lineno}:{why.colno}: {why.msg}: a plan is JSON, "
                             '{"layers.*.up": "colwise"}') from why  # fmt: skip
    if not isinstance(found, dict) or not all(isinstance(each, str) for each in found.values()):
        raise UnknownNetwork(f'{file}: a plan is a map of names to styles, {{"layers.*.up": "colwise"}}')
    return found


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
    parser.add_argument("--tensor-parallel", type=int, action="append", default=[], metavar="N",
                        help="also one of N tensor ranks, beside it as NAME.tpN.model.json (repeatable)")  # fmt: skip
    parser.add_argument("--plan", metavar="FILE", help='of the ranks: JSON, {"layers.*.up": "colwise", "layers.*.down": "rowwise"}; '
                        "else transformers' own")  # fmt: skip
    parser.add_argument("--out", metavar="FILE", help="write it here; else into a cache")
    asked = parser.parse_args(words)
    if any(each < 2 for each in asked.tensor_parallel):
        parser.error(f"--tensor-parallel: {min(asked.tensor_parallel)} is no number of ranks: 2 or more")
    if asked.plan and not asked.tensor_parallel:
        parser.error("--plan is of tensor ranks: add --tensor-parallel 4")
    try:
        import torch
    except ImportError:
        print("rehearse: error: this Python has no torch, which runs the network\n"
              "remedy: pip install torch transformers, or write its dimensions: "
              "`rehearse help model.transformer`", file=sys.stderr)  # fmt: skip
        return 4
    del torch
    try:
        plan = plan_in(asked.plan) if asked.plan else None
        found = capture_named(
            asked.name, tensor_parallel=asked.tensor_parallel, plan=plan, precision=asked.precision, sequence=asked.sequence,
            channels_last=asked.channels_last, batch=asked.batch, path=asked.out,
        )
    except Exception as why:  # of a name, of the network itself, or of what PyTorch's CPU lacks
        print(told_of(asked.name, why), file=sys.stderr)
        return 2
    print(found.note, file=sys.stderr)
    print(found.path)
    print(f"rehearse run --model {found.path} --on 1xdgx_h100 --batch 8", file=sys.stderr)
    for ranks in asked.tensor_parallel:
        print(f"with --set strategy.layout.tensor_parallel={ranks}: what one of {ranks} ranks runs",
              file=sys.stderr)  # fmt: skip
    return 0
