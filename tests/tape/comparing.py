"""Calls of PyTorch beside those that the program lists, unit by unit and pass by pass."""
from __future__ import annotations

import collections
import json
import re
import subprocess
import tempfile
from dataclasses import asdict, dataclass, field
from pathlib import Path

WHOLE = {"int64", "int32", "int16", "int8", "uint8", "bool"}
NUMBERS = ("add", "mul", "div")  # beside a number, which may be a tensor of no dimension


@dataclass
class Case:
    """A network and how its step is asked for."""

    network: str
    precision: str = "bf16_pure"
    attention: str = "sdpa"
    checkpointed: bool = False
    lora: list = field(default_factory=list)
    image: bool = False
    batch: int = 2
    tokens: int = 128
    head: str = "causal"
    units: str = "layers.*"

    @property
    def name(self) -> str:
        words = [self.network, self.precision]
        words += ["checkpointed"] if self.checkpointed else []
        words += ["lora"] if self.lora else []
        return " ".join(words)


def unit_key(name: str, begun: bool) -> str:
    """Blocks by their number; what stands before and behind them is one unit each, because the two
    sides cut it up otherwise."""
    block = re.search(r"(?:layers|layer|h|blocks|block)\.(\d+)$", name)
    if block:
        return "block." + block.group(1)
    return "head" if begun else "embeddings"


def merged(units: list, whole: bool) -> dict:
    found: dict = {}
    for name, forward, backward in units:
        begun = any(key.startswith("block") for key in found)
        key = "network" if whole else unit_key(name, begun)
        both = found.setdefault(key, ([], []))
        both[0].extend(forward)
        both[1].extend(backward)
    return found


def is_of_indices(call: list) -> bool:
    """Positions, labels and masks are made by each network's own code, of a few numbers: they are
    left out on both sides."""
    return all(side[0] in WHOLE for side in call[1] + call[2])


def is_count(call: list) -> bool:
    """Rows of each expert are counted in fp32 on the CPU that fake tensors lie on, in int32 on
    CUDA."""
    return call[0] in ("histc", "cumsum") and len(call[1][0][1]) == 1


def counted_sizes(calls: list) -> list:
    return [call[1][0][1] for call in calls if call[0] == "histc"]


def is_copy_to_count(call: list, counted: list) -> bool:
    return call[0] == "_to_copy" and call[1][0][0] == "int64" and call[1][0][1] in counted


def is_statistic(op: str, sizes: list) -> bool:
    if op.startswith("native_batch_norm"):
        return len(sizes) == 1
    return op.startswith("native_layer_norm") and sizes[-1:] == [1]


def canonical(call: list) -> str:
    """In place or not: fake tensors have owners that real ones lack, so that autograd never adds in
    place there. The sides of a sum or product are in any order. A norm's statistics are as narrow as
    x on the CPU that fake tensors lie on, and fp32 on CUDA."""
    op, reads, writes = call
    op = op[:-1] if op.endswith("_") else op
    sides = [["statistic" if is_statistic(op, side[1]) else side[0], side[1]]
             for side in reads + writes]
    reads, writes = sides[:len(reads)], sides[len(reads):]
    read = [kind + str(sizes) for kind, sizes in reads if not (op in NUMBERS and not sizes)]
    if op in ("add", "mul"):
        read.sort()
    return f"{op} {' '.join(read)} -> {' '.join(kind + str(sizes) for kind, sizes in writes)}"


def program_units(binary: str, case: Case, fields: dict | None) -> list:
    """The same by the program."""
    with tempfile.TemporaryDirectory() as folder:
        model = {"batch_per_gpu": case.batch, "precision": case.precision}
        if case.image:
            model |= {"use": case.network, "image": 224}
        else:
            (Path(folder) / "config.json").write_text(json.dumps(fields))
            model |= {"hf": str(Path(folder) / "config.json"), "sequence": case.tokens,
                      "attention": case.attention}
            if case.head == "causal":
                model["loss"] = "cross_entropy_fp32"
        if case.checkpointed:
            model["activation_checkpointing"] = {"units": [case.units]}
        if case.lora:
            model["lora"] = {"rank": 8, "targets": case.lora}
        scenario = {"model": model, "cluster": {"use": "dgx_h100", "gpus_per_node": 1},
                    "strategy": {"ddp": {}}, "optimizer": {"adamw": {}}}
        file = Path(folder) / "scenario.yaml"
        file.write_text(json.dumps(scenario))
        run = subprocess.run([binary, "explain", str(file), "--kernels", "--format", "json"],
                             capture_output=True, text=True, check=False)
    if run.returncode:
        raise ValueError(run.stderr.strip().splitlines()[0])
    table = json.loads(run.stdout)
    kinds = [[row["op"], *([split(text) for text in row[side]] for side in ("reads", "writes"))]
             for row in table["kernels"]]
    return [[unit["name"], *([kinds[row] for row, calls in unit[way] for _ in range(round(calls))]
                             for way in ("forward", "backward"))] for unit in table["units"]]


def split(text: str) -> list:
    kind, sizes = text.rstrip("]").split("[")
    return [kind, [int(one) for one in sizes.split(",") if one.strip()]]


@dataclass
class Verdict:
    matched: int = 0
    all: int = 0
    differences: list = field(default_factory=list)

    @property
    def equal(self) -> bool:
        return self.matched == self.all


def calls_of(calls: list) -> collections.Counter:
    counted = counted_sizes(calls)
    return collections.Counter(
        canonical(call) for call in calls
        if not is_of_indices(call) and not is_count(call) and not is_copy_to_count(call, counted))


def compare(real: list, played: list, whole: bool = False) -> Verdict:
    verdict, theirs, ours = Verdict(), merged(real, whole), merged(played, whole)
    for unit in {**theirs, **ours}:
        for way, pass_name in enumerate(("forward", "backward")):
            one, other = (calls_of(side.get(unit, ([], []))[way]) for side in (theirs, ours))
            verdict.matched += sum((one & other).values())
            verdict.all += max(sum(one.values()), sum(other.values()))
            for sign, left in (("-", one - other), ("+", other - one)):
                verdict.differences += [f"{unit} {pass_name} {sign} {count} {call}"
                                        for call, count in left.items()]
    return verdict


def packed(case: Case, fields: dict | None, units: list) -> dict:
    """Each kind of call once, and the units as numbers of kinds."""
    numbers: dict = {}
    kinds: list = []

    def number(call: list) -> int:
        key = json.dumps(call)
        if key not in numbers:
            numbers[key] = len(kinds)
            kinds.append(call)
        return numbers[key]
    passes = [[name, [number(one) for one in forward], [number(one) for one in backward]]
              for name, forward, backward in units]
    return {"case": asdict(case), "config": fields, "kinds": kinds, "units": passes}


def unpacked(record: dict) -> tuple:
    kinds = record["kinds"]
    units = [[name, [kinds[one] for one in forward], [kinds[one] for one in backward]]
             for name, forward, backward in record["units"]]
    return Case(**record["case"]), record["config"], units
