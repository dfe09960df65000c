"""`rehearse record [OPTIONS] -- COMMAND`: starts the command unchanged, with the agent in each of
its Python processes, and makes a folder of what they saw."""

from __future__ import annotations

import base64
import gzip
import json
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from . import files, kernels, machine, strip
from .measure import Measured, NothingRecorded, measure, read_ranks
from .options import HELP, USAGE, Options, WrongWords, parse
from .summary import describe, rank_lines, without_trace
from .yaml_text import block, seconds

HOOK = Path(__file__).resolve().parent / "hook"
# Seconds that a stopped run has to end by itself.
PATIENCE = 30.0
# Seconds that files of ranks on other nodes may come later.
OTHERS = 20.0


def prepare(out: Path) -> None:
    """The folder, empty of an earlier record's files. One that runs is kept in `earlier` until the
    new one runs, too."""
    out.mkdir(parents=True, exist_ok=True)
    if (out / "scenario.yaml").exists():
        kept = out / EARLIER
        shutil.rmtree(kept, ignore_errors=True)
        kept.mkdir()
        for file in out.iterdir():
            if file.name != EARLIER:
                file.rename(kept / file.name)
    for old in [*out.glob("rank_*.json*"), *out.glob("trace_rank_*.json.gz"),
                *(out / name for name in WRITTEN)]:  # fmt: skip
        if old.is_file():
            old.unlink()
    shutil.rmtree(out / "joined", ignore_errors=True)


EARLIER = "earlier"
WRITTEN = ("record.yaml", "scenario.yaml", "profile.yaml", "comm.yaml", "cluster.yaml",
           "kernels.csv", "topology.txt")  # fmt: skip


def environment(options: Options) -> dict[str, str]:
    own = dict(os.environ)
    own["PYTHONPATH"] = os.pathsep.join(
        [str(HOOK)] + ([own["PYTHONPATH"]] if own.get("PYTHONPATH") else [])
    )
    settings = json.dumps({
        "out": str(options.out.resolve()), "steps": options.steps, "warmup": options.warmup,
        "timed": options.timed, "ranks": options.ranks, "stop": options.stop,
        "names": options.names, "salt": secrets.token_hex(16), "parent": options.parent,
    })  # fmt: skip
    # DeepSpeed's launcher passes on what begins with PYTHON, and quotes nothing.
    own["PYTHON_REHEARSE_RECORD"] = base64.urlsafe_b64encode(settings.encode()).decode()
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
    """Where each node started a record of its own, that of rank 0 makes the folder, once the files
    of the others are there."""
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


def load_traces(
    out: Path, ranks: list[dict[str, Any]]
) -> tuple[dict[int, dict[str, Any]], list[str]]:
    """Traces of ranks, stripped; each is packed into the folder in place of the raw one."""
    loaded, troubles = {}, []
    for one in ranks:
        rank = one.get("rank", 0)
        raw = out / f"rank_{rank}.raw.json"
        packed = out / f"trace_rank_{rank}.json.gz"
        try:
            if raw.exists():
                made = strip.stripped(strip.load(raw))
                with gzip.open(packed, "wt", compresslevel=6) as file:
                    json.dump(made, file, separators=(",", ":"))
                raw.unlink()
            elif packed.exists():
                made = strip.load(packed)
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
    remove_strays(out)
    return loaded, troubles


def remove_strays(out: Path) -> None:
    for pattern in ("rank_*.raw.json*", "rank_*.json.part"):
        for stray in out.glob(pattern):
            stray.unlink()


def simulate(out: Path, *words: str) -> tuple[float, str]:
    """A step that `run` predicts of the folder's scenario, in seconds; or its own words."""
    from ..errors import RehearseError
    from ..program import as_json

    try:
        answer = as_json(["run", str(out / "scenario.yaml"), "--no-intervals", *words])
    except RehearseError as error:
        return 0.0, str(error)
    return float(answer["step_time_s"]), ""


def analyse(out: Path, code: int = 0, quiet: bool = False) -> bool:
    """Makes the folder's files from what the ranks left, and from records that were joined to it;
    whether there is a scenario that runs."""
    ranks = read_ranks(out)
    loaded, troubles = load_traces(out, ranks)
    summary: dict[str, Any] = {"format": "rehearse.record/1", "exit_code": code}
    try:
        found, own = measure(ranks, loaded, code)
    except NothingRecorded as why:
        summary |= {"state": "nothing to simulate", "why": str(why).splitlines()[0],
                    "troubles": troubles, **without_trace(ranks),
                    "ranks": rank_lines(ranks)}  # fmt: skip
        (out / "record.yaml").write_text(block(summary))
        tell(f"record: {out}: no scenario: {why}", quiet)
        if "step" in summary:
            tell(f"record: a step takes {summary['step']['time']}; model.measured takes that of a "
                 "network by name or by config.json", quiet)  # fmt: skip
        for line in troubles:
            tell(f"record: {line}", quiet)
        return False
    others = [measured(folder)[0] for folder in sorted(out.glob("joined/*"))]
    write(out, found, own, others)
    predicted, trouble = simulate(out)
    summary |= describe(found, own, ranks, predicted, trouble, troubles)
    if others:
        summary["joined"] = [{"batch_per_rank": one.batch, "ranks": one.world, "nodes": one.nodes,
                              "step": seconds(one.step)} for one in others]  # fmt: skip
    (out / "record.yaml").write_text(block(summary))
    tell_answer(out, found, predicted, trouble, quiet)
    return not trouble


def measured(folder: Path) -> tuple[Measured, dict[str, Any]]:
    ranks = read_ranks(folder)
    return measure(ranks, load_traces(folder, ranks)[0])


def write(out: Path, found: Measured, own: dict[str, Any], others: list[Measured]) -> None:
    gpu, named = gpu_name(own)
    (out / "profile.yaml").write_text(files.profile_text(found, own, gpu, others))
    if any(one.points for one in [found, *others]):
        (out / "comm.yaml").write_text(machine.comm_text(found, own, gpu, others))
    kernels.write(out / "kernels.csv", found.steps)
    links = links_of(out, gpu) if named else {}
    (out / "cluster.yaml").write_text(machine.cluster_text(found, own, gpu, named, links))
    (out / "scenario.yaml").write_text(files.scenario_text(found, own))


def links_of(out: Path, gpu: str) -> dict[str, str]:
    """What `import topology` reads of nvidia-smi's output."""
    from ..errors import RehearseError
    from ..program import run as run_program

    if not (out / "topology.txt").exists():
        return {}
    try:
        text = run_program(["import", "topology", str(out / "topology.txt"), "--gpu", gpu])
    except RehearseError:
        return {}
    return dict(re.findall(r"^  (nvlink|nvlink_latency|pcie|nics): (.+)$", text, re.MULTILINE))


def gpu_name(own: dict[str, Any]) -> tuple[str, bool]:
    """The device's name, and whether it is one of `list gpus`."""
    device = own["device"]
    if device["kind"] == "cpu":
        return own.get("processor") or "CPU", False
    from ..program import shipped

    for line in shipped("platforms/devices.yaml").read_text().splitlines():
        name, colon, value = line.partition(":")
        if colon and name.strip().strip("\"'") == device["name"]:
            return value.split("#")[0].strip().strip("\"'"), True
    return device["name"], False


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
    tell(f"all that was measured: rehearse measured {out}", quiet)
    if not trouble:
        tell(f"next: rehearse run {out}/scenario.yaml --set cluster.nodes={2 * found.nodes}", quiet)


def main(words: list[str]) -> int:
    """`record ...`, or `import record ...`."""
    if words[:2] == ["import", "record"]:
        from .joining import join

        return join(words[2:])
    words = words[1:]
    if {"-h", "--help"} & set(words[: words.index("--") if "--" in words else None]):
        print(HELP, end="")
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
        analyse(options.out, code, options.quiet)
        if (options.out / "scenario.yaml").exists():
            shutil.rmtree(options.out / EARLIER, ignore_errors=True)
        elif (options.out / EARLIER).exists():
            tell(f"record: the record that was there is in {options.out / EARLIER}", options.quiet)
    except Exception as error:  # the run's own code comes first
        give_up(options.out, code, error)
    return code


def give_up(out: Path, code: int, error: Exception) -> None:
    """Leaves what says why there is no scenario, in place of files that were cut off."""
    why = error.strerror if isinstance(error, OSError) and error.strerror else (
        f"{type(error).__name__}: {error}")  # fmt: skip
    print(f"record: {out}: the folder could not be finished: {why}", file=sys.stderr)
    try:
        remove_strays(out)
        for stray in [*out.glob("trace_rank_*.json.gz"), *(out / name for name in WRITTEN)]:
            stray.unlink(missing_ok=True)
        summary = {"format": "rehearse.record/1", "exit_code": code,
                   "state": "nothing to simulate", "why": why}  # fmt: skip
        (out / "record.yaml").write_text(block(summary))
    except OSError:
        pass
