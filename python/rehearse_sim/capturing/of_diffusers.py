"""Networks of diffusers by class or config: latents, text and a timestep go in, noise comes out.

What a class takes stands in its forward's signature, how large it is in its config. Where several
layouts of latents are possible, they are tried in turn on tensors without numbers.
"""

from __future__ import annotations

import contextlib
import inspect
import json
import math
from collections.abc import Callable, Iterator
from typing import Any

from .plans import Plan, UnknownNetwork, mean, quiet_tries, says, squared

Shape = tuple[int, ...]

#: Sides of what is trained where a config says none: latents of 512 pixels, images of 256.
LATENT, PIXELS, FRAMES, STEPS = 64, 256, 9, 256
#: Tokens of a text: CLIP's 77 for networks that attend to it, T5's 256 for those that join it.
CLIP_TOKENS, JOINED_TOKENS = 77, 256
TEXT_WIDTHS = ("cross_attention_dim", "joint_attention_dim", "caption_channels", "text_embed_dim", "text_dim",
               "context_in_dim", "cap_feat_dim", "encoder_hidden_dim", "text_hidden_dim", "text_in_dim",
               "in_text_dim", "caption_projection_dim", "condition_dim", "context_dim")  # fmt: skip
LATENTS = ("sample", "hidden_states", "x", "latents", "z")


def _widths(value: Any) -> int:
    return int(value[0] if isinstance(value, (list, tuple)) else value)


class _Sizes:
    """What a config says of sizes, with what stands in where it is silent."""

    def __init__(self, kind: type, config: dict[str, Any]) -> None:
        self.config, self.name = config, kind.__name__

    def first(self, *names: str) -> Any:
        return next((self.config[name] for name in names if self.config.get(name)), None)

    @property
    def channels(self) -> int:
        return _widths(self.first("audio_acoustic_hidden_dim", "in_channels", "in_visual_dim", "input_channels", "audio_channels") or 3)

    @property
    def text(self) -> int:
        return _widths(self.first(*TEXT_WIDTHS) or self.first("dim", "inner_dim", "hidden_size") or 768)

    @property
    def tokens(self) -> int:
        said = self.first("max_text_seq_length")
        joined = self.first("joint_attention_dim", "caption_channels", "text_embed_dim", "text_dim")
        return int(said or (JOINED_TOKENS if joined else CLIP_TOKENS))

    @property
    def side(self) -> tuple[int, int]:
        wide, high = self.first("sample_width"), self.first("sample_height")
        if wide and high:
            return int(high), int(wide)
        own = self.first("sample_size")
        if isinstance(own, (list, tuple)):
            return int(own[0]), int(own[-1])
        usual = PIXELS if self.is_pixels else LATENT
        return int(own or usual), int(own or usual)

    @property
    def is_pixels(self) -> bool:
        return any(word in self.name for word in ("Autoencoder", "VQModel"))

    @property
    def layouts(self) -> Iterator[Shape]:
        """Of latents behind the batch, the likeliest first."""
        (high, wide), channels = self.side, self.channels
        frames = int(self.first("sample_frames") or FRAMES)
        frames = 1 + (frames - 1) // int(self.first("temporal_compression_ratio") or 1) if frames > FRAMES else frames
        patches = math.prod(self.side) // 4
        image, line = (channels, high, wide), [(patches, channels), (channels, 16 * STEPS)]
        video = [(channels, frames, high, wide), (frames, channels, high, wide), (frames, high, wide, channels)]
        if any(word in self.name for word in ("1D", "Audio", "Oobleck", "Music")):
            yield from (line[1], line[0], image, *video)
        elif any(word in self.name for word in ("3D", "Video", "Temporal", "Motion", "CogVideo", "Wan")):
            yield from (*video, line[0], image)
        elif "img_ids" in self.config or self.first("axes_dims_rope"):
            yield from (line[0], image, *video, line[1])
        else:
            yield from (image, line[0], *video, line[1])


def _given(kind: type, sizes: _Sizes, latents: Shape, batch: int) -> dict[str, Any]:
    """All that the forward asks for, and what a config makes it ask for besides."""
    import torch

    takes = inspect.signature(kind.forward).parameters  # type: ignore[attr-defined]
    config, tokens, text = sizes.config, sizes.tokens, sizes.text
    numbers, whole = torch.float32, torch.long

    def zeros(*shape: int, dtype: Any = numbers) -> Any:
        return torch.zeros(batch, *shape, dtype=dtype)

    length = latents[0] if len(latents) == 2 else math.prod(latents[1:]) // 4
    axes = len(sizes.first("axes_dims_rope", "axes_dims") or (1, 1, 1))
    side = math.isqrt(length)
    if "Music" in sizes.name:  # a condition for each step
        tokens = latents[-1]
    image_tokens = 256
    known: dict[str, Callable[[], Any]] = {
        "timestep": lambda: zeros(dtype=whole), "t": lambda: zeros(), "timesteps": lambda: zeros(dtype=whole),
        "timestep_r": lambda: zeros(), "r_timestep": lambda: zeros(),
        "encoder_hidden_states": lambda: zeros(tokens, text),
        "encoder_attention_mask": lambda: torch.ones(batch, tokens, dtype=whole),
        "encoder_hidden_states_mask": lambda: torch.ones(batch, tokens, dtype=whole),
        "pooled_projections": lambda: zeros(_widths(sizes.first("pooled_projection_dim", "in_text_dim2") or 768)),
        "pooled_text_emb": lambda: zeros(_widths(sizes.first("cond_embed_dim") or 768)),
        "global_hidden_states": lambda: zeros(1, _widths(sizes.first("global_states_input_dim") or 1536)),
        "context_latents": lambda: zeros(length, _widths(config["in_channels"]) - sizes.channels),
        "encoder_hidden_states_2": lambda: zeros(tokens, _widths(config["text_embed_2_dim"])),
        "encoder_attention_mask_2": lambda: torch.ones(batch, tokens, dtype=whole),
        "image_embeds": lambda: torch.ones(batch, image_tokens, _widths(config["image_embed_dim"])),
        "visual_rope_pos": lambda: (torch.arange(latents[0]), *(torch.arange(each // 2) for each in latents[1:3])),
        "text_rope_pos": lambda: torch.arange(tokens),
        "img_ids": lambda: torch.zeros(length, axes), "txt_ids": lambda: torch.zeros(tokens, axes),
        "img_shapes": lambda: [[(1, side, length // side)]] * batch,
        # Each place of an image stands for two by two latents, behind the text.
        "img_mask": lambda: (torch.arange(tokens + length // 4) >= tokens).expand(batch, -1),
        "controlnet_cond": lambda: (  # UNets take pixels, transformers latents
            zeros(3, 8 * sizes.side[0], 8 * sizes.side[1]) if "sample" in takes else zeros(*latents)),
        "conditioning_scale": lambda: 1.0,
        "class_labels": lambda: zeros(dtype=whole), "guidance": lambda: zeros(),
        "original_size": lambda: zeros(2), "target_size": lambda: zeros(2), "crop_coords": lambda: zeros(2),
        "added_time_ids": lambda: zeros(3), "micro_conds": lambda: zeros(5),
        "num_frames": lambda: FRAMES, "height": lambda: sizes.side[0], "width": lambda: sizes.side[1],
        "input_ids": lambda: zeros(*sizes.side, dtype=whole),
        "position_ids": lambda: zeros(length + tokens, axes, dtype=whole),
        "added_cond_kwargs": lambda: {
            "text_embeds": zeros(_widths(config["projection_class_embeddings_input_dim"])
                                 - 6 * _widths(config.get("addition_time_embed_dim") or 256)),
            "time_ids": zeros(6)} if config.get("addition_embed_type") == "text_time"
            else {"resolution": zeros(2), "aspect_ratio": zeros(1)},
    }  # fmt: skip
    wanted = {
        "guidance": config.get("guidance_embeds"),
        "class_labels": config.get("num_embeds_ada_norm") or config.get("class_embed_type"),
        "added_cond_kwargs": config.get("addition_embed_type") == "text_time" or "PixArt" in sizes.name,
        "encoder_hidden_states_2": config.get("text_embed_2_dim"),
        "encoder_attention_mask_2": config.get("text_embed_2_dim"),
        "image_embeds": config.get("image_embed_dim") and config.get("text_embed_2_dim"),
        **dict.fromkeys(("timestep", "encoder_hidden_states", "pooled_projections", "img_ids", "txt_ids",
                         "img_shapes", "global_hidden_states", "num_frames", "height", "width"), True),
    }  # fmt: skip
    needs_text = config.get("num_embeds_ada_norm") is None or sizes.first(*TEXT_WIDTHS)
    given: dict[str, Any] = {}
    for name, parameter in takes.items():
        if name in ("self", "return_dict") or parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
            continue
        required = parameter.default is parameter.empty
        if name in LATENTS:
            given[name] = zeros(*latents)
        elif name == "encoder_hidden_states" and not (required or needs_text):
            continue
        elif name in known and (required or wanted.get(name)):
            given[name] = known[name]()
        elif required:
            raise UnknownNetwork(f"{kind.__name__}.forward takes {name}: rehearse_sim.capture is told its inputs")
    return given


def _fitting(kind: type, make: Callable[[], Any], sizes: _Sizes) -> Shape:
    """The first layout that the network runs with."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode

    from . import cuda_rules
    from .values import Known

    layouts, why = list(sizes.layouts), None
    with quiet_tries(), FakeTensorMode(allow_non_fake_inputs=True), cuda_rules.as_on_cuda():
        with cuda_rules.building():
            module = make()
        for latents in layouts:
            try:
                with torch.no_grad(), Known():
                    module(**_given(kind, sizes, latents, 1))
                return latents
            except UnknownNetwork:
                raise
            except Exception as error:  # of shapes, in the network's own words
                why = why or error
    raise why if why is not None else UnknownNetwork(f"{kind.__name__} takes no latents")


def plan_of(name: str, text: str) -> Plan:
    """`name`: a class of diffusers with its own defaults; or `text`, a config that names its class."""
    import diffusers

    settings = json.loads(text) if text else {}
    called = settings.get("_class_name", name)
    kind = getattr(diffusers, called, None) if called[:1].isupper() else None
    if not (isinstance(kind, type) and hasattr(kind, "forward") and hasattr(kind, "from_config")):
        raise UnknownNetwork(f"diffusers {diffusers.__version__} has no network {called!r}")
    given = {key: value for key, value in settings.items() if not key.startswith("_")}

    def make() -> Any:
        takes = inspect.signature(kind).parameters
        return kind(**{key: value for key, value in given.items() if key in takes})

    sizes = _Sizes(kind, {**_defaults(kind), **given})
    latents = _fitting(kind, make, sizes)
    first = _given(kind, sizes, latents, 1)
    shapes = {key: tuple(one.shape[1:]) for key, one in first.items() if hasattr(one, "shape")}
    loss = mean if sizes.is_pixels else squared
    return Plan(make, lambda batch: _given(kind, sizes, latents, batch), None, loss,
                f"captured from diffusers {diffusers.__version__}: {called} with {says(shapes)}; "
                f"{'the mean of its outputs' if sizes.is_pixels else 'mean square against noise'}")  # fmt: skip


def _defaults(kind: type) -> dict[str, Any]:
    with contextlib.suppress(TypeError, ValueError):
        return {name: one.default for name, one in inspect.signature(kind.__init__).parameters.items()  # type: ignore[misc]
                if one.default is not one.empty}  # fmt: skip
    return {}
