"""What comes back: a prediction with its numbers by name, and other answers as they are."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast

from .documents import Report
from .errors import wrong

Interval = tuple[float, float]
Document = TypeVar("Document")


class Answer(Mapping[str, Any], Generic[Document]):
    """A document of the program, by its keys; dots reach inside: answer["memory.used_bytes"].
    `to_dict()` has the type that rehearse_sim.documents lists for it."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self._document = dict(document)

    def __getitem__(self, key: str) -> Any:
        found: Any = self._document
        if key in found:
            return found[key]
        for part in key.split("."):
            found = found[part]
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._document)

    def __len__(self) -> int:
        return len(self._document)

    def to_dict(self) -> Document:
        """The whole document, as `--format json` prints it."""
        return cast(Document, dict(self._document))

    @property
    def answer(self) -> str:
        """What it comes to, in the sentences that stand first in every view."""
        return str(self._document.get("answer", ""))

    def __repr__(self) -> str:
        if self.answer:
            return f"<{self._document.get('schema')}: {self.answer}>"
        return f"<{self._document.get('schema', 'answer')}: {', '.join(self)}>"

    def _repr_html_(self) -> str:
        first = ("answer", "schema")  # those that stand elsewhere
        rows = [(key, value) for key, value in self._document.items() if key not in first
                and isinstance(value, (str, int, float)) and not isinstance(value, bool)]  # fmt: skip
        table = table_html(str(self._document.get("schema", "")), [(k, str(v)) for k, v in rows])
        return answer_html(self.answer) + table


def answer_html(answer: str) -> str:
    return f"<p><strong>{html.escape(answer)}</strong></p>" if answer else ""


def table_html(title: str, rows: list[tuple[str, str]]) -> str:
    body = "".join(
        f"<tr><th style='text-align:left'>{html.escape(name)}</th><td>{html.escape(text)}</td></tr>"
        for name, text in rows
    )
    return f"<table><caption>{html.escape(title)}</caption>{body}</table>"


@dataclass(frozen=True)
class Memory:
    """Of the rank that needs most."""

    fits: bool | None
    verdict: str | None
    used_bytes: float
    capacity_bytes: float | None
    allocated_peak_bytes: float
    reserved_peak_bytes: float | None
    by_kind: Mapping[str, float]
    largest_batch_per_gpu: int | None


@dataclass(frozen=True)
class Breakdown:
    """Where a step's time goes, in seconds of the mean rank."""

    compute_s: float
    exposed_communication_s: float
    hidden_communication_s: float
    idle_s: float


class Prediction(Answer[Report]):
    """One training as `rehearse run` predicts it. Units stand in the names."""

    @property
    def step_time_s(self) -> float:
        return float(self["step_time_s"])

    @property
    def interval(self) -> Interval | None:
        """In which the step time lies at 90 %, in seconds."""
        ends = self._document.get("step_time_interval_s")
        return None if ends is None else (float(ends[0]), float(ends[1]))

    @property
    def intervals(self) -> dict[str, Interval]:
        return {key: (ends[0], ends[1]) for key, ends in self["intervals"].items()}

    @property
    def samples_per_s(self) -> float:
        return float(self["samples_per_s"])

    @property
    def tokens_per_s(self) -> float | None:
        return self._document.get("tokens_per_s")

    @property
    def mfu(self) -> float | None:
        return self._document.get("mfu")

    @property
    def fits(self) -> bool | None:
        return self.memory.fits if self.memory else None

    @property
    def memory(self) -> Memory | None:
        own = self._document.get("memory")
        if own is None:
            return None
        return Memory(
            fits=own.get("fits"), verdict=own.get("verdict"), used_bytes=own["used_bytes"],
            capacity_bytes=own.get("capacity_bytes"),
            allocated_peak_bytes=own["allocated_peak_bytes"],
            reserved_peak_bytes=own.get("reserved_peak_bytes"),
            by_kind={key.removesuffix("_bytes"): each for key, each in own["by_kind"].items()},
            largest_batch_per_gpu=own.get("largest_batch_per_gpu"),
        )  # fmt: skip

    @property
    def breakdown(self) -> Breakdown:
        own = self["breakdown"]
        return Breakdown(own["compute_s"], own["exposed_communication_s"],
                         own["hidden_communication_s"], own["idle_s"])  # fmt: skip

    @property
    def stages(self) -> list[dict[str, Any]]:
        """The programs of unlike ranks, with their memory: stages of a pipeline, servers."""
        return list((self._document.get("memory") or {}).get("programs", []))

    def __repr__(self) -> str:
        return f"<Prediction: {self['model']}, {self['strategy']}. {self.answer}>"

    def _repr_html_(self) -> str:
        ends, memory = self.interval, self.memory
        about = f" ({ends[0]:.4g} s to {ends[1]:.4g} s, 90 % interval)" if ends else ""
        rows = []
        if memory and memory.capacity_bytes:
            rows.append(("memory", f"{memory.verdict}: {memory.used_bytes / 2**30:.3g} GiB of "
                                   f"{memory.capacity_bytes / 2**30:.3g} GiB"))  # fmt: skip
        rows.append(("step time", f"{self.step_time_s:.4g} s{about}"))
        rows.append(("throughput", f"{self.samples_per_s:.4g} samples/s"))
        if self.tokens_per_s:
            rows.append(("", f"{self.tokens_per_s:.6g} tokens/s"))
        rows.append(("bottleneck", str(self["bottleneck"])))
        title = f"{self['model']} · {self['strategy']} · {self['cluster']}"
        return answer_html(self.answer) + table_html(title, rows)


class RlPrediction(Prediction):
    """A step of post-training. Its `phases` stand in the place of a breakdown."""

    @property
    def answer(self) -> str:
        return f"{self['verdict']}: {self.step_time_s:.4g} s a step of {self['algorithm']}"

    @property
    def interval(self) -> Interval | None:
        ends = self._document.get("interval")
        return None if ends is None else (float(ends["low_s"]), float(ends["high_s"]))

    @property
    def intervals(self) -> dict[str, Interval]:
        return {} if self.interval is None else {"step_time_s": self.interval}

    @property
    def samples_per_s(self) -> float:
        return float(self["sequences"]) / self.step_time_s

    @property
    def phases(self) -> dict[str, float]:
        """Seconds of each phase, in their order."""
        return {each["phase"]: float(each["time_s"]) for each in self["phases"]}

    @property
    def memory(self) -> Memory | None:
        """Of the phase that fills most of its GPUs; `by_kind` has what is its own and what lies
        beside it."""
        phases = self._document.get("memory")
        if not phases:
            return None

        def used(one: Mapping[str, Any]) -> float:
            return float(one["own_bytes"]) + float(one["beside_bytes"])

        own = max(phases, key=lambda one: used(one) / float(one["capacity_bytes"]))
        return Memory(
            fits=self["fits"], verdict=self["verdict"], used_bytes=used(own),
            capacity_bytes=own["capacity_bytes"], allocated_peak_bytes=used(own),
            reserved_peak_bytes=None,
            by_kind={own["phase"]: own["own_bytes"], "beside": own["beside_bytes"]},
            largest_batch_per_gpu=None,
        )  # fmt: skip

    @property
    def breakdown(self) -> Breakdown:
        raise wrong("a step of post-training has phases", "read .phases")

    @property
    def stages(self) -> list[dict[str, Any]]:
        return []

    def __repr__(self) -> str:
        return f"<RlPrediction: {self['network']}. {self.answer}>"

    def _repr_html_(self) -> str:
        rows = [(name, f"{time:.4g} s") for name, time in self.phases.items()]
        return answer_html(self.answer) + table_html(str(self["network"]), rows)


def prediction_of(document: Mapping[str, Any]) -> Prediction:
    """What `rehearse run` answered, by its schema."""
    is_rl = str(document.get("schema", "")).startswith("rehearse.rollout/")
    return RlPrediction(document) if is_rl else Prediction(document)
