"""`rehearse record [OPTIONS] -- COMMAND`: starts the command unchanged, with the agent in each of its
Python processes, and makes a folder of what they saw."""

from __future__ import annotations

import gzip
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import files, trace
from .measure import Measured, NothingRecorded, measure, read_ranks

HOOK = Path(__file__).resolve().parent / "hook"
USAGE = "Usage: rehearse record [OPTIONS] -- COMMAND"
# Seconds that a stopped run has to end by itself.
PATIENCE = 30.0
# Seconds that files of ranks on other nodes may come later.
OTHERS = 20.0


@dataclass
class Options:
    steps: int = 8
    warmup: int = 5
    timed: int = 12
    ranks: Any = field(default_factory=lambda: [0])
    out: Path = Path("record")
    stop: bool = False
    names: bool = False
    quiet: bool = False
    command: list[str] = field(default_factory=list)
    parent: str = field(default_factory=lambda: secrets.token_hex(8))


class WrongWords(Exception):
    """What is wrong in the command line, and a remedy."""


def parse(words: list[str]) -> Options:
    options = Options()
    numbers = {"--steps": "steps", "--warmup": "warmup", "--timed": "timed"}
    at = 0
    while at < len(words):
        word = words[at]
        if word == "--":
            options.command = words[at + 1 :]
            break
        name, equals, value = word.partition("=")
        if name in ("--stop", "--names", "--quiet") and not equals:
            setattr(options, name[2:], True)
            at += 1
            continue
        if name not in (*numbers, "--ranks", "--out"):
            if not name.startswith("-"):
                raise WrongWords(f'the command stands behind "--"; got "{word}" before it\n'
                                 f"remedy: rehearse record -- {' '.join(words[at:])}")  # fmt: skip
            raise WrongWords(f'unknown option "{word}"\nremedy: known: --steps, --warmup, --timed, '
                             "--ranks, --out, --stop, --names, --quiet")  # fmt: skip
        if not equals:
            at += 1
            value = words[at] if at < len(words) else ""
        if not value or value == "--":
            raise WrongWords(f"{name}: its value is missing")
        if name in numbers:
            low = 1 if name in ("--steps", "--warmup") else 0
            if not value.isdigit() or not low <= int(value) <= 10000:
                raise WrongWords(f'{name}: expected {low} to 10000; got "{value}"')
            setattr(options, numbers[name], int(value))
        elif name == "--ranks":
            parts = value.split(",")
            if value != "all" and not all(part.isdigit() for part in parts):
                raise WrongWords(f'--ranks: expected numbers such as 0,8, or all; got "{value}"')
            options.ranks = value if value == "all" else [int(part) for part in parts]
        else:
            options.out = Path(value)
        at += 1
    if not options.command:
        raise WrongWords('the command is missing\nremedy: rehearse record -- torchrun train.py')
    return options


def prepare(out: Path) -> None:
    """The folder, empty of an earlier record's files."""
    out.mkdir(parents=True, exist_ok=True)
    for old in [*out.glob("rank_*.json*"), *out.glob("trace_rank_*.json.gz"),
                *(out / name for name in WRITTEN)]:  # fmt: skip
        if old.is_file():
            old.unlink()


WRITTEN = ("record.yaml", "scenario.yaml", "profile.yaml", "comm.yaml", "cluster.yaml",
           "topology.txt")  # fmt: skip


def environment(options: Options) -> dict[str, str]:
    own = dict(os.environ)
    own["PYTHONPATH"] = os.pathsep.join(
        [str(HOOK)] + ([own["PYTHONPATH"]] if own.get("PYTHONPATH") else [])
    )
    own["REHEARSE_RECORD"] = json.dumps({
        "out": str(options.out.resolve()), "steps": options.steps, "warmup": options.warmup,
        "timed": options.timed, "ranks": options.ranks, "stop": options.stop,
        "names": options.names, "salt": secrets.token_hex(16), "parent": options.parent,
    })  # fmt: skip
    return own


def run(options: Options) -> int:
    """The command's own exit code; 128 and more as a shell has them, of one that was killed."""
    try:
        child = subprocess.Popen(options.command, env=environment(options))
    except FileNotFoundError:
        print(f"rehearse: error: {options.command[0]}: command not found", file=sys.stderr)
        return 127
    except PermissionError:
        print(f"rehearse: error: {options.command[0]}: it cannot be run", file=sys.stderr)
        return 126

    def forward(number: int, _: Any) -> None:
        if child.poll() is None:
            child.send_signal(number)

    # A terminal's Ctrl-C reaches the command by itself.
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    others = {number: signal.signal(number, forward) for number in (signal.SIGTERM, signal.SIGHUP)}
    stopped = 0.0
    while True:
        try:
            code = child.wait(0.5)
            break
        except subprocess.TimeoutExpired:
            pass
        if options.stop and not stopped and all_recorded(options.out):
            stopped = time.monotonic()
            child.terminate()
        elif stopped and time.monotonic() - stopped > PATIENCE:
            child.kill()
    signal.signal(signal.SIGINT, before)
    for number, handler in others.items():
        signal.signal(number, handler)
    if stopped:
        return 0
    return code if code >= 0 else 128 - code


def all_recorded(out: Path) -> bool:
    ranks = read_ranks(out)
    world = max((one.get("world", 1) for one in ranks), default=0)
    return bool(ranks) and len(ranks) >= world and all(one.get("is_done") for one in ranks)


def is_ours(options: Options) -> bool:
    """Where each node started a record of its own, that of rank 0 makes the folder, once the others'
    files are there."""
    end = time.monotonic() + OTHERS
    while True:
        ranks = read_ranks(options.out)
        own = [one for one in ranks if one.get("parent") == options.parent]
        first = [one for one in ranks if one.get("rank") == 0]
        if not first or first[0].get("parent") == options.parent:
            world = max((one.get("world", 1) for one in ranks), default=0)
            late = len(ranks) < world or any(one.get("state") != "ended" for one in ranks)
            if len(own) == len(ranks) or not late or time.monotonic() > end:
                return True
            time.sleep(0.5)
            continue
        return False


def topology(out: Path) -> None:
    """What nvidia-smi says of the links inside this node."""
    if shutil.which("nvidia-smi") is None:
        return
    try:
        done = subprocess.run(["nvidia-smi", "topo", "-m"], capture_output=True, text=True,
                              timeout=60, check=False)  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return
    if done.returncode == 0 and done.stdout.strip():
        (out / "topology.txt").write_text(done.stdout)


def load_traces(out: Path, ranks: list[dict[str, Any]]) -> tuple[dict[int, dict[str, Any]], list[str]]:
    """Traces of ranks, stripped; each is packed into the folder in place of the raw one."""
    loaded, troubles = {}, []
    for one in ranks:
        rank = one.get("rank", 0)
        raw = out / f"rank_{rank}.raw.json"
        packed = out / f"trace_rank_{rank}.json.gz"
        try:
            if raw.exists():
                made = trace.stripped(trace.load(raw))
                with gzip.open(packed, "wt", compresslevel=6) as file:
                    json.dump(made, file, separators=(",", ":"))
                raw.unlink()
            elif packed.exists():
                made = trace.load(packed)
            else:
                continue
        except (OSError, ValueError, EOFError) as error:
            why = error.strerror if isinstance(error, OSError) and error.strerror else (
                "it was cut off")  # fmt: skip
            troubles.append(f"the trace of rank {rank} cannot be read: {why}")
            packed.unlink(missing_ok=True)
            raw.unlink(missing_ok=True)
            continue
        loaded[rank] = made
    for stray in out.glob("rank_*.raw.json"):
        stray.unlink()
    for stray in out.glob("rank_*.json.part"):
        stray.unlink()
    return loaded, troubles


def simulate(out: Path, *words: str) -> tuple[float, str]:
    """A step that `run` predicts of the folder's scenario, in seconds; or its own words."""
    from ..errors import RehearseError
    from ..program import as_json

    try:
        answer = as_json(["run", str(out / "scenario.yaml"), *words])
    except RehearseError as error:
        return 0.0, str(error)
    return float(answer["step_time_s"]), ""


def analyse(out: Path, warmup: int, code: int = 0, quiet: bool = False) -> bool:
    """Makes the folder's files from what the ranks left; whether there is a scenario that runs."""
    ranks = read_ranks(out)
    loaded, troubles = load_traces(out, ranks)
    summary: dict[str, Any] = {"format": "rehearse.record/1", "exit_code": code}
    try:
        found = measure(ranks, loaded, warmup)
    except NothingRecorded as why:
        summary |= {"state": "nothing to simulate", "why": str(why), "troubles": troubles,
                    "ranks": rank_lines(ranks)}  # fmt: skip
        (out / "record.yaml").write_text(files.block(summary))
        tell(f"record: {out}: no scenario: {why}", quiet)
        for line in troubles:
            tell(f"record: {line}", quiet)
        return False
    own = next(one for one in ranks if one["rank"] in loaded)
    write(out, found, own)
    predicted, trouble = simulate(out)
    summary |= describe(found, own, ranks, predicted, trouble, troubles)
    (out / "record.yaml").write_text(files.block(summary))
    tell_answer(out, found, predicted, trouble, quiet)
    return not trouble


def write(out: Path, found: Measured, own: dict[str, Any]) -> None:
    gpu, named = gpu_name(own)
    (out / "profile.yaml").write_text(files.profile_text(found, own, gpu))
    if found.points:
        (out / "comm.yaml").write_text(files.comm_text(found, own, gpu))
    (out / "cluster.yaml").write_text(files.cluster_text(found, own, gpu, named))
    (out / "scenario.yaml").write_text(files.scenario_text(found, own))


def gpu_name(own: dict[str, Any]) -> tuple[str, bool]:
    """The device's name, and whether it is one of `list gpus`."""
    device = own["device"]
    if device["kind"] == "cpu":
        return own.get("processor") or "CPU", False
    from ..program import shipped

    for line in shipped("platforms/formats/devices.yaml").read_text().splitlines():
        name, colon, value = line.partition(":")
        if colon and name.strip().strip("\"'") == device["name"]:
            return value.split("#")[0].strip().strip("\"'"), True
    return device["name"], False


def rank_lines(ranks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    lines = []
    for one in ranks:
        line = {"rank": one.get("rank"), "node": one.get("node"), "state": one.get("state"),
                "steps": one.get("ended_steps"), **one.get("memory", {})}  # fmt: skip
        if one.get("errors"):
            line["errors"] = one["errors"]
        lines.append(line)
    return lines


def describe(found: Measured, own: dict[str, Any], ranks: list[dict[str, Any]], predicted: float,
             trouble: str, troubles: list[str]) -> dict[str, Any]:  # fmt: skip
    step: dict[str, Any] = {
        "time": files.seconds(found.step), "quartiles_apart": round(found.step_spread, 4),
        "steps": found.plain_steps, "while_profiled": files.seconds(found.profiled_step),
        "forward": files.seconds(found.accumulation * sum(u.forward for u in found.units)),
        "backward": files.seconds(found.accumulation * sum(u.backward for u in found.units)),
        "optimizer": files.seconds(found.optimizer), "exposed": files.seconds(found.exposed),
        "loader": files.seconds(found.loader),
    }  # fmt: skip
    if predicted:
        step["predicted"] = files.seconds(predicted)
        step["error"] = round(predicted / found.step - 1, 4)
    summary: dict[str, Any] = {
        "state": "recorded" if not trouble else "recorded; run refuses the scenario",
        "step": step,
        "run": {"ranks": found.world, "nodes": found.nodes, "ranks_per_node": found.local,
                "batch_per_rank": found.batch if found.batch_known else "unknown",
                "micro_batches": found.accumulation, "precision": found.precision},
        "cost_of_recording": {"share_outside_profiled_steps": round(found.own_share, 4),
                              "profiled_over_plain": round(found.profiled_step / found.step, 4)},
        "device": own["device"], "processor": own.get("processor", ""),
        "versions": own.get("versions", {}), "flags": own.get("flags", {}),
        "ports": own.get("nics", []),
        "model": {k: v for k, v in own.get("model", {}).items() if k != "units"},
        "optimizer": (own.get("optimizers") or [{}])[0],
        "loader": own.get("loader", {}),
        "wrappers": own.get("wrappers", {}), "frameworks": own.get("frameworks", {}),
        "groups": own.get("groups", []), "meshes": own.get("meshes", []),
        "collectives": [{"what": p.what, "size": f"{p.bytes:.0f}B", "ranks": p.ranks,
                         "time": files.seconds(p.time), "spread": round(p.spread, 3),
                         "in_a_step": round(p.count, 2)} for p in found.points],
        "units": [{"name": u.name, "parameters": sum(u.tensors), "forward": files.seconds(u.forward),
                   "backward": files.seconds(u.backward)} for u in found.units],
        "ranks": rank_lines(ranks),
        "unknown": found.unknown, "notes": found.notes + troubles,
    }  # fmt: skip
    if trouble:
        summary["why"] = trouble.splitlines()[0]
    return summary


def tell(text: str, quiet: bool) -> None:
    if not quiet:
        print(text, file=sys.stderr)


def tell_answer(out: Path, found: Measured, predicted: float, trouble: str, quiet: bool) -> None:
    tell(f"record: {1e3 * found.step:.4g} ms a step ({found.plain_steps} steps), "
         f"{found.world} ranks on {found.nodes} nodes", quiet)  # fmt: skip
    if trouble:
        tell(f"record: {out}/scenario.yaml is refused: {trouble.splitlines()[0]}", quiet)
    else:
        tell(f"record: {out}/scenario.yaml: predicted {1e3 * predicted:.4g} ms, "
             f"{100 * (predicted / found.step - 1):+.1f} %", quiet)  # fmt: skip
    for line in found.unknown:
        tell(f"unknown: {line}", quiet)
    for line in found.notes:
        tell(f"note: {line}", quiet)
    if not trouble:
        tell(f"next: rehearse run {out}/scenario.yaml --set cluster.nodes={2 * found.nodes}", quiet)


def main(words: list[str]) -> int:
    if {"-h", "--help"} & set(words[: words.index("--") if "--" in words else None]):
        print(USAGE)
        return 0
    try:
        options = parse(words)
    except WrongWords as error:
        message, _, remedy = str(error).partition("\n")
        print(f"rehearse: error: record: {message}", file=sys.stderr)
        print(remedy or f"remedy: {USAGE}", file=sys.stderr)
        return 2
    try:
        prepare(options.out)
    except OSError as error:
        print(f"{options.out}: error: cannot make the folder: {error.strerror}", file=sys.stderr)
        return 4
    topology(options.out)
    code = run(options)
    if not is_ours(options):
        tell(f"record: {options.out}: the host of rank 0 makes the folder", options.quiet)
        return code
    try:
        analyse(options.out, options.warmup, code, options.quiet)
    except Exception as error:  # the run's own code comes first
        print(f"record: {options.out}: the folder could not be finished: {error}", file=sys.stderr)
    return code

