#!/usr/bin/env python3
"""Published steps of post-training beside what `rehearse run` says, part by part.

    tests/rollout/steps.py build/release/rehearse rl_steps.csv [--like WORD] [--keep FOLDER]

The table of published steps is not the project's: give one with the columns source, framework,
mode, staleness_steps, model, gpu, gpus, gpus_gen, prompts, generations, max_len, mean_response,
gen_layout, train_layout, and the parts step_s, gen_s, logprob_s, train_s, refit_s, wait_s. A row
that says no mean length takes the one with which its own training (or that of the row in turn on as
many GPUs) takes the time published: what is compared then are the other parts. `points` are what a
part's error is of the row's published step. Last, which of two ways on the same GPUs is the faster;
no way's own time is in its length then, but of those in turn.

verl's page has two cells exchanged since 2026-01: 32 GPUs in turn trained 313.81 s when it was
first written (b25bb7d4f, 2025-10-17), before the other row had any figures. Only so do its parts
and that row's make their steps.
"""
import argparse
import csv
import json
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

MODELS = {"llama-3.1-8b": "llama_3_8b", "qwen3-235b-a22b": "qwen3_235b_a22b",
          "qwen2.5-math-7b": "qwen2_5_7b"}
H20 = ("{nodes: %d, node: {gpus: 8, gpu: H20, nvlink: 450GBps, nvlink_latency: 0.6us, pcie: 50GBps,"
       " host_bandwidth: 300GBps, cores: 96, nics: 8, nic: 50GBps, nic_latency: 2.7us, transport: "
       "rdma}, fabric: {star: {}}}")
CLUSTERS = {"H100": (8, "{use: dgx_h100, nodes: %d}"), "H20": (8, H20),
            "GB200": (4, "{use: dgx_gb200_nvl72, nodes: 1, gpus_per_node: %d}")}
EXCHANGED = {"269.8": "313.81", "313.81": "269.80"}
PARTS = {"generation": "gen_s", "log-probabilities": "logprob_s", "training": "train_s",
         "refit": "refit_s", "waiting for responses": "wait_s"}


def number(row, key):
    """A cell as a number, or 0."""
    try:
        return float(row.get(key) or 0)
    except ValueError:
        return 0.0


class Case:
    """A row as a scenario of its framework's public recipe."""

    def __init__(self, row):
        if row["where"].endswith("fully_async.md"):
            row["train_s"] = EXCHANGED.get(row["train_s"], row["train_s"])
        self.row, self.mean = row, number(row, "mean_response")
        self.apart = row["mode"].startswith("async")
        self.nemo = row["framework"] == "NeMo-RL"
        self.gpus = int(number(row, "gpus"))
        self.own = int(number(row, "gpus_gen")) if self.apart else 0

    def can_be_said(self):
        """Whether the row says enough, of hardware and networks that are here."""
        row = self.row
        known = row["model"] in MODELS and row["gpu"] in CLUSTERS and self.gpus
        recipe = self.nemo or row["train_backend"] == "FSDP2" and self.gpus > 16
        limits = "one_step" not in row["where"]  # its nodes are of twelve GPUs
        return bool(row["kind"] == "step" and known and recipe and limits and
                    number(row, "step_s") and (not self.apart or self.own))

    def name(self):
        """Short, for the table."""
        lag = f" lag {self.row['staleness_steps']}" if self.apart else ""
        return f"{self.row['framework']} {self.row['model']} {self.gpus} {self.row['gpu']}{lag}"

    def way(self):
        """In turn, or how far apart."""
        return self.row["mode"], self.row["staleness_steps"], self.row["note"]

    def scenario(self):
        """Its text."""
        of_node, cluster = CLUSTERS[self.row["gpu"]]
        train = self.gpus - self.own
        nodes = train if of_node == 4 else train // of_node
        model = MODELS[self.row["model"]]
        return (self.of_nemo if self.nemo else self.of_verl)(model, cluster % nodes,
                                                             self.own // of_node)

    def of_nemo(self, model, cluster, own):
        """examples/configs/recipes/llm/performance at v0.4 and v0.6."""
        row, most = self.row, int(number(self.row, "max_len"))
        prompts, each = int(number(row, "prompts")) or 64, int(number(row, "generations")) or 32
        tp, cp, ep, pp = [int(one) for one in
                          re.findall(r"\d+", row["train_layout"] or "1,1,1,2")[:4]]
        layout = f"tensor_parallel: {tp}, pipeline_parallel: {pp}"
        if ep > 1:
            split = {8: "[11, 12, 12, 12, 12, 12, 12, 11]", 4: "[23, 24, 24, 23]"}[pp]
            layout += (f", sequence_parallel: true, context_parallel: {cp}, expert_parallel: {ep},"
                       f" expert_tensor_parallel: 1, pipeline: {{split: {split}}}")
        sync = "stage: 1, grad_reduce_in_fp32: false"
        recomputed = ", activation_checkpointing: per_unit"
        framework = "framework: megatron\n"
        if row["train_backend"] == "DTensor":
            layout, framework = "", ""
        strategy = f"{{zero: {{{sync}}}, {layout}}}" if layout else "{fsdp2: {}}"
        serving = re.search(r"\d+", row["gen_layout"] or "TP1").group()
        engine = "vllm_0_17" if row["version"].startswith("v0.6") else "vllm_0_10"
        memory = {"llama-3.1-8b": 0.8}.get(row["model"], 0.88) if own else 0.6
        if row["gpu"] == "GB200":
            memory = 0.4
        lag = ""
        if own:
            whole = row["version"].startswith("v0.4")
            lag = "staleness: {limit: 1%s}" % ("" if whole else ", in_flight: true, take: begun")
        return (f"model: {{use: {model}, sequence: {most}, batch_per_gpu: 1, precision: "
                f"bf16_master{recomputed}}}\ncluster: {cluster}\nstrategy: {strategy}\n{framework}"
                f"optimizer: {{adamw: {{}}}}\nrl:\n  prompts: {prompts}\n  generations: {each}\n"
                f"  updates: {prompts * each // 512}\n  lengths: {{prompt: {{mean: 130, limit: 130}}, response:"
                f" {{mean: {self.mean:.1f}, deviation: {0.75 * self.mean:.1f}, limit: {most - 130}"
                f"}}}}\n  reference: true\n  generator: {{engine: {engine}, memory: {memory}, "
                f"tensor_parallel: {serving}, nodes: {own}}}\n  {lag}\n")

    def of_verl(self, model, cluster, own):
        """recipe/fully_async_policy/exp/qwen2-7B-math_*: fsdp_size 2, offload in turn alone."""
        most = int(number(self.row, "max_len"))
        lag = ""
        if own:
            share = re.search(r"[\d.]+$", self.row["staleness_steps"].split(" of")[0]).group()
            some = re.search(r"require_batches (\d)", self.row["note"])
            parts = 16 // int(some.group(1) if some else 4)
            lag = (f"staleness: {{limit: {share}, in_flight: true, stream: true}}\n"
                   f"  # {parts} fits of a step")
        return (f"model: {{use: {model}, sequence: {4 * 2 * (2048 + most)}, batch_per_gpu: 1, "
                "precision: bf16_master, loss: fused_logits, activation_checkpointing: "
                "{units: [layers.*]}}\n"
                f"cluster: {cluster}\nstrategy: {{fsdp2: {{shard_group: 2}}, context_parallel: "
                "{degree: 4, method: ulysses}}\noptimizer: {adamw: {}}\nrl:\n  algorithm: dapo\n"
                "  prompts: 512\n  generations: 16\n  updates: 16\n  balance: sequences\n"
                f"  old_log_probs: {'false' if own else 'true'}\n"
                "  lengths: {prompt: {mean: 150, limit: 2048}, response: {mean: "
                f"{self.mean:.1f}, deviation: {self.mean:.1f}, limit: {most}}}}}\n"
                f"  generator: {{engine: vllm_0_10, memory: 0.8, tensor_parallel: 4, nodes: {own}, "
                f"trainer_sleeps: {'false' if own else 'true'}}}\n  {lag}\n")


def predict(program, case, folder):
    """The report of `rehearse run`, or its message."""
    file = pathlib.Path(folder) / (re.sub(r"[^a-z0-9]+", "_", case.name().lower()) + ".yaml")
    file.write_text(case.scenario())
    run = subprocess.run([program, "run", file, "--format", "json", "--no-intervals"], capture_output=True, text=True,
                         check=False)
    return json.loads(run.stdout) if run.returncode == 0 else run.stderr.strip().split("\n")[0]


def phases(report):
    """Time by part."""
    return {one["phase"]: one["time_s"] for one in report["phases"]} | {
        "step": report["step_time_s"]}


def fit_length(program, case, wanted, folder):
    """The mean response with which training takes so long; training is nearly linear in it."""
    case.mean = 1000
    for _ in range(4):
        report = predict(program, case, folder)
        if isinstance(report, str):
            return report
        case.mean = min(case.mean * wanted / phases(report)["training"],
                        0.9 * number(case.row, "max_len"))
    return ""


def order(steps):
    """Prints how often the faster of two ways to run a recipe on the same GPUs is predicted so."""
    counts = {"in turn or apart": [0, 0], "how far behind": [0, 0]}
    for at, (one, first) in enumerate(steps):
        for other, second in steps[at + 1:]:
            same = all(one.row[key] == other.row[key] for key in
                       ("framework", "version", "model", "gpu", "gpus", "max_len"))
            gap = number(one.row, "step_s") / number(other.row, "step_s")
            if not same or one.way() == other.way() or 0.95 < gap < 1 / 0.95:
                continue
            agrees = (gap > 1) == (first > second) and abs(first / second - 1) > 0.01
            of = counts["how far behind" if one.apart == other.apart else "in turn or apart"]
            of[0] += agrees
            of[1] += 1
            print(f"{one.name()} | {other.name()}: {gap:.2f} published, {first / second:.2f} "
                  f"predicted{'' if agrees else ' (wrong)'}")
    for what, (right, pairs) in counts.items():
        print(f"{what}: {right} of {pairs} pairs in their order")


def main():
    """Prints the table."""
    options = argparse.ArgumentParser()
    options.add_argument("program")
    options.add_argument("table")
    options.add_argument("--like", default="")
    options.add_argument("--keep", default="")
    asked = options.parse_args()
    folder = asked.keep or tempfile.mkdtemp()
    cases = [Case(row) for row in csv.DictReader(open(asked.table, encoding="utf-8"))]
    cases = [one for one in cases if one.can_be_said() and asked.like in one.name()]
    lengths, errors, steps = {}, {}, []
    print(f"{'row':<58} {'part':<22} {'published':>9} {'predicted':>9} {'error':>7} "
          f"{'points':>6}")
    for case in cases:
        key = (case.row["where"], case.gpus, case.row["max_len"])
        wrong, of_training = "", case.mean == 0
        if of_training and key in lengths:
            case.mean = lengths[key]
        elif of_training:
            wrong = fit_length(asked.program, case, number(case.row, "train_s"), folder)
            lengths[key] = case.mean
        report = wrong or predict(asked.program, case, folder)
        if isinstance(report, str):
            print(f"{case.name():<58} {report}")
            continue
        predicted = phases(report)
        steps.append((case, predicted["step"]))
        if "reference" in predicted:
            predicted["log-probabilities"] += predicted["reference"]
        for part, column in ({"step": "step_s"} | PARTS).items():
            published = number(case.row, column)
            if not published or part not in predicted:
                continue
            fitted = of_training and part == "training" and not case.apart
            error = predicted[part] / published - 1
            if not fitted:
                errors.setdefault(part, []).append(abs(error))
            points = 100 * (predicted[part] - published) / number(case.row, "step_s")
            print(f"{case.name():<58} {part:<22} {published:>9.1f} {predicted[part]:>9.1f} "
                  f"{100 * error:>+6.1f}% {points:>+6.1f}{' (length from it)' if fitted else ''}",
                  flush=True)
    for part, all_of in errors.items():
        print(f"{part}: {len(all_of)} rows, median {100 * statistics.median(all_of):.1f} %")
    order(steps)
    return 0


if __name__ == "__main__":
    sys.exit(main())
