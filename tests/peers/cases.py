"""Rows of the shipped sets that all peers can state: dense networks of 16 bits on A100s, no virtual stages."""
import pathlib
import re

import yaml

root = pathlib.Path(__file__).resolve().parent.parent.parent
SETS = ["hybrid_parallel", "hybrid_parallel_large"]


def number(text, key, default=1):
    found = re.search(rf"\b{key}[:=] ?(\d+)", text)
    return int(found.group(1)) if found else default


def row_of(one):
    text = " ".join(one["set"])
    if "cluster.use=dgx_a100" not in text or "step_time_s" not in one.get("published", {}):
        return None
    if any(word in text for word in ("fp8", "context_parallel", "expert_parallel", "lora", "virtual_stages", "kv_heads")):
        return None
    row = {
        "name": one["name"], "rivals": one.get("rivals", ""), "measured": one["published"]["step_time_s"],
        "layers": number(text, "layers"), "hidden": number(text, "hidden_size"), "heads": number(text, "heads"),
        "ffn": number(text, "intermediate_size"), "vocab": number(text, "vocab_size"),
        "sequence": number(text, "model.sequence"), "micro": number(text, "model.batch_per_gpu"),
        "batch": number(text, "sequences"), "nodes": number(text, "cluster.nodes"), "tp": number(text, "tensor_parallel"),
        "pp": number(text, "pipeline_parallel"), "sp": "sequence_parallel: true" in text,
        "full": "activation_checkpointing={units: [layers.*]}" in text,
    }
    row["node_gbps"] = 25 * number(text, "cluster.nics", 8)  # GB/s between nodes: NICs of 200 Gbit/s
    row["gpus"] = 8 * row["nodes"]
    row["dp"] = row["gpus"] // (row["tp"] * row["pp"])
    row["micro_batches"] = row["batch"] // (row["dp"] * row["micro"])
    return row if row["layers"] % row["pp"] == 0 else None


def rows():
    for name in SETS:
        for one in yaml.safe_load((root / f"scenarios/validation/{name}.yaml").read_text())["cases"]:
            row = row_of(one)
            if row:
                yield name, row
