"""Scenarios drawn from a seed: models, clusters and strategies of every kind that fit together."""
import random

# Seconds between two sites, cables of a fabric, and so on: what a user could write.
MODELS = ["resnet50", "small_cnn", "small_mlp", "gpt2"]


def flow(value):
    """YAML's flow form of maps, lists and scalars."""
    if isinstance(value, dict):
        return "{%s}" % ", ".join("%s: %s" % (key, flow(member)) for key, member in value.items())
    if isinstance(value, list):
        return "[%s]" % ", ".join(flow(member) for member in value)
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


class Scenario:
    """One scenario as plain maps; `text()` is its file. Rates are kept as numbers, so that they can be changed."""

    def __init__(self, seed):
        self.seed = seed
        r = self.random = random.Random(seed)
        self.nodes = r.choice([1, 1, 2, 2, 3, 4, 8])
        self.gpus = r.choice([1, 1, 2, 4, 8])
        self.draw_machine(r)
        self.draw_fabric(r)
        self.jitter = r.choice(["none"] * 3 + ["default", "{lognormal: {cv: 0.1}}"])
        self.repeats = 1
        if self.nodes * self.gpus > 1 and r.random() < 0.35:
            self.draw_layout(r)
        else:
            self.draw_plain(r)
        self.optimizer = r.choice(["{sgd: {}}", "{adam: {}}", "{adamw: {fused: true}}", "{adamw: {}}"])
        self.steps = r.choice([1, 2, 3])
        self.fidelity = "auto"
        self.play = "steady"
        # Of the host's memory and of what it passes on between GPUs, times the defaults.
        self.host = 1

    @property
    def ranks(self):
        return self.nodes * self.gpus

    @property
    def steady(self):
        return self.jitter == "none"

    def draw_machine(self, r):
        self.gpu = r.choice(["generic", "generic", "A100-80", "H100-SXM", "V100"])
        self.gpu = {"A100-80": "A100-SXM-80", "V100": "V100-SXM2-16"}.get(self.gpu, self.gpu)
        self.speed = r.choice([0.5, 1, 1, 2])
        self.memory = r.choice([8, 16, 24, 80])
        self.rates = {"nic": r.choice([1, 10, 25, 100, 200]) / 8}  # GBps
        self.nics = r.choice([1, 1, 2, self.gpus]) if self.gpus > 1 else 1
        self.latency = r.choice([1, 5, 20])
        self.inner = r.choice(["nvlink", "nvlink", "pcie", "staged"])
        self.rates["nvlink" if self.inner == "nvlink" else "pcie"] = r.choice([12, 24, 50, 300])

    def draw_fabric(self, r):
        kinds = ["star"] * 3 + (["sites", "rail", "torus", "fat_tree"] if self.nodes > 1 else [])
        self.fabric = r.choice(kinds)
        if self.fabric == "star":
            return
        self.rates["fabric"] = r.choice([0.05, 0.5, 5, 50])
        self.cable_latency = r.choice([0.2, 20, 1000] if self.fabric == "sites" else [0.2, 2])
        divisors = [n for n in range(1, self.nodes) if self.nodes % n == 0]
        self.site = r.choice(divisors)

    def draw_model(self, r, strategy):
        """A network for ranks that share none of it."""
        kind = r.choice(["units", "units", "named", "transformer", "experts"])
        self.batch = r.choice([1, 2, 4])
        self.precision = r.choice(["fp32", "bf16", "bf16_mixed"]) if "V100" not in self.gpu else "fp32"
        if self.precision == "bf16_mixed":
            self.precision = "bf16"
        if kind == "units":
            self.model = {"name": "m", "batch_per_gpu": self.batch, "optimizer_time": "1ms",
                          "units": self.draw_units(r)}
        elif kind == "named":
            name = r.choice(MODELS)
            self.model = {"use": name, "batch_per_gpu": self.batch, "precision": self.precision}
            if name == "gpt2":
                self.model["sequence"] = 64
        else:
            self.model = {"transformer": self.draw_transformer(r, kind == "experts"), "sequence": 128,
                          "batch_per_gpu": self.batch, "precision": self.precision}
            self.draw_adapters(r, attention_only=kind == "experts")
        self.timed = kind == "units"

    def draw_units(self, r):
        units = [(r.choice([0, 1000, 250_000, 6_553_600]), r.choice([100, 500, 1000, 4000]), r.choice([1, 4, 25]))
                 for _ in range(r.randint(1, 5))]
        if not any(parameters for parameters, _, _ in units):
            units[0] = (1000, 100, 1)
        return [{"name": "u%d" % i, "parameters": parameters, "forward": "%dus" % time,
                 "backward": "%dus" % (2 * time), "activation": "%dMiB" % size}
                for i, (parameters, time, size) in enumerate(units)]

    def draw_transformer(self, r, experts, layers=None):
        shape = {"layers": layers or r.choice([2, 3, 6]), "hidden_size": r.choice([256, 512, 1024]), "heads": 8,
                 "kv_heads": r.choice([4, 8]), "intermediate_size": r.choice([1024, 2816]), "vocab_size": 8192}
        if r.random() < 0.3:
            shape.update({"activation": "gelu", "norm": "layernorm"})
        if r.random() < 0.2:
            shape["tie_embeddings"] = True
        if experts:
            shape["experts"] = {"count": 8, "active": r.choice([1, 2]), "intermediate_size": 512}
            if r.random() < 0.3:
                shape["experts"]["shared"] = 1
        return shape

    def draw_plain(self, r):
        kinds = ["ddp", "ddp", "zero1", "zero2", "zero3", "fsdp", "fsdp", "fsdp2", "fsdp2"]
        if self.ranks > 1:
            kinds += ["ps", "local_sgd"]
        self.kind = r.choice(kinds)
        self.draw_model(r, self.kind)
        accumulates = r.choice([1, 1, 2, 12, 24])
        draw = {
            "ddp": lambda: {"ddp": {"bucket_cap_mb": r.choice([1, 5, 25])}},
            "zero1": lambda: {"zero": {"stage": 1}},
            "zero2": lambda: {"zero": {"stage": 2}},
            "zero3": lambda: {"zero": {"stage": 3}},
            "fsdp": lambda: {"fsdp": {"sharding": r.choice(["full_shard", "shard_grad_op"]),
                                      "forward_prefetch": r.choice([True, False])}},
            "fsdp2": lambda: {"fsdp2": {"reshard_after_forward": r.choice([True, False])}},
            "ps": lambda: {"ps": {"servers": r.choice([1, 2]), "staleness": 0}},
            "local_sgd": lambda: {"local_sgd": {"period": r.choice([1, 2, 4])}},
        }
        self.strategy = draw[self.kind]()
        if self.kind in ("ddp", "fsdp", "fsdp2") and accumulates > 1:
            self.strategy[self.kind]["gradient_accumulation"] = accumulates
            self.repeats = accumulates

    def draw_layout(self, r):
        """Degrees whose product divides the ranks."""
        self.kind = "layout"
        left = self.ranks
        degrees = {}
        for name, choices in (("tensor_parallel", [1, 2, 4]), ("pipeline_parallel", [1, 2, 4]),
                              ("context_parallel", [1, 1, 2])):
            fitting = [one for one in choices if left % one == 0]
            degrees[name] = r.choice(fitting)
            left //= degrees[name]
        experts = r.random() < 0.4
        if experts:
            degrees["context_parallel"] = 1
            left = self.ranks // (degrees["tensor_parallel"] * degrees["pipeline_parallel"])
            fitting = [one for one in (1, 2, 4, 8) if left % one == 0]
            degrees["expert_parallel"] = r.choice(fitting)
        self.batch = 1
        self.precision = "bf16_master"
        stages = degrees["pipeline_parallel"]
        self.repeats = stages * r.choice([1, 2, 8]) if stages > 1 else r.choice([1, 4, 24])
        self.strategy = {r.choice(["ddp", "zero"]): {}}
        if "zero" in self.strategy:
            self.strategy["zero"] = {"stage": 1}
        self.strategy.update({name: one for name, one in degrees.items() if one > 1})
        if degrees["tensor_parallel"] > 1 and (experts or r.random() < 0.6):
            self.strategy["sequence_parallel"] = True
        if stages > 1:
            schedule = r.choice(["1f1b", "1f1b", "gpipe", "interleaved_1f1b", "zero_bubble"])
            self.strategy["pipeline"] = {"schedule": schedule}
        self.strategy["micro_batches"] = self.repeats
        self.model = {"transformer": self.draw_transformer(r, experts, layers=2 * stages * r.choice([1, 2])),
                      "sequence": 256, "batch_per_gpu": 1, "precision": self.precision}
        self.model["transformer"].pop("tie_embeddings", None)
        if r.random() < 0.3:
            self.model["activation_checkpointing"] = "per_unit"
        self.draw_adapters(r, attention_only=experts)
        self.timed = False

    def draw_adapters(self, r, attention_only=False):
        """Low-rank adapters of a transformer, of some of them beside weights of fewer bits."""
        if r.random() >= 0.3:
            return
        targets = [["o"], ["q", "v"]] + ([] if attention_only else [["down"], ["all_linear"]])
        self.model["lora"] = {"rank": r.choice([4, 8, 64]), "targets": r.choice(targets)}
        if r.random() < 0.4:
            self.model["lora"]["modules_to_save"] = r.choice([["lm_head"], ["embeddings"]])
        if r.random() < 0.4:
            self.model["quantization"] = r.choice(["nf4", "int8"])

    def links(self):
        """Kinds of links that there are."""
        return [name for name in self.rates if name != "nic" or self.nodes > 1]

    def written(self, units):
        """Of a quantity, its text: units of the quantities that are written in others are a map."""
        rate, memory, time = units.get("rate", 1), units.get("memory", 1), units.get("time", 1)
        return {
            "rate": lambda one: "%.10gGBps" % one if rate == 1 else "%.10gGbps" % (8 * one),
            "memory": lambda one: "%dGiB" % one if memory == 1 else "%dMiB" % (1024 * one),
            "time": lambda one: "%.10gus" % one if time == 1 else "%.10gns" % (1000 * one),
        }

    def cluster(self, units):
        form = self.written(units)
        node = {"gpus": self.gpus, "gpu": self.gpu, "memory": form["memory"](self.memory), "nics": self.nics,
                "nic": form["rate"](self.rates["nic"]), "nic_latency": form["time"](self.latency), "transport": "rdma",
                "speed": self.speed}
        if self.inner == "nvlink":
            node["nvlink"] = form["rate"](self.rates["nvlink"])
        else:
            node["pcie"] = form["rate"](self.rates["pcie"])
            node["pcie_peer_to_peer"] = self.inner == "pcie"
            # Its default goes by PCIe's generation.
            if self.inner == "staged":
                node["staged_rate"] = form["rate"](21 * self.host)
        if self.host != 1:
            node["host_bandwidth"] = form["rate"](100 * self.host)
        fabric = {"star": {}}
        if self.fabric != "star":
            fabric = {self.fabric: self.fabric_shape(form)}
        return {"nodes": self.nodes, "node": node, "fabric": fabric}

    def fabric_shape(self, form):
        shape = {"bandwidth": form["rate"](self.rates["fabric"]), "latency": form["time"](self.cable_latency)}
        if self.fabric == "sites":
            shape["nodes"] = self.site
        elif self.fabric == "rail":
            shape.update({"nodes": self.site, "uplinks": 1})
        elif self.fabric == "torus":
            shape["dimensions"] = [self.site, self.nodes // self.site] if self.site > 1 else [self.nodes]
        else:
            shape.update({"down": [self.site, self.nodes // self.site], "up": [1, 1], "links": [1, 1]})
        return shape

    def text(self, **units):
        run = {"steps": self.steps, "warmup_steps": 1, "fidelity": self.fidelity, "play": self.play}
        if self.steady:
            run["speed_spread"] = 0
        if self.jitter != "default":
            run["jitter"] = self.jitter
        lines = ["model: " + flow(self.model), "cluster: " + flow(self.cluster(units)),
                 "strategy: " + flow(self.strategy), "run: " + flow(run)]
        if not self.timed:
            lines.append("optimizer: " + self.optimizer)
        return "\n".join(lines) + "\n"
