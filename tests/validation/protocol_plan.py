"""The cases that the testbed runs: each as options of the real run, and as a scenario that predicts it."""

import csv
import dataclasses
import pathlib
import random

# Of gradients in fp32, and of one sample on one core of 2 GHz or so: for estimates of time only.
MEGABYTES = {"small_cnn": 2.18, "small_mlp": 1.61, "densenet121": 31.9}
SECONDS_PER_SAMPLE = {"small_cnn": 0.0003, "small_mlp": 0.00005, "densenet121": 0.06}
# Of each host of a real run, before its first step; on two cores.
START_S = 1.0
# Of TCP's payload in what passes a link: 1448 bytes of each frame of 1514.
PAYLOAD = 1448 / 1514
SSP_STALENESS = 2
MEASURE_S = 9
SCENARIOS = ("hosts.yaml", "unequal_hosts.yaml", "served_hosts.yaml")
ORDER_SEED = 20


@dataclasses.dataclass(frozen=True)
class Case:
    """One row of plan.csv."""

    strategy: str
    model: str
    batch: int
    hosts: int
    rates_mbit: tuple
    burst: str
    slow: str
    jobs: int
    uplink_mbit: int
    seen: str  # calibrated, modelled (while mechanisms were looked for), or nothing: held out

    @property
    def name(self):
        rates = "+".join(str(rate) for rate in self.rates_mbit)
        parts = [self.strategy, self.model, f"b{self.batch}", f"{self.hosts}hosts", f"{rates}mbit", self.burst]
        if self.slow:
            parts.append("slow" + self.slow.replace(":", "by"))
        if self.jobs > 1:
            parts.append(f"{self.jobs}jobs_over_{self.uplink_mbit}mbit")
        return "_".join(parts)

    @property
    def served(self):
        return self.strategy.startswith("ps-")

    @property
    def trainers(self):
        return self.hosts - 1 if self.served else self.hosts

    @property
    def scenario(self):
        if self.served:
            return "served_hosts.yaml"
        return "unequal_hosts.yaml" if len(self.rates_mbit) > 1 else "hosts.yaml"

    @property
    def step_estimate_s(self):
        """Roughly how long a step takes: for the number of steps and the time left."""
        rate = min(self.rates_mbit)
        if self.jobs > 1:
            rate = min(rate, self.uplink_mbit / self.jobs)
        transfer = MEGABYTES[self.model] * 8 / (rate * PAYLOAD)
        compute = SECONDS_PER_SAMPLE[self.model] * self.batch * max(1.0, self.trainers * self.jobs / 2)
        delay = float(self.slow.split(":")[1]) / 1e3 if self.slow else 0.0
        if self.strategy == "ps-sync":
            return compute + 2 * self.trainers * transfer + delay
        if self.served:
            return max(self.trainers * transfer, 2 * transfer + compute) + delay / 2
        passes = 3 if self.strategy == "fsdp" else 2
        return compute + passes * (self.hosts - 1) / self.hosts * transfer + delay

    @property
    def unordered(self):
        """Workers go on by themselves, and who comes after whom takes some steps to settle."""
        return self.strategy in ("ps-ssp", "ps-async")

    @property
    def steps(self):
        return max(40 if self.unordered else 10, min(60, round(MEASURE_S / self.step_estimate_s)))

    @property
    def warmup(self):
        return 20 if self.unordered else 6 if self.steps >= 30 else 3

    @property
    def estimate_s(self):
        return START_S * self.hosts * self.jobs + (self.steps + self.warmup) * self.step_estimate_s

    @property
    def group_rates_mbit(self):
        """Of the two pairs of hosts of unequal_cluster.yaml."""
        first, second = self.rates_mbit[:2], self.rates_mbit[2:]
        if len(self.rates_mbit) != 4 or len(set(first)) != 1 or len(set(second)) != 1:
            raise ValueError(f"{self.name}: unequal rates are those of two pairs of hosts, such as 400+400+100+100")
        return [first[0], second[0]]

    def testbed_options(self):
        options = ["--hosts", str(self.hosts), "--rate", ",".join(f"{rate}mbit" for rate in self.rates_mbit),
                   "--burst", self.burst]
        if self.jobs > 1:
            options += ["--jobs", str(self.jobs), "--uplink", f"{self.uplink_mbit}mbit"]
        return options

    def step_options(self):
        options = ["--strategy", self.strategy, "--model", self.model, "--image", "32", "--batch", str(self.batch),
                   "--steps", str(self.steps), "--warmup", str(self.warmup), "--threads", "1", "--cpu", "--quiet"]
        if self.served:
            options.append("--dedicated-server")
        if self.strategy == "ps-ssp":
            options += ["--staleness", str(SSP_STALENESS)]
        if self.slow:
            options += ["--slow", self.slow]
        return options

    def shared_uplink(self):
        """Like jobs on two switches: host i of each is at switch i modulo 2, as in tests/testbed/testbed."""
        half = (self.hosts + 1) // 2
        leaf = self.jobs * half
        nodes = [[host % 2 * leaf + job * half + host // 2 for host in range(self.hosts)] for job in range(self.jobs)]
        others = ", ".join(f"{{nodes: {of_job}}}" for of_job in nodes[1:])
        cable = f"bandwidth: {self.uplink_mbit}Mbps, latency: 0s, burst: {self.burst.replace('kb', 'KiB')}"
        return [f"cluster.nodes={2 * leaf}", f"cluster.nic={self.rates_mbit[0]}Mbps",
                f"cluster.fabric={{fat_tree: {{down: [{leaf}, 2], up: [1, 1], links: [1, 1], {cable}}}}}",
                f"jobs={{nodes: {nodes[0]}, others: [{others}]}}"]

    def overrides(self, steps, warmup, speed=1):
        """What `rehearse run --set` takes; with the speed of the machine's cores, over what they were calibrated with."""
        result = [f"model.use={self.model}", f"model.batch_per_gpu={self.batch}",
                  f"run.steps={steps}", f"run.warmup_steps={warmup}"]
        if self.jobs > 1:
            result += self.shared_uplink()
        elif len(self.rates_mbit) == 1:
            result += [f"cluster.nodes={self.trainers}", f"cluster.nic={self.rates_mbit[0]}Mbps"]
        else:
            result.append(f"cluster.nic=[{', '.join(f'{rate}Mbps' for rate in self.group_rates_mbit)}]")
        result.append(f"cluster.nic_burst={self.burst.replace('kb', 'KiB')}")
        if self.served:
            staleness = {"ps-sync": "0", "ps-ssp": str(SSP_STALENESS), "ps-async": "unbounded"}[self.strategy]
            result.append(f"strategy.ps.staleness={staleness}")
        else:
            result.append(f"strategy={{{self.strategy}: {{}}}}")
        if speed != 1:
            result.append(f"cluster.speed={speed}")
        if self.slow:
            rank, delay_ms = self.slow.split(":")
            result.append(f"run.stragglers=[{{rank: {rank}, delay: {delay_ms}ms}}]")
        return result


def read_plan(file=pathlib.Path(__file__).parent / "plan.csv"):
    with open(file, newline="", encoding="utf-8") as rows:
        return [Case(strategy=row["strategy"], model=row["model"], batch=int(row["batch"]), hosts=int(row["hosts"]),
                     rates_mbit=tuple(int(rate) for rate in row["rate_mbit"].split("+")), burst=row["burst"],
                     slow=row["slow"], jobs=int(row["jobs"] or 1), uplink_mbit=int(row["uplink_mbit"] or 0),
                     seen=row["seen"]) for row in csv.DictReader(rows)]


def in_random_order(cases):
    """Always the same one: what drifts in time then is no strategy's error."""
    shuffled = list(cases)
    random.Random(ORDER_SEED).shuffle(shuffled)
    return shuffled
