"""Networks that libraries have by name: transformers' by config or id, torchvision's and timm's.

Their own class is built on tensors without numbers, runs with the inputs and the loss that it
usually trains with, and what it calls is written once: the same name, library and sizes are read
from a cache of files.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import inspect
import json
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LIBRARIES = {"hf": "transformers", "torchvision": "torchvision", "timm": "timm"}
#: Of a sample where nobody says another: what the network takes, and no more than this.
MOST_TOKENS = 4096
AUDIO_SAMPLES = 160_000  # ten seconds at 16 kHz
#: Tried in turn where a config names no class: what `transformers` calls each task.
TASKS = ("ForSpeechSeq2Seq", "ForSeq2SeqLM", "ForCTC", "ForMaskedLM", "ForCausalLM", "ForImageTextToText",
         "ForZeroShotImageClassification", "ForImageClassification", "")  # fmt: skip


#: A config with experts that are multiplied together.
EXPERTS = re.compile(r'"(num_experts|num_local_experts|n_routed_experts|moe_num_experts)": *[1-9]')


class UnknownNetwork(Exception):
    """No network of this name, or none that can be run without being told more."""


@dataclass
class Plan:
    """How a named network is run."""

    make: Callable[[], Any]
    inputs: Callable[[int], Any]
    targets: Callable[[int], Any] | None
    loss: Callable[..., Any] | None
    note: str  #: whose class it is, and what it is run with


def cache_folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rehearse-sim/captured"


def _split(name: str) -> tuple[str, str]:
    library, colon, rest = name.partition(":")
    if not colon:
        return "hf", name
    if library not in LIBRARIES:
        raise UnknownNetwork(
            f"{name}: no library {library!r}: one of {', '.join(LIBRARIES)}, as torchvision:swin_t"
        )
    return library, rest


def _library(library: str) -> str:
    package = LIBRARIES[library]
    if not importlib.util.find_spec(package):
        raise UnknownNetwork(f"{package} is not installed in this Python: pip install {package}")
    return f"{package} {importlib.metadata.version(package)}"


def _config_text(name: str) -> str:
    """The config.json of a file, a folder or an id of the hub, which is fetched where it can be."""
    place = Path(name)
    if place.is_dir():
        place /= "config.json"
    if place.is_file():
        return place.read_text()
    from transformers import AutoConfig

    try:
        return str(AutoConfig.from_pretrained(name).to_json_string(use_diff=False))
    except Exception as why:
        first = str(why).splitlines()[0] if str(why) else type(why).__name__
        raise UnknownNetwork(
            f"{name}: neither a file nor a config of the hub that can be had: {first}"
        ) from why


# --- transformers ---------------------------------------------------------------------------------


def _config_of(text: str) -> Any:
    import transformers

    settings = json.loads(text)
    kind = settings.pop("model_type", "")
    if kind not in transformers.CONFIG_MAPPING:
        raise UnknownNetwork(
            f"transformers {transformers.__version__} has no model_type {kind!r}: "
            "a later one may, and rehearse_sim.capture takes the module itself"
        )
    config = transformers.CONFIG_MAPPING[kind].from_dict(settings)
    # Which token begins a sequence, and which fills it up, changes no kernel.
    for token in ("decoder_start_token_id", "pad_token_id"):
        if getattr(config, "is_encoder_decoder", False) and getattr(config, token, None) is None:
            setattr(config, token, 0)
    return config


def _without_chance(config: Any) -> list[str]:
    """Switches off what chooses by chance which layers run, or what is masked: whole layers that are
    left out, and spectra that are blotted out, which ask for values."""
    switched = [name for name in vars(config) if name.endswith("layerdrop") and getattr(config, name)]
    for name in switched:
        setattr(config, name, 0.0)
    if getattr(config, "apply_spec_augment", False):
        config.apply_spec_augment = False
        switched.append("apply_spec_augment")
    return switched


def _class_of(config: Any, name: str) -> type:
    import transformers

    for wanted in config.architectures or ():
        if hasattr(transformers, wanted):
            return getattr(transformers, wanted)  # type: ignore[no-any-return]
    for task in TASKS:
        mapping = getattr(getattr(transformers, f"AutoModel{task}", None), "_model_mapping", {})
        if type(config) in mapping:
            found = mapping[type(config)]
            return found[0] if isinstance(found, (tuple, list)) else found  # type: ignore[no-any-return]
    raise UnknownNetwork(f"{name}: its config names no class (`architectures`), and no task has one")


def _first(config: Any, *names: str) -> Any:
    """The first of these that the config, or a part of it, has."""
    parts = [config, *(getattr(config, part, None) for part in ("text_config", "vision_config", "audio_config"))]
    for one in names:
        for part in parts:
            if getattr(part, one, None) is not None:
                return getattr(part, one)
    return None


def _image(config: Any) -> tuple[int, int, int]:
    size = _first(config, "image_size") or 224
    if isinstance(size, dict):
        size = (size.get("height", 224), size.get("width", 224))
    height, width = (size, size) if isinstance(size, int) else size
    return _first(config, "num_channels") or 3, height, width


def _tokens(config: Any, asked: int) -> int:
    known = _first(config, "max_position_embeddings", "n_positions", "max_target_positions", "max_seq_len")
    if asked:
        return asked
    padding = 2 if known and known % 64 == 2 else 0  # RoBERTa's and its like count two positions more
    return min(known - padding if known else 512, MOST_TOKENS)


def _mean(output: Any) -> Any:
    """Where a network has no loss of its own: the mean of what it gives."""
    import torch

    found = [each for each in (output.values() if hasattr(output, "values") else [output])
             if isinstance(each, torch.Tensor) and each.is_floating_point()]  # fmt: skip
    if not found:
        raise UnknownNetwork("its output has no tensor of numbers: rehearse_sim.capture takes a `loss`")
    return sum(each.float().mean() for each in found)


def _scores(output: Any) -> Any:
    """A CTC head's loss up to its lattice, whose size is a matter of values: probabilities in fp32."""
    import torch

    return -torch.nn.functional.log_softmax(output.logits, dim=-1, dtype=torch.float32).mean()


def _shapes(forward: Any, config: Any, tokens: int) -> dict[str, tuple[tuple[int, ...], str]]:
    """Shapes behind the batch, and kinds, of what a forward takes, by name."""
    known: dict[str, tuple[tuple[int, ...], str]] = {
        "input_ids": ((tokens,), "long"),
        "pixel_values": (_image(config), "float"),
        "input_features": ((_first(config, "num_mel_bins", "feature_size") or 80,
                            2 * (_first(config, "max_source_positions") or 1500)), "float"),
        "input_values": ((AUDIO_SAMPLES,), "float"),
    }  # fmt: skip
    takes = inspect.signature(forward).parameters
    return {name: known[name] for name in known if name in takes}


def _transformers(text: str, name: str, asked: int) -> Plan:
    import torch

    config = _config_of(text)
    switched = _without_chance(config)
    made = _class_of(config, name)
    kind, tokens = made.__name__, _tokens(config, asked)
    takes = inspect.signature(made.forward).parameters
    shapes = _shapes(made.forward, config, tokens)
    if not shapes:
        raise UnknownNetwork(
            f"{name}: {kind}.forward takes {', '.join(list(takes)[1:6])}: "
            "rehearse_sim.capture is told its inputs"
        )
    has_labels = "labels" in takes
    whole = re.search(r"For(CausalLM|MaskedLM|ConditionalGeneration|PreTraining|Seq2SeqLM)|LMHead", kind)
    labels: tuple[int, ...] | None = None
    if has_labels and whole:
        labels = (tokens,)
    elif has_labels and ("Classification" in kind) and "Token" not in kind:
        labels = ()
    elif has_labels and "TokenClassification" in kind:
        labels = (tokens,)

    def inputs(batch: int) -> dict[str, Any]:
        given: dict[str, Any] = {
            one: torch.zeros(batch, *shape, dtype=getattr(torch, of)) for one, (shape, of) in shapes.items()
        }
        if labels is not None:
            given["labels"] = torch.zeros(batch, *labels, dtype=torch.long)
        if "return_loss" in takes:
            given["return_loss"] = True
        return given

    own = labels is not None or "return_loss" in takes
    speech = kind.endswith("ForCTC")
    said = ", ".join(f"{one} {shape}" for one, (shape, _) in shapes.items())
    import transformers

    note = f"captured from transformers {transformers.__version__}: {kind} with {said}"
    if switched:
        note += f"; without {', '.join(switched)}, which goes by chance"
    if speech:
        note += "; CTC's loss up to its lattice"
        return Plan(lambda: made(config), inputs, None, lambda output, *_: _scores(output), note)
    if not own:
        note += "; without a loss of its own: the mean of its outputs"
    return Plan(lambda: made(config), inputs, None, None if own else lambda output, *_: _mean(output), note)


# --- torchvision and timm -------------------------------------------------------------------------


def _images(make: Callable[[], Any], size: tuple[int, ...], classes: int, note: str) -> Plan:
    import torch

    return Plan(
        make, lambda batch: torch.zeros(batch, *size),
        lambda batch: torch.zeros(batch, dtype=torch.long) if classes else None, None,
        f"{note} with images of {size}",
    )  # fmt: skip


def _torchvision(name: str) -> Plan:
    import torchvision

    if name not in torchvision.models.list_models(module=torchvision.models):
        raise UnknownNetwork(
            f"torchvision {torchvision.__version__} has no classification network {name!r}: "
            "rehearse_sim.capture takes the others with their inputs"
        )
    size = 299 if name == "inception_v3" else 224
    make = torchvision.models.get_model_builder(name)

    def made() -> Any:
        more = {"init_weights": False} if name in ("googlenet", "inception_v3") else {}
        return make(weights=None, **more)

    plan = _images(made, (3, size, size), 1, f"captured from torchvision {torchvision.__version__}: {name}")
    if name in ("googlenet", "inception_v3"):  # beside the logits two or one of auxiliary heads
        import torch

        plan.loss = lambda output, targets: sum(
            torch.nn.functional.cross_entropy(each, targets) * (1 if place == 0 else 0.3)
            for place, each in enumerate(output) if each is not None
        )
    return plan


def _timm(name: str) -> Plan:
    import timm

    if not timm.is_model(name):
        raise UnknownNetwork(f"timm {timm.__version__} has no network {name!r}")
    size = tuple(timm.get_pretrained_cfg(name, allow_unregistered=True).input_size)
    return _images(lambda: timm.create_model(name, pretrained=False), size, 1,
                   f"captured from timm {timm.__version__}: {name}")  # fmt: skip


# --- the one function -----------------------------------------------------------------------------


@dataclass
class NamedCapture:
    path: Path
    note: str  #: whose class, and what it ran with
    cached: bool  #: whether it was there already


def capture_named(
    name: str,
    *,
    precision: str = "",
    sequence: int = 0,
    path: str | Path | None = None,
) -> NamedCapture:
    """A network of a library by its name, as a file that a scenario's `model: {captured: FILE}`
    names: "hf:ORG/NAME" or a folder with config.json (transformers), "torchvision:swin_t",
    "timm:convnext_large".

    `precision`: else bf16 autocast over fp32 weights; of experts, which transformers multiplies in
    the weights' own format, bf16_pure. `sequence`: tokens of a sample; else what the network takes, up to 4,096. `path`: where the file
    is written; else into a cache, from which the same question is answered at once.
    """
    library, rest = _split(name)
    version = _library(library)
    text = _config_text(rest) if library == "hf" else rest
    if not precision:
        precision = "bf16_pure" if library == "hf" and EXPERTS.search(text) else "bf16"
    own = hashlib.sha256(b"".join(each.read_bytes() for each in sorted(Path(__file__).parent.glob("*.py"))))
    asked = json.dumps([library, version, text, precision, sequence, own.hexdigest(), _torch_version()])
    key = hashlib.sha256(asked.encode()).hexdigest()[:20]
    place = Path(path) if path else cache_folder() / f"{key}.model.json"
    note = place.with_suffix(".note")
    if not path and place.exists() and note.exists():
        return NamedCapture(place, note.read_text(), True)

    from .capture import capture

    plan = {"hf": lambda: _transformers(text, name, sequence), "torchvision": lambda: _torchvision(rest),
            "timm": lambda: _timm(rest)}[library]()  # fmt: skip
    place.parent.mkdir(parents=True, exist_ok=True)
    fresh = place.with_suffix(f".{os.getpid()}")
    called = re.sub(r"[^A-Za-z0-9_.-]+", "_", Path(rest).stem if library == "hf" else rest) or library
    capture(plan.make, plan.inputs, targets=plan.targets, loss=plan.loss, precision=precision,
            name=called, path=fresh)  # fmt: skip
    fresh.replace(place)
    if not path:
        note.write_text(plan.note)
    return NamedCapture(place, plan.note, False)


def _torch_version() -> str:
    return importlib.metadata.version("torch") if importlib.util.find_spec("torch") else ""
