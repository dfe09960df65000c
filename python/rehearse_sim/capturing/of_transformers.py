"""Networks of transformers by a config: its own class, with the inputs and the loss of its task."""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path
from typing import Any

from .plans import Plan, UnknownNetwork, mean, quiet_tries

#: Of a sample where nobody says another: what the network takes, and no more than this.
MOST_TOKENS = 4096
AUDIO_SAMPLES = 160_000  # ten seconds at 16 kHz
#: Tried in turn where a config names no class: what `transformers` calls each task.
TASKS = ("ForSpeechSeq2Seq", "ForSeq2SeqLM", "ForCTC", "ForMaskedLM", "ForCausalLM", "ForImageTextToText",
         "ForZeroShotImageClassification", "ForImageClassification", "")  # fmt: skip
#: What a class needs and its default config lacks, as its publisher's model has it: LFM2-8B-A1B.
LACKING: dict[str, dict[str, Any]] = {"lfm2_moe": {"num_hidden_layers": 24, "layer_types": [
    "full_attention" if i in (2, 6, 10, 14, 18, 21) else "conv" for i in range(24)]}}  # fmt: skip
#: A config with experts that are multiplied together.
EXPERTS = re.compile(r'"(num_experts|num_local_experts|n_routed_experts|moe_num_experts)": *[1-9]')


def config_text(name: str) -> str:
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


def default_text(kind: str) -> str:
    """The config that `transformers` takes for a model_type where nobody says another."""
    import transformers

    if kind not in transformers.CONFIG_MAPPING:
        raise UnknownNetwork(f"transformers {transformers.__version__} has no model_type {kind!r}")
    try:
        made = transformers.CONFIG_MAPPING[kind](**LACKING.get(kind, {}))
        return str(made.to_json_string(use_diff=False))
    except Exception as why:
        first = (str(why).splitlines() or [""])[0].partition(". ")[0]
        raise UnknownNetwork(
            f"transformers {transformers.__version__} has no config for {kind!r} by itself "
            f"({type(why).__name__}: {first}): name one that people train, as hf:ORG/NAME"
        ) from why


def _numbers(value: Any) -> Any:
    """Infinities, which `transformers` writes as {"__float__": "Infinity"}, as numbers."""
    if isinstance(value, dict):
        if set(value) == {"__float__"}:
            return float(value["__float__"])
        return {key: _numbers(each) for key, each in value.items()}
    return [_numbers(each) for each in value] if isinstance(value, list) else value


def _config_of(text: str) -> Any:
    import transformers

    settings = _numbers(json.loads(text))
    kind = settings.pop("model_type", "")
    if kind not in transformers.CONFIG_MAPPING:
        raise UnknownNetwork(
            f"transformers {transformers.__version__} has no model_type {kind!r}: "
            "a later one may, and rehearse_sim.capture takes the module itself"
        )
    config = transformers.CONFIG_MAPPING[kind].from_dict(settings)
    if getattr(config, "use_cache", False):
        config.use_cache = False  # as transformers' Trainer trains from 5.0 on
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


#: What a network may be called with, by the names of forward's parameters.
INPUTS = {"input_ids", "pixel_values", "input_features", "input_values", "past_values"}


def _classes_beside(config: Any) -> list[type]:
    """Classes that stand in the config's own package and take it, those with a head first."""
    import importlib

    from transformers import PreTrainedModel

    place = type(config).__module__.rpartition(".")
    try:
        module = importlib.import_module(f"{place[0]}.{place[2].replace('configuration_', 'modeling_')}")
    except ImportError:
        return []
    found = [each for each in vars(module).values() if isinstance(each, type) and issubclass(each, PreTrainedModel)
             and each.config_class is type(config) and set(inspect.signature(each.forward).parameters) & INPUTS]  # fmt: skip
    return sorted(found, key=lambda each: ("For" not in each.__name__, not each.__name__.endswith("Model")))


def _takes(made: Any, config: Any) -> bool:
    """Whether the class is of this config: that of text alone may stand for one of images, too."""
    own = getattr(made, "config_class", None)
    return own is None or isinstance(config, own)


def _class_of(config: Any, name: str) -> type:
    import transformers

    for wanted in config.architectures or ():
        if hasattr(transformers, wanted):
            return getattr(transformers, wanted)  # type: ignore[no-any-return]
    known: list[type] = []
    for task in TASKS:
        mapping = getattr(getattr(transformers, f"AutoModel{task}", None), "_model_mapping", {})
        if type(config) in mapping:
            found = mapping[type(config)]
            known += found if isinstance(found, (tuple, list)) else (found,)
    known = known or _classes_beside(config)
    if known:
        return next((each for each in known if _takes(each, config)), known[0])
    raise UnknownNetwork(f"{name}: its config names no class (`architectures`), and no task has one")


def _first(config: Any, *names: str) -> Any:
    """The first of these that the config, or a part of it, has."""
    parts = [config, *(getattr(config, part, None) for part in ("text_config", "vision_config", "audio_config", "vlm_config"))]
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


def _scores(output: Any) -> Any:
    """A CTC head's loss up to its lattice, whose size is a matter of values: probabilities in fp32."""
    import torch

    return -torch.nn.functional.log_softmax(output.logits, dim=-1, dtype=torch.float32).mean()


Shapes = dict[str, tuple[tuple[int, ...], str]]


def _shapes(forward: Any, config: Any, tokens: int) -> list[Shapes]:
    """Shapes behind the batch, and kinds, of what a forward takes, by name; the likeliest first.
    Images may come several to a sample, and a network of images and text may train on text."""
    image = _image(config)
    mel = _first(config, "num_mel_bins", "feature_size") or 80
    known: Shapes = {
        "input_ids": ((tokens,), "long"),
        "pixel_values": (image, "float"),
        "input_features": ((mel, 2 * (_first(config, "max_source_positions") or 1500)), "float"),
        "input_values": ((AUDIO_SAMPLES,), "float"),
        "past_values": ((_first(config, "context_length", "horizon_length") or 512,), "float"),
    }
    takes = inspect.signature(forward).parameters
    found = {name: known[name] for name in known if name in takes}
    if not found:
        return []
    ways = [found]
    if "pixel_values" in found:
        ways.append({**found, "pixel_values": ((1, *image), "float")})
    if "input_ids" in found and len(found) > 1:
        ways.append({"input_ids": found["input_ids"]})
    if "input_values" in found:
        ways.append({**found, "input_values": ((1, AUDIO_SAMPLES), "float")})
    if "input_features" in found:
        ways.append({**found, "input_features": (found["input_features"][0][::-1], "float")})
    return ways


#: How `transformers` says that the text has no places for an image's features.
FEATURES = re.compile(r"do not match.*features:? ?(\d+)", re.DOTALL)


def _fitting(make: Any, ways: list[Shapes], given: Any, precision: str) -> tuple[Shapes, int]:
    """The first way that the network runs in, and how many tokens of its text stand for images.
    Experts run in the type of their weights alone, which `precision` says."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode

    from . import cuda_rules
    from .capture import PURE, convert, narrow
    from .values import Known

    if len(ways) == 1:
        return ways[0], 0
    first: Exception | None = None
    with quiet_tries(), FakeTensorMode(allow_non_fake_inputs=True), cuda_rules.as_on_cuda():
        with cuda_rules.building():
            module = make().train()
        if precision in PURE:
            convert(module, PURE[precision])
        for shapes in ways:
            places = 0
            for _ in range(2):  # without places for images, and with as many as it asks for
                try:
                    with torch.no_grad(), Known(), cuda_rules.transformers_masks():
                        batch = given(shapes, places, 2)
                        module(**narrow(batch, PURE[precision]) if precision in PURE else batch)
                    return shapes, places
                except Exception as why:
                    first = first or why
                    asked = FEATURES.search(str(why))
                    if asked is None or places:
                        break
                    places = int(asked[1]) // 2
    assert first is not None
    raise first


def plan_of(text: str, name: str, asked: int) -> Plan:
    import torch

    config = _config_of(text)
    switched = _without_chance(config)
    made: Any = _class_of(config, name)
    kind, tokens = made.__name__, _tokens(config, asked)
    takes = inspect.signature(made.forward).parameters
    ways = _shapes(made.forward, config, tokens)
    if not ways:
        raise UnknownNetwork(
            f"{name}: {kind}.forward takes {', '.join(list(takes)[1:6])}: "
            "rehearse_sim.capture is told its inputs"
        )
    precision = "bf16_pure" if EXPERTS.search(text) else "bf16"
    has_labels = "labels" in takes
    whole = re.search(r"For(CausalLM|MaskedLM|ConditionalGeneration|PreTraining|Seq2SeqLM)|LMHead", kind)
    labels: tuple[int, ...] | None = None
    if has_labels and whole:
        labels = (tokens,)
    elif has_labels and ("Classification" in kind) and "Token" not in kind:
        labels = ()
    elif has_labels and "TokenClassification" in kind:
        labels = (tokens,)

    image_token = _first(config, "image_token_id", "image_token_index")

    def given(shapes: Shapes, places: int, batch: int) -> dict[str, Any]:
        made: dict[str, Any] = {
            one: torch.full((batch, *shape), int(of == "float"), dtype=getattr(torch, of))
            for one, (shape, of) in shapes.items()
        }
        if places and image_token is not None:
            made["input_ids"][:, :places] = image_token
        if labels is not None:
            made["labels"] = torch.zeros(batch, *labels, dtype=torch.long)
        if "return_loss" in takes:
            made["return_loss"] = True
        return made

    shapes, places = _fitting(lambda: made(config), ways, given, precision)

    def inputs(batch: int) -> dict[str, Any]:
        return given(shapes, places, batch)

    own = labels is not None or "return_loss" in takes
    speech = kind.endswith("ForCTC")
    said = ", ".join(f"{one} {shape}" for one, (shape, _) in shapes.items())
    import transformers

    note = f"captured from transformers {transformers.__version__}: {kind} with {said}"
    if places:
        note += f", {places} of them for an image"
    elif "pixel_values" in ways[0] and "pixel_values" not in shapes:
        note += ", without images"
    if switched:
        note += f"; without {', '.join(switched)}, which goes by chance"
    if speech:
        note += "; CTC's loss up to its lattice"
        return Plan(lambda: made(config), inputs, None, lambda output, *_: _scores(output), note, precision)
    if not own:
        note += "; without a loss of its own: the mean of its outputs"
    return Plan(lambda: made(config), inputs, None, None if own else mean, note, precision)
