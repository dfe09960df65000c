"""From the files of ranks to measurements: how long a step is without the profiler, and what it is
made of. Times are seconds."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import trace as traces
from .activations import fill_activations
from .collectives import Point, points_of, rate_of
from .parts import described_parts, settled
from .rank_steps import (
    BACKWARDS,
    BATCHES,
    BEGIN,
    CPU,
    END,
    WAITED,
    middle,
    over_ranks,
    plain_numbers,
    plain_steps,
    running,
    step_time,
    waiting,
)
from .settings import fill_optimizer, fill_precision, fill_sample
from .statistic import MICRO, median, spread

# Of a traced step's clock at least this share is the step's own: the profiler made steps 1.04 to 1.4
# times as long, and on crowded cores its probe tells more.
LEAST_OWN = 0.5
# From this share of a step on, a thread that stands ready without a core is told.
CROWDED = 0.05
LEAST_STEPS = 12  # of a run, with the least of warm-up and plain ones
# Of a collective's time in the profiled steps at least this share is left in the plain ones.
LEAST_OWN_WAIT = 0.1


class NothingRecorded(Exception):
    """The run left nothing to make a scenario of; the text says why."""


@dataclass
class Unit:
    name: str
    tensors: list[int]
    forward: float = 0
    backward: float = 0
    fixed_forward: float = 0
    fixed_backward: float = 0
    forward_spread: float = 0
    backward_spread: float = 0
    forward_launch: float = 0
    backward_launch: float = 0
    forward_flops: float = 0
    backward_flops: float = 0
    handed: float = 0  # bytes of a sample, from the unit before
    saved: float = 0  # bytes of the batch that backward needs, and of those as many at any batch
    fixed_saved: float = 0
    operators: list[dict[str, Any]] = field(default_factory=list)


@dataclass
class Measured:
    step: float = 0
    step_spread: float = 0
    plain_steps: int = 0
    profiled_step: float = 0
    traced_steps: int = 0
    exposed: float = 0
    loader: float = 0
    ready: float = 0  # of a step, in which its thread is ready and has no core
    loaded: int = 0  # batches of a step
    optimizer: float = 0
    optimizer_spread: float = 0
    units: list[Unit] = field(default_factory=list)
    points: list[Point] = field(default_factory=list)
    rate: float = 0  # bytes a second that went between ranks, as bus bandwidth
    copy_rate: float = 0
    flops_rate: float = 0
    busy: float = 0
    accumulation: int = 1
    batch: int = 1
    batch_known: bool = False
    sequence: int = 0
    image: int = 0
    precision: str = "fp32"
    optimizer_kind: str = "sgd"
    optimizer_options: dict[str, Any] = field(default_factory=dict)
    buffers: int = 0
    is_cpu: bool = True
    world: int = 1
    nodes: int = 1
    local: int = 1
    machines: int = 1
    own_time: float = 0  # seconds of ours outside of the profiled steps
    whole: float = 0  # seconds of all steps
    steps: list[traces.Step] = field(default_factory=list)  # traced, of the rank that speaks
    unknown: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @staticmethod
    def exposed_least(steps: list[traces.Step]) -> float:
        """Seconds of a step that wait for collectives."""
        return MICRO * median([step.exposed for step in steps])


def read_ranks(folder: Path) -> list[dict[str, Any]]:
    found = []
    for place in sorted(folder.glob("rank_*.json"), key=lambda p: (len(p.name), p.name)):
        if place.name.endswith(".raw.json"):
            continue
        try:
            found.append(json.loads(place.read_text()))
        except (OSError, ValueError):
            continue
    return sorted(found, key=lambda one: one.get("rank", 0))


def note_layout(found: Measured, rank: dict[str, Any]) -> None:
    """Says where ranks share a model in a way that the scenario does not."""
    degrees = {key: n for key, n in rank.get("frameworks", {}).get("megatron", {}).items()
               if n > 1 and key != "data_parallel"}  # fmt: skip
    for mesh in rank.get("meshes", []):
        for name, size in zip(mesh["names"], mesh["shape"]):
            if name in ("tp", "pp", "cp", "ep", "tensor", "pipe", "context") and size > 1:
                degrees[name] = size
    if degrees:
        words = ", ".join(f"{name} {size}" for name, size in degrees.items())
        found.unknown.append(
            f"the layout ({words}): its collectives were measured, but the scenario has all ranks "
            "as replicas; rehearse import config says the layout of a framework's own files"
        )


def why_nothing(ranks: list[dict[str, Any]], code: int) -> str:
    told = [text for one in ranks for text in one.get("errors", [])]
    if told:
        return str(told[0])
    last = max(ranks, key=lambda one: one.get("ended_steps", 0))
    steps = last.get("ended_steps", 0)
    if last.get("state") != "ended":
        if code > 128:
            return f"signal {code - 128} ended the run behind step {steps}, before its trace was written"
        return f"nothing was written behind step {steps}: a rank was killed, or the folder was full"
    words = "--warmup 2 --timed 4 --steps 4"
    remedy = words if steps >= LEAST_STEPS else f"{LEAST_STEPS} steps or more, and {words}"
    return f"the run ended after {steps} steps, before any was profiled\nremedy: {remedy}"


def measure(
    ranks: list[dict[str, Any]], loaded: dict[int, dict[str, Any]], code: int = 0
) -> tuple[Measured, dict[str, Any]]:
    """What the ranks' files say, and the traces of some of them (by rank); and the rank that speaks
    for all. `code`: the run's end, 128 and more of a signal. NothingRecorded where there is no step
    with a trace."""
    if not ranks:
        raise NothingRecorded(
            "no process of the run called backward() or an optimizer of torch.optim\n"
            "without Python, and with python -I, a run is not seen; its log still calibrates: "
            "rehearse import log LOG"
        )
    traced = [one for one in ranks if one.get("rank") in loaded]
    if not traced:
        raise NothingRecorded(why_nothing(ranks, code))
    readers = {one["rank"]: traces.Reader(loaded[one["rank"]], one["event_cost"])
               for one in traced}  # fmt: skip
    if not any(one.kernels for one in readers.values()) and any(
        one.get("device", {}).get("kind", "cpu") != "cpu" for one in traced
    ):
        raise NothingRecorded(
            "torch.profiler saw no kernel of the GPU: without the right to CUPTI the step's time, "
            "its batch, groups and memory are known, and no kernel is\n"
            "remedy: NVreg_RestrictProfilingToAdminUsers=0 for the driver, or CAP_SYS_ADMIN"
        )
    steps_of = {rank: reader.steps() for rank, reader in readers.items()}
    traced = [one for one in traced if steps_of[one["rank"]]]
    if not traced:
        raise NothingRecorded("the traces hold no operator of a step")
    for one in traced:
        if one.get("device", {}).get("kind", "cpu") == "cpu":
            level(steps_of[one["rank"]], one, ranks)
    # All others wait for the rank that computes longest.
    own = max(traced, key=lambda one: median([s.compute for s in steps_of[one["rank"]]]))
    found = Measured(world=int(own.get("world", 1)))
    found.is_cpu = own.get("device", {}).get("kind", "cpu") == "cpu"
    nodes: dict[str, int] = {}
    for one in ranks:
        nodes[one["node"]] = nodes.get(one["node"], 0) + 1
    found.local = max(nodes.values())
    found.nodes = max(len(nodes), -(-found.world // found.local))
    found.machines = len({one["machine"] for one in ranks})
    if len(ranks) < found.world:
        found.notes.append(
            f"files of {len(ranks)} of {found.world} ranks came into the folder: the others' nodes "
            "do not share it, and are taken to be like these"
        )
    fill_sample(found, own)
    fill_optimizer(found, own)
    fill_precision(found, own, loaded[own["rank"]])
    note_layout(found, own)

    plain = plain_steps(own)
    if not plain:
        plain = [own["steps"][at] for at in own["profiled"] if at < len(own["steps"])]
        found.notes.append("no step without the profiler: times include it")
    found.accumulation = max(1, round(median([each[BACKWARDS] for each in plain])))
    found.step = step_time(plain, found.is_cpu)
    found.step_spread = spread([each[END] - each[BEGIN] for each in plain])
    found.plain_steps = len(plain)
    found.ready = median([running(each) - each[CPU] for each in plain])
    if found.is_cpu and not shares_cores(own, ranks) and found.ready > CROWDED * found.step:
        found.notes.append(
            f"a step's thread stands ready for {1e3 * found.ready:.3g} of {1e3 * found.step:.3g} ms while "
            "others have the cores: times are those of a crowded machine"
        )
    found.loaded = round(median([each[BATCHES] for each in plain]))
    found.loader = median([each[WAITED] for each in plain])
    profiled = [own["steps"][at] for at in own["profiled"] if at < len(own["steps"])]
    found.profiled_step = median([each[END] - each[BEGIN] for each in profiled])
    found.own_time = own.get("own_seconds", 0)
    found.whole = own["steps"][-1][END] - own["steps"][0][BEGIN]

    steps = steps_of[own["rank"]]
    found.traced_steps, found.steps = len(steps), steps
    found.points = points_of(found.world, found.is_cpu, [steps_of[one["rank"]] for one in traced])
    found.rate = rate_of(found.world, readers[own["rank"]])
    note_leveling(found, steps)
    if found.is_cpu and not shares_cores(own, ranks):
        level_collectives(found, ranks, middle(own, plain_numbers(own)), own["profiled"])
    fill_units(found, own, steps)
    found.exposed = found.exposed_least(steps)
    return found, own


def shares_cores(rank: dict[str, Any], ranks: list[dict[str, Any]]) -> bool:
    """Whether its machine is several hosts: `run` plays how their threads, and those that send,
    take turns, so that what one waits for a core is none of its work."""
    return len({one["node"] for one in ranks if one["machine"] == rank["machine"]}) > 1


def level(steps: list[traces.Step], rank: dict[str, Any], ranks: list[dict[str, Any]]) -> None:
    """What computed longer in a traced step than in the plain ones is the profiler's, or a core's
    that was slower just then: each step's times are taken back to the plain ones. There all wait
    for the rank that has the least of the cores. Where hosts share cores, `run` plays how they
    take turns, and the thread's own clock alone counts, which stands while it waits."""
    numbers, shared = plain_numbers(rank), shares_cores(rank, ranks)
    if shared:
        alone = median([rank["steps"][at][CPU] for at in numbers])
    else:
        alone = over_ranks(ranks, middle(rank, numbers), max, running)
    seen = [rank["steps"][at] for at in rank["profiled"] if at < len(rank["steps"])]
    for step, own_step in zip(steps, seen):
        spent = MICRO * (step.length - step.exposed) if shared else running(own_step)
        own = max(spent - MICRO * step.probe * step.events, LEAST_OWN * spent)
        if own <= 0 or alone <= 0:
            continue
        step.factor = alone / own
        for table in (step.forward, step.backward, step.fixed_forward, step.fixed_backward):
            for unit in table:
                table[unit] *= step.factor
        step.optimizer *= step.factor
        step.stepping *= step.factor


def level_collectives(found: Measured, ranks: list[dict[str, Any]], plain: list[int],
                      profiled: list[int]) -> None:  # fmt: skip
    """Collectives are taken back to the plain steps, too. What all ranks wait there more or less
    than in the profiled ones is theirs: on crowded cores they take as long as the cores let them.
    """
    spent = sum(point.time * point.count for point in found.points)
    if spent <= 0 or not plain or not profiled:
        return
    here = over_ranks(ranks, plain, min, waiting)
    there = over_ranks(ranks, profiled, min, waiting)
    factor = max(LEAST_OWN_WAIT, 1 + (here - there) / spent)
    for point in found.points:
        point.time *= factor
    if abs(factor - 1) > 0.1:
        found.notes.append(
            f"a step waits {1e3 * here:.3g} ms, and {1e3 * there:.3g} ms where it is profiled: "
            "times of collectives are taken back to the first"
        )


def note_leveling(found: Measured, steps: list[traces.Step]) -> None:
    factor = median([step.factor for step in steps])
    if abs(factor - 1) > 0.1:
        found.notes.append(
            f"the profiled steps computed {100 * (1 / factor - 1):+.0f} % beside the plain ones, "
            "less the profiler's own time: their times are taken back to those"
        )


def fill_units(found: Measured, own: dict[str, Any], steps: list[traces.Step]) -> None:
    described = own.get("model", {}).get("units") or [{"name": "model", "tensors": []}]
    order = steps[0].order or [0]
    ran = [number for number in order if number < len(described)]
    taken = {number: place for place, number in enumerate(ran)}
    for number in ran:
        found.units.append(Unit(described[number]["name"] or "model", []))
    found.units = found.units or [Unit("model", [])]
    last = 0  # a unit that no forward of its own was seen of goes with the one before it
    for number, one in enumerate(described):
        last = taken.get(number, last)
        found.units[last].tensors += one["tensors"]
    if own.get("model", {}).get("compiled"):
        found.unknown.append("the network's parts: torch.compile holds it, so that it is one part "
                             "with all parameters, which no layout can split")  # fmt: skip
    elif len(described) > max(1, len(ran)):
        found.notes.append(f"{len(described) - len(ran)} parts of the network have no forward() of their own in the "
                           "trace: their parameters and times stand with the part before")  # fmt: skip
    share = 1 / found.accumulation

    def fill(name: str, table: str, spread_name: str = "") -> None:
        for number, place in taken.items() or [(0, 0)]:
            values = [share * MICRO * getattr(step, table).get(number, 0.0) for step in steps]
            setattr(found.units[place], name, median(values))
            if spread_name:
                setattr(found.units[place], spread_name, spread(values))

    taken = taken or {0: 0}
    fill("forward", "forward", "forward_spread")
    fill("backward", "backward", "backward_spread")
    fill("fixed_forward", "fixed_forward")
    fill("fixed_backward", "fixed_backward")
    fill("forward_launch", "launch_forward")
    fill("backward_launch", "launch_backward")
    for unit in found.units:
        unit.fixed_forward = min(unit.fixed_forward, unit.forward)
        unit.fixed_backward = min(unit.fixed_backward, unit.backward)
    for number, place in taken.items():
        for name, table in (("forward_flops", "flops_forward"),
                            ("backward_flops", "flops_backward")):  # fmt: skip
            setattr(found.units[place], name,
                    share * median([getattr(step, table).get(number, 0.0) for step in steps]))  # fmt: skip
        found.units[place].operators = described_parts(settled([s.parts for s in steps], number),
                                                 max(1, found.batch))  # fmt: skip
    fill_activations(found, own.get("activations", {}), taken)
    # A sum of medians is below the median of sums.
    for name, table in (("forward", "forward"), ("backward", "backward")):
        whole = share * MICRO * median([sum(getattr(step, table).values()) for step in steps])
        parts = sum(getattr(unit, name) for unit in found.units)
        if parts > 0 and whole > 0:
            for unit in found.units:
                setattr(unit, name, getattr(unit, name) * whole / parts)
    # Of DeepSpeed `run` adds what is around it: flattening, norms, copies of parts.
    table = "stepping" if own.get("wrappers", {}).get("deepspeed", {}).get("stage") else "optimizer"
    found.optimizer = MICRO * median([getattr(step, table) for step in steps])
    found.optimizer_spread = spread([getattr(step, table) for step in steps])
    found.busy = MICRO * median([step.busy for step in steps])
    copied = median([step.copied for step in steps])
    copies = MICRO * median([step.copying for step in steps])
    found.copy_rate = copied / copies if copied > 1e6 and copies > 0 else 0
    work = sum(unit.forward_flops + unit.backward_flops for unit in found.units)
    spent = sum(unit.forward + unit.backward for unit in found.units)
    found.flops_rate = work / spent if work and spent else 0
    found.buffers = int(own.get("model", {}).get("buffers", 0))
