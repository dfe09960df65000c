"""Facts about a process of the recorded run, as plain JSON: names of machines become hashes, and
texts that could hold a path, a host or a secret are left out."""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import re
import sys
from typing import Any

# Variables that change how fast a run is. Values with a path or an address are left out.
FLAGS = re.compile(
    r"^(NCCL_|TORCH_NCCL_|GLOO_|FI_|UCX_|OMP_|MKL_|KMP_|PYTORCH_|CUDA_DEVICE|CUDA_LAUNCH|NVTE_|"
    r"MALLOC_|TORCH_COMPILE|ACCELERATE_|FSDP_|XLA_FLAGS)"
)
SECRET = re.compile(r"TOKEN|KEY|SECRET|PASS|HOST|ADDR|FILE|PATH|DIR|URL|ID$", re.IGNORECASE)
PLAIN = re.compile(r"^[\w.,:=+-]{1,64}$")
PACKAGES = (
    "torch", "transformers", "accelerate", "deepspeed", "lightning", "pytorch_lightning",
    "torchtitan", "torchtune", "megatron", "nemo", "trl", "peft", "axolotl", "llamafactory",
    "diffusers", "timm", "torchvision", "flash_attn", "transformer_engine", "apex", "xformers",
    "bitsandbytes", "liger_kernel", "composer", "colossalai", "fairscale", "datasets", "numpy",
)  # fmt: skip


def short_hash(text: str, salt: str) -> str:
    return hashlib.sha256((salt + text).encode()).hexdigest()[:8]


def read_text(place: str) -> str:
    with contextlib.suppress(OSError, UnicodeDecodeError), open(place) as file:
        return file.read().strip()
    return ""


def plain(value: Any) -> Any:
    """A number, a truth or one word; None for what may say more than a setting."""
    if isinstance(value, (bool, int, float)):
        return value
    value = getattr(value, "value", value)  # of an enumeration
    return value if isinstance(value, str) and PLAIN.match(value) else None


def plain_fields(given: dict[str, Any]) -> dict[str, Any]:
    found = {}
    for name, value in given.items():
        if name.startswith("_") or SECRET.search(name):
            continue
        kept = plain_fields(value) if isinstance(value, dict) else plain(value)
        if kept is not None and kept != {}:
            found[name] = kept
    return found


# The process and its machine ---------------------------------------------------------------------


def of_process(torch: Any, settings: dict[str, Any]) -> dict[str, Any]:
    salt = settings["salt"]
    rank, world = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        rank, world = torch.distributed.get_rank(), torch.distributed.get_world_size()
    name = platform.node()
    space = ""
    with contextlib.suppress(OSError):
        space = os.readlink("/proc/self/ns/net")
    machine = short_hash(read_text("/proc/sys/kernel/random/boot_id") or name, salt)
    found = {
        "rank": rank,
        "world": world,
        "machine": machine,
        "node": short_hash(f"{name} {space} {machine}", salt),
        "device": device(torch),
        "threads": torch.get_num_threads(),
        "cores": len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else (os.cpu_count() or 1),  # fmt: skip
        "processor": processor(),
        "memory_bytes": memory_of_machine(),
        "versions": versions(torch),
        "flags": {
            key: value
            for key, value in sorted(os.environ.items())
            if FLAGS.match(key) and not SECRET.search(key) and PLAIN.match(value)
        },  # fmt: skip
        "nics": nics(),
        "arguments": arguments(),
        "command": words(sys.argv[1:]),
    }
    if settings.get("names"):
        found["host"] = name
    return found


def device(torch: Any) -> dict[str, Any]:
    if not (torch.cuda.is_available() and torch.cuda.is_initialized()):
        return {"kind": "cpu"}
    own = torch.cuda.get_device_properties(torch.cuda.current_device())
    return {
        "kind": "cuda", "name": own.name, "memory_bytes": own.total_memory,
        "count": torch.cuda.device_count(),
    }  # fmt: skip


def processor() -> str:
    for line in read_text("/proc/cpuinfo").splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def memory_of_machine() -> int:
    for line in read_text("/proc/meminfo").splitlines():
        if line.startswith("MemTotal"):
            return int(line.split()[1]) * 1024
    return 0


def nics() -> list[dict[str, Any]]:
    """Rates of ports as the kernel states them, in Mbit/s; of InfiniBand in Gbit/s."""
    found: list[dict[str, Any]] = []
    with contextlib.suppress(OSError):
        for name in sorted(os.listdir("/sys/class/net")):
            speed = read_text(f"/sys/class/net/{name}/speed")
            if speed.isdigit() and os.path.exists(f"/sys/class/net/{name}/device"):
                found.append({"kind": "ethernet", "mbit_s": int(speed)})
    with contextlib.suppress(OSError):
        for name in sorted(os.listdir("/sys/class/infiniband")):
            for port in sorted(os.listdir(f"/sys/class/infiniband/{name}/ports")):
                rate = read_text(f"/sys/class/infiniband/{name}/ports/{port}/rate").split()
                if rate:
                    found.append({"kind": "infiniband", "gbit_s": float(rate[0])})
    return found


def versions(torch: Any) -> dict[str, str]:
    from importlib import metadata

    found = {"python": platform.python_version(), "torch": str(torch.__version__),
             "cuda": str(torch.version.cuda or "none")}  # fmt: skip
    for name in PACKAGES:
        if name in sys.modules and name != "torch":
            with contextlib.suppress(Exception):
                own = getattr(sys.modules[name], "__version__", None)
                found[name] = str(own or metadata.version(name.replace("_", "-")))
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        with contextlib.suppress(Exception):
            found["nccl"] = ".".join(map(str, torch.cuda.nccl.version()))
        with contextlib.suppress(Exception):
            found["cudnn"] = str(torch.backends.cudnn.version())
        driver = re.search(r"Module\s+([\d.]+)", read_text("/proc/driver/nvidia/version"))
        if driver:
            found["driver"] = driver.group(1)
    return found


def words(given: list[str]) -> list[str]:
    """Options and numbers of the script: other words may be paths or names."""
    kept = []
    for word in given:
        option = re.match(r"^(--?[\w-]+)(=([\w.+-]+))?$", word)
        number = re.match(r"^[\d.]+(e-?\d+)?$", word)
        kept.append(word if option or number or word in ("true", "false", "True", "False") else "…")
    return kept[:200]


def arguments() -> dict[str, Any]:
    """Of frameworks that keep them in one place."""
    found: dict[str, Any] = {}
    for name in ("megatron.training.global_vars", "megatron.global_vars"):
        if name in sys.modules:
            with contextlib.suppress(Exception):
                found["megatron"] = plain_fields(vars(sys.modules[name].get_args()))
    return found


def memory(torch: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    with contextlib.suppress(Exception):
        import resource

        found["resident_peak_bytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        own = torch.cuda.memory_stats()
        for key in ("allocated_bytes.all.peak", "reserved_bytes.all.peak", "num_alloc_retries",
                    "num_ooms", "inactive_split_bytes.all.peak",
                    "allocated_bytes.all.current"):  # fmt: skip
            found[key.replace(".", "_")] = int(own.get(key, 0))
    return found


def shapes_of(torch: Any, data: Any) -> list[list[Any]]:
    """Of the tensors in it: their type, then their dimensions."""
    shapes: list[list[Any]] = []

    def visit(each: Any, depth: int) -> None:
        if isinstance(each, torch.Tensor):
            shapes.append([str(each.dtype).replace("torch.", ""), *each.shape])
        elif isinstance(each, dict) or hasattr(each, "items"):
            for inner in list(each.values())[:16]:
                visit(inner, depth + 1)
        elif isinstance(each, (list, tuple)) and depth < 4:
            for inner in each[:16]:
                visit(inner, depth + 1)

    visit(data, 0)
    return shapes[:8]
