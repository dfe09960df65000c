"""Takes a trace of torch.profiler apart that the agent marked: for each step the time
of each unit, forward and backward, the optimizer, the loader, and the collectives."""

from __future__ import annotations

import bisect
from dataclasses import dataclass, field
from typing import Any

from .operators import CALLS, COPIES, WIDTH, bytes_of, computes, described, product_flops
from .parts import Part, Parts

# Gaps up to this, in which a collective runs, are the host's own: Python between two operators.
LEAST_WAIT = 150.0  # us
# Operators that write all of a weight's gradient, whatever the batch.
FIXED = ("aten::embedding_dense_backward", "aten::zero_", "aten::fill_")
# Copies from this on tell the rate of memory.
LEAST_COPY = 524288.0  # bytes


@dataclass
class Collective:
    what: str
    bytes: float  # of the whole buffer, as nccl-tests counts it
    ranks: int  # 0: the trace does not say
    time: float  # us
    group: str = ""


@dataclass
class Step:
    """Times of one step in microseconds; of units by their number."""

    length: float = 0
    probe: float = 0  # what the profiler takes for each event
    factor: float = 1  # by which times were taken back to steps without the profiler
    forward: dict[int, float] = field(default_factory=dict)
    backward: dict[int, float] = field(default_factory=dict)
    # Time of operators whose shapes do not grow with the batch, of the same.
    fixed_forward: dict[int, float] = field(default_factory=dict)
    fixed_backward: dict[int, float] = field(default_factory=dict)
    flops_forward: dict[int, float] = field(default_factory=dict)
    flops_backward: dict[int, float] = field(default_factory=dict)
    optimizer: float = 0
    loader: float = 0
    exposed: float = 0  # of which in forward, backward, optimizer:
    exposed_in: dict[str, float] = field(default_factory=dict)
    copies: float = 0
    copied: float = 0  # bytes that large copies read and wrote
    copying: float = 0  # their time
    stepping: float = 0  # of the optimizer's time, within step() of torch.optim
    calls: float = 0
    events: int = 0
    busy: float = 0  # of a GPU
    launch_forward: dict[int, float] = field(default_factory=dict)  # host's time, of a GPU's run
    launch_backward: dict[int, float] = field(default_factory=dict)
    collectives: list[Collective] = field(default_factory=list)
    # Times by phase, kernel, operator, shapes and types.
    kernels: dict[tuple[str, ...], list[float]] = field(default_factory=dict)
    order: list[int] = field(default_factory=list)  # units as they ran
    parts: Parts = field(default_factory=Parts)  # calls within units

    @property
    def compute(self) -> float:
        return sum(self.forward.values()) + sum(self.backward.values()) + self.optimizer


def merged(spans: list[tuple[float, float]]) -> list[tuple[float, float]]:
    found: list[tuple[float, float]] = []
    for begin, end in sorted(spans):
        if found and begin <= found[-1][1]:
            if end > found[-1][1]:
                found[-1] = (found[-1][0], end)
        else:
            found.append((begin, end))
    return found


class Spans:
    """Stretches without overlap, and how much of another one they cover."""

    def __init__(self, spans: list[tuple[float, float]]) -> None:
        self.spans = spans
        self.ends = [end for _, end in spans]

    def within(self, begin: float, end: float) -> float:
        total = 0.0
        for at in range(bisect.bisect_right(self.ends, begin), len(self.spans)):
            first, last = self.spans[at]
            if first >= end:
                break
            total += min(end, last) - max(begin, first)
        return total


class Reader:
    """The events of a marked trace, by threads."""

    def __init__(self, trace: dict[str, Any], event_cost: float) -> None:
        self.event_cost = 1e6 * event_cost
        events = [e for e in trace["traceEvents"] if e.get("ph") == "X" and "dur" in e]
        notes = [e for e in events if e.get("cat") == "user_annotation"]
        self.windows = sorted((e for e in notes if e["name"].startswith("ProfilerStep#")),
                              key=lambda e: e["ts"])  # fmt: skip
        if not self.windows:
            raise ValueError("no step is marked in it")
        self.main = self.windows[0]["tid"]
        self.notes = [e for e in notes if e["tid"] == self.main]
        self.gloo = [e for e in notes if e["name"].startswith("gloo:")]
        gloo_threads = {e["tid"] for e in self.gloo} - {self.main}  # there messages wait, too
        self.kernels = sorted(
            (e for e in events if e.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")),
            key=lambda e: e["ts"])  # fmt: skip
        self.launches = {e["args"]["correlation"]: e for e in events
                         if e.get("cat") in ("cuda_runtime", "cuda_driver")
                         and "correlation" in e.get("args", {})}  # fmt: skip
        self.operators = sorted((e for e in events if e.get("cat") == "cpu_op"
                                 and e["tid"] not in gloo_threads),
                                key=lambda e: (e["ts"], -e["dur"]))  # fmt: skip

    def steps(self) -> list[Step]:
        made = [self.step(w["ts"], w["ts"] + w["dur"]) for w in self.windows]
        return [each for each in made if each.compute > 0]

    def step(self, begin: float, end: float) -> Step:
        step = Step(length=end - begin, probe=self.event_cost)
        notes = [e for e in self.notes if begin <= e["ts"] < end]
        units = sorted((e for e in notes if e["name"].startswith("rehearse.unit#")),
                       key=lambda e: e["ts"])  # fmt: skip
        backwards = sorted((e["ts"], e["ts"] + e["dur"]) for e in notes
                           if e["name"] == "rehearse.backward")  # fmt: skip
        loading = Spans(merged([(e["ts"], e["ts"] + e["dur"]) for e in notes
                                if e["name"].startswith("enumerate(DataLoader)")]))  # fmt: skip
        inside = self.between(begin, end)
        if not backwards:
            own = [(e["ts"], e["ts"] + e["dur"]) for e in inside
                   if e["name"].startswith("autograd::engine::evaluate_function")]  # fmt: skip
            if own:
                backwards = [(min(a for a, _ in own), max(b for _, b in own))]
        self.unit_begins = [e["ts"] for e in units]
        self.unit_numbers = [int(e["name"].split("#")[1]) for e in units]
        self.unit_ends = [e["ts"] + e["dur"] for e in units]
        for number in self.unit_numbers:
            if number not in step.order:
                step.order.append(number)
        self.backward_spans = Spans(backwards)
        self.backward_end = backwards[-1][1] if backwards else end
        step.collectives = self.collectives(begin, end)
        parts = dict(zip(map(id, inside), step.parts.places(self, inside)))
        if self.kernels:
            self.on_gpu(step, begin, end, inside, loading, parts)
        else:
            self.on_cpu(step, begin, end, inside, loading, parts)
        return step

    def between(self, begin: float, end: float) -> list[dict[str, Any]]:
        first = bisect.bisect_left(self.operators, begin, key=lambda e: e["ts"])
        last = bisect.bisect_left(self.operators, end, key=lambda e: e["ts"])
        return self.operators[first:last]

    def unit_at(self, time: float) -> int:
        """The unit that ran last; before the first: the first."""
        at = bisect.bisect_right(self.unit_begins, time) - 1
        return self.unit_numbers[max(at, 0)] if self.unit_numbers else 0

    def phase_at(self, time: float) -> str:
        if self.backward_spans.within(time, time + 1e-3) > 0:
            return "backward"
        return "optimizer" if time >= self.backward_end else "forward"

    def places(self, inside: list[dict[str, Any]]) -> list[tuple[str, int]]:
        """Phase and unit of each operator. Those of the backward pass go with their forward
        operator, whose sequence number they have."""
        of_sequence: dict[int, int] = {}
        for e in inside:
            number = e.get("args", {}).get("Sequence number")
            runs_forward = self.phase_at(e["ts"]) == "forward" or self.recomputes(e["ts"])
            if number is not None and runs_forward and not e["name"].startswith("autograd::"):
                of_sequence.setdefault(number, self.unit_at(e["ts"]))
        found: list[tuple[str, int]] = []
        last = self.unit_numbers[-1] if self.unit_numbers else 0
        for e in inside:
            phase = self.phase_at(e["ts"])
            if phase != "backward":
                found.append((phase, self.unit_at(e["ts"])))
                continue
            number = e.get("args", {}).get("Sequence number")
            if e["name"].startswith("autograd::engine") and number in of_sequence:
                last = of_sequence[number]
            elif self.recomputes(e["ts"]):
                last = self.unit_at(e["ts"])
            found.append((phase, last))
        return found

    def recomputes(self, time: float) -> bool:
        """Whether a unit's forward runs within the backward pass."""
        at = bisect.bisect_right(self.unit_begins, time) - 1
        return at >= 0 and time < self.unit_ends[at] and self.phase_at(time) == "backward"

    def on_cpu(self, step: Step, begin: float, end: float, inside: list[dict[str, Any]],
               loading: Spans, parts: dict[int, Part | None]) -> None:  # fmt: skip
        own = [(e, place) for e, place in zip(inside, self.places(inside)) if e["tid"] == self.main]
        gloo = Spans(merged([(e["ts"], e["ts"] + e["dur"]) for e in self.gloo]))
        works = merged([(e["ts"], e["ts"] + e["dur"]) for e, _ in own if computes(e)])
        gaps = []
        until = begin
        for first, last in [*works, (end, end)]:
            if first - until > LEAST_WAIT and gloo.within(until, first) > LEAST_WAIT:
                gaps.append((until, first))
            until = max(until, last)
        waits = Spans(merged([
            (max(a, first), min(b, last)) for a, b in gaps for first, last in gloo.spans
            if first < b and last > a
        ]))  # fmt: skip
        aside = Spans(merged([(e["ts"], e["ts"] + e["dur"]) for e, _ in own
                              if e["name"].startswith(COPIES)]))  # fmt: skip
        calls = Spans(merged([(e["ts"], e["ts"] + e["dur"]) for e, _ in own
                              if e["name"].startswith(CALLS)]))  # fmt: skip
        step.exposed = waits.within(begin, end)
        step.loader = loading.within(begin, end)
        step.copies = aside.within(begin, end)
        step.calls = calls.within(begin, end)
        step.events = len(own)
        for e, _ in own:
            if e["name"].startswith(COPIES) or e["name"] == "aten::copy_":
                moved = 2 * bytes_of(e.get("args", {}))
                if moved >= LEAST_COPY:
                    step.copied += moved
                    step.copying += e["dur"]
        growing = self.growing_stretches(own)
        stepping = Spans(merged([(e["ts"], e["ts"] + e["dur"]) for e in self.notes
                                 if e["name"].startswith("Optimizer.step#")]))  # fmt: skip
        outermost: list[tuple[float, tuple[str, int], Part | None]] = []
        until = begin
        for e, place in own:
            if e["ts"] >= until:
                outermost.append((e["ts"], place, parts[id(e)]))
                until = e["ts"] + e["dur"]
        counts = [0] * len(outermost)
        begins = [each[0] for each in outermost]
        for e, _ in own:
            counts[max(0, bisect.bisect_right(begins, e["ts"]) - 1)] += 1
        points = [begin, *begins[1:], end] if begins else [begin, end]
        for number, (_, (phase, unit), part) in enumerate(outermost):
            a, b = points[number], points[number + 1]
            away = waits.within(a, b) + aside.within(a, b) + loading.within(a, b)
            time = max(0.0, b - a - away - self.event_cost * counts[number])
            still = max(0.0, time - growing.within(a, b))
            step.exposed_in[phase] = step.exposed_in.get(phase, 0) + waits.within(a, b)
            if phase == "optimizer":
                step.optimizer += time
                step.stepping += min(time, stepping.within(a, b))
            elif phase == "forward":
                step.forward[unit] = step.forward.get(unit, 0) + time
                step.fixed_forward[unit] = step.fixed_forward.get(unit, 0) + still
                if part:
                    part.forward += time
            else:
                if part:
                    part.backward += time
                step.backward[unit] = step.backward.get(unit, 0) + time
                step.fixed_backward[unit] = step.fixed_backward.get(unit, 0) + still
        until = begin
        for e, (phase, _) in own:
            if computes(e) and e["ts"] >= until:
                until = e["ts"] + e["dur"]
                key = (phase, e["name"], "", *described(e.get("args", {})))
                step.kernels.setdefault(key, []).append(e["dur"])
        for e, (phase, unit) in own:
            flops = product_flops(e)
            table = step.flops_forward if phase == "forward" else step.flops_backward
            if flops and phase != "optimizer":
                table[unit] = table.get(unit, 0) + flops

    def growing_stretches(self, own: list[tuple[dict[str, Any], Any]]) -> Spans:
        """Where operators run, less what the shortest of them takes: the rest of the time (Python,
        dispatch, sums of gradients) is as long at any batch."""
        found = []
        until = still = float("-inf")  # ends of an operator, and of what adds up a gradient
        for e, _ in own:
            end = e["ts"] + e["dur"]
            if e["name"].endswith("AccumulateGrad") or e["name"] in FIXED:
                still = max(still, end)
            elif computes(e) and e["ts"] >= max(until, still):
                until = end
                if not e["name"].startswith(COPIES):
                    found.append((e["ts"], e["dur"]))
        least = min((dur for _, dur in found), default=0.0)
        return Spans(merged([(ts + least, ts + dur) for ts, dur in found if dur > least]))

    def on_gpu(self, step: Step, begin: float, end: float, inside: list[dict[str, Any]],
               loading: Spans, parts: dict[int, Part | None]) -> None:  # fmt: skip
        """Kernels go with the operator that launched them; a unit's time is that of its kernels,
        and the host's time for them stands beside."""
        places = dict(zip(map(id, inside), self.places(inside)))
        by_thread: dict[Any, list[dict[str, Any]]] = {}
        for e in inside:
            by_thread.setdefault(e["tid"], []).append(e)
        starts = {tid: [e["ts"] for e in found] for tid, found in by_thread.items()}
        launched = []
        for kernel in self.kernels:
            launch = self.launches.get(kernel["args"].get("correlation"))
            if launch is None or not begin <= launch["ts"] < end:
                continue
            if kernel["name"].startswith("nccl"):
                continue
            own = by_thread.get(launch["tid"], [])
            at = bisect.bisect_right(starts.get(launch["tid"], []), launch["ts"]) - 1
            place = places[id(own[at])] if at >= 0 else (
                self.phase_at(launch["ts"]), self.unit_at(launch["ts"]))  # fmt: skip
            aside = at >= 0 and own[at]["name"].startswith(COPIES)
            operator, args = (own[at]["name"], own[at].get("args", {})) if at >= 0 else ("", {})
            key = (place[0], kernel["name"], operator, *described(args))
            step.kernels.setdefault(key, []).append(kernel["dur"])
            launched.append((kernel, place, aside, parts[id(own[at])] if at >= 0 else None))
        covered = float("-inf")
        for kernel, (phase, unit), aside, part in launched:
            first, last = kernel["ts"], kernel["ts"] + kernel["dur"]
            time = max(0.0, last - max(first, covered))
            covered = max(covered, last)
            step.busy += time
            if aside:
                step.copies += time
            elif phase == "optimizer":
                step.optimizer += time
            else:
                table = step.forward if phase == "forward" else step.backward
                table[unit] = table.get(unit, 0) + time
                if part and phase == "forward":
                    part.forward += time
                elif part:
                    part.backward += time
        compute = Spans(merged([(k["ts"], k["ts"] + k["dur"]) for k, *_ in launched]))
        for e in self.kernels:
            if e["name"].startswith("nccl") and begin <= e["ts"] < end:
                step.exposed += e["dur"] - compute.within(e["ts"], e["ts"] + e["dur"])
        step.loader = loading.within(begin, end)
        step.events = len(inside)
        until = begin
        for e in inside:
            if e["ts"] < until:
                continue
            until = e["ts"] + e["dur"]
            phase, unit = places[id(e)]
            if phase != "optimizer":
                table = step.launch_forward if phase == "forward" else step.launch_backward
                table[unit] = table.get(unit, 0) + e["dur"]

    def collectives(self, begin: float, end: float) -> list[Collective]:
        found = []
        for e in self.gloo:
            if begin <= e["ts"] < end:
                size = bytes_of(e.get("args", {}))
                found.append(Collective(e["name"][5:], size, 0, e["dur"]))
        for e in self.kernels:
            if e["name"].startswith("nccl") and begin <= e["ts"] < end:
                args = e.get("args", {})
                width = WIDTH.get(args.get("dtype", ""), 2)
                count = max(float(args.get("In msg nelems", 0) or 0),
                            float(args.get("Out msg nelems", 0) or 0))  # fmt: skip
                found.append(Collective(
                    str(args.get("Collective name") or e["name"].split("(")[0]), count * width,
                    int(args.get("Group size", 0) or 0), e["dur"],
                    str(args.get("Process Group Name", ""))))  # fmt: skip
        return found
