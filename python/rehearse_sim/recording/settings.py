"""What a run trains with: its batch, its optimizer, its precision."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .operators import WIDTH

if TYPE_CHECKING:
    from .measure import Measured

KINDS = {
    "SGD": "sgd", "Adam": "adam", "AdamW": "adamw", "Adafactor": "adafactor", "Lamb": "lamb",
    "LAMB": "lamb", "AdamW8bit": "adamw_8bit", "PagedAdamW8bit": "adamw_8bit", "Muon": "muon",
    "FusedAdam": "adamw", "DeepSpeedCPUAdam": "adamw",
}  # fmt: skip


def fill_sample(found: Measured, rank: dict[str, Any]) -> None:
    """The batch and the length of a sample, from what the network was called with, else from what
    the loader gave."""
    shapes = rank.get("inputs") or rank.get("loader", {}).get("shapes") or []
    shapes = [one for one in shapes if len(one) > 1]
    if not shapes:
        found.unknown.append(
            "the batch: neither a DataLoader nor the network's own input told it, so that one "
            "recorded micro-batch counts as one sample"
        )
        return
    found.batch, found.batch_known = int(shapes[0][1]), True
    kind, *dims = shapes[0]
    if len(dims) == 2 and kind.startswith("int"):
        found.sequence = dims[1]
    elif len(dims) == 4 and dims[2] == dims[3] and dims[1] == 3:
        found.image = dims[2]


def fill_optimizer(found: Measured, rank: dict[str, Any]) -> None:
    own = (rank.get("optimizers") or [{}])[0]
    kind = next((KINDS[name] for name in own.get("line", []) if name in KINDS), "")
    if not kind:
        found.unknown.append(
            f"the optimizer {own['class']}: its time was measured, its states in memory are "
            "counted as sgd's" if own.get("class") else
            "the optimizer: none of torch.optim took a step, so that backward passes count as "
            "steps, and what follows them as sgd's"
        )  # fmt: skip
        kind = "sgd"
    if kind == "sgd" and own.get("options", {}).get("momentum"):
        kind = "sgd_momentum"
    found.optimizer_kind = kind
    if own.get("options", {}).get("fused"):
        found.optimizer_options["fused"] = True


def fill_precision(found: Measured, rank: dict[str, Any], trace: dict[str, Any]) -> None:
    seen: dict[str, float] = {}
    for event in trace["traceEvents"]:
        if event.get("name") in ("aten::mm", "aten::addmm", "aten::bmm", "aten::convolution"):
            kinds = event.get("args", {}).get("Input type") or []
            kind = next((k for k in kinds if k in WIDTH), "")
            seen[kind] = seen.get(kind, 0) + event.get("dur", 0)
    most = max(seen, key=lambda k: seen[k]) if seen else "float"
    kept = rank.get("model", {}).get("dtypes", {})
    narrow = {"c10::BFloat16": "bf16", "BFloat16": "bf16", "c10::Half": "fp16", "Half": "fp16"}
    if most not in narrow:
        found.precision = "fp32"
        return
    name = narrow[most]
    whole = max(kept, key=lambda k: kept[k]) if kept else "torch.float32"
    if whole == "torch.float32":
        found.precision = name
    elif "deepspeed" in rank.get("wrappers", {}) or "megatron" in rank.get("frameworks", {}):
        found.precision = f"{name}_master"
    else:
        found.precision = f"{name}_pure" if name == "bf16" else name
