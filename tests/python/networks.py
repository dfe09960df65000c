"""Networks that nobody has built in, by hand: a state space, a recurrence in time, an LSTM."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from oracle import Case
from torch import nn
from torch.nn import functional as F


class MambaBlock(nn.Module):
    """Selective state space (Gu and Dao 2023), with the scan written as a loop over tokens."""

    def __init__(self, width: int, states: int = 16, expand: int = 2) -> None:
        super().__init__()
        inner, self.rank, self.states = expand * width, max(1, width // 16), states
        self.norm = nn.LayerNorm(width)
        self.enter = nn.Linear(width, 2 * inner, bias=False)
        self.conv = nn.Conv1d(inner, inner, 4, groups=inner, padding=3)
        self.select = nn.Linear(inner, self.rank + 2 * states, bias=False)
        self.step = nn.Linear(self.rank, inner)
        self.log_a = nn.Parameter(torch.zeros(inner, states))
        self.skip = nn.Parameter(torch.ones(inner))
        self.leave = nn.Linear(inner, width, bias=False)

    def forward(self, x: Any) -> Any:
        length = x.shape[1]
        u, gate = self.enter(self.norm(x)).chunk(2, -1)
        u = F.silu(self.conv(u.transpose(1, 2))[..., :length].transpose(1, 2))
        step, b, c = self.select(u).split([self.rank, self.states, self.states], -1)
        step = F.softplus(self.step(step)).unsqueeze(-1)
        decay = torch.exp(step * -torch.exp(self.log_a))
        driven = step * b.unsqueeze(2) * u.unsqueeze(-1)
        state, out = torch.zeros_like(driven[:, 0]), []
        for t in range(length):
            state = decay[:, t] * state + driven[:, t]
            out.append(torch.einsum("bds,bs->bd", state, c[:, t]))
        y = torch.stack(out, 1) + self.skip * u
        return x + self.leave(y * F.silu(gate))


class RwkvBlock(nn.Module):
    """RWKV 4 (Peng et al. 2023): mixing over time by a decaying mean, and over channels."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.shift = nn.ZeroPad2d((0, 0, 1, -1))
        self.decay, self.first = nn.Parameter(torch.zeros(width)), nn.Parameter(torch.zeros(width))
        self.mix = nn.ParameterList(nn.Parameter(torch.ones(1, 1, width)) for _ in range(5))
        self.key, self.value, self.gate, self.leave = (
            nn.Linear(width, width, bias=False) for _ in range(4)
        )
        self.wide = nn.Linear(width, 4 * width, bias=False)
        self.back = nn.Linear(4 * width, width, bias=False)
        self.receive = nn.Linear(width, width, bias=False)

    def mixed(self, x: Any, number: int) -> Any:
        return x * self.mix[number] + self.shift(x) * (1 - self.mix[number])

    def over_time(self, x: Any) -> Any:
        k, v = self.key(self.mixed(x, 0)), self.value(self.mixed(x, 1))
        r, w = torch.sigmoid(self.gate(self.mixed(x, 2))), -torch.exp(self.decay)
        above = below = torch.zeros_like(k[:, 0])
        most, out = torch.full_like(above, -1e38), []
        for t in range(x.shape[1]):
            now = torch.maximum(most, self.first + k[:, t])
            old, new = torch.exp(most - now), torch.exp(self.first + k[:, t] - now)
            out.append((old * above + new * v[:, t]) / (old * below + new))
            now = torch.maximum(most + w, k[:, t])
            old, new = torch.exp(most + w - now), torch.exp(k[:, t] - now)
            above, below, most = old * above + new * v[:, t], old * below + new, now
        return self.leave(r * torch.stack(out, 1))

    def forward(self, x: Any) -> Any:
        x = x + self.over_time(self.norm1(x))
        y = self.norm2(x)
        k = torch.square(torch.relu(self.wide(self.mixed(y, 3))))
        return x + torch.sigmoid(self.receive(self.mixed(y, 4))) * self.back(k)


class Tokens(nn.Module):
    """Blocks between an embedding and a head; the loss is of the tokens themselves."""

    def __init__(self, blocks: list[nn.Module], words: int = 512, width: int = 64) -> None:
        super().__init__()
        self.embed, self.blocks = nn.Embedding(words, width), nn.ModuleList(blocks)
        self.head = nn.Linear(width, words, bias=False)

    def forward(self, tokens: Any) -> Any:
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(self.head(x).flatten(0, 1), tokens.flatten())


class LstmTokens(nn.Module):
    """An LSTM language model with dropout, as PyTorch's word_language_model."""

    def __init__(self, words: int = 512, width: int = 64) -> None:
        super().__init__()
        self.embed, self.drop = nn.Embedding(words, width), nn.Dropout(0.2)
        self.lstm = nn.LSTM(width, width, 2, batch_first=True, dropout=0.2)
        self.head = nn.Linear(width, words)

    def forward(self, tokens: Any) -> Any:
        x, _ = self.lstm(self.drop(self.embed(tokens)))
        return F.cross_entropy(self.head(self.drop(x)).flatten(0, 1), tokens.flatten())


class DoubleConv(nn.Sequential):
    def __init__(self, inputs: int, outputs: int) -> None:
        layers: list[nn.Module] = []
        for width in (inputs, outputs):
            layers += [nn.Conv2d(width, outputs, 3, padding=1, bias=False),
                       nn.BatchNorm2d(outputs), nn.ReLU(inplace=True)]  # fmt: skip
        super().__init__(*layers)


class UNet(nn.Module):
    """Ronneberger et al. 2015, padded, with batch norm."""

    def __init__(self, classes: int = 2, width: int = 64) -> None:
        super().__init__()
        wide = [width * 2**i for i in range(5)]
        self.enter = DoubleConv(3, wide[0])
        self.down = nn.ModuleList(
            nn.Sequential(nn.MaxPool2d(2), DoubleConv(wide[i], wide[i + 1])) for i in range(4)
        )
        self.grow = nn.ModuleList(
            nn.ConvTranspose2d(wide[4 - i], wide[3 - i], 2, stride=2) for i in range(4)
        )
        self.up = nn.ModuleList(DoubleConv(wide[4 - i], wide[3 - i]) for i in range(4))
        self.leave = nn.Conv2d(wide[0], classes, 1)

    def forward(self, x: Any) -> Any:
        skips = [self.enter(x)]
        for down in self.down:
            skips.append(down(skips[-1]))
        x = skips.pop()
        for grow, up in zip(self.grow, self.up):
            x = up(torch.cat([skips.pop(), grow(x)], 1))
        return self.leave(x)


def modulated(x: Any, shift: Any, scale: Any) -> Any:
    return x * (1 + scale.unsqueeze(1)) + shift.unsqueeze(1)


class DitBlock(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = (
            nn.LayerNorm(width, elementwise_affine=False, eps=1e-6) for _ in range(2)
        )
        self.heads, self.qkv, self.proj = heads, nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(approximate="tanh"), nn.Linear(4 * width, width)
        )
        self.adapt = nn.Sequential(nn.SiLU(), nn.Linear(width, 6 * width))

    def attend(self, x: Any) -> Any:
        b, n, width = x.shape
        qkv = self.qkv(x).reshape(b, n, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v)
        return self.proj(y.transpose(1, 2).reshape(b, n, width))

    def forward(self, x: Any, c: Any) -> Any:
        shift1, scale1, gate1, shift2, scale2, gate2 = self.adapt(c).chunk(6, dim=1)
        x = x + gate1.unsqueeze(1) * self.attend(modulated(self.norm1(x), shift1, scale1))
        return x + gate2.unsqueeze(1) * self.mlp(modulated(self.norm2(x), shift2, scale2))


class Dit(nn.Module):
    """DiT-XL/2 of latents of 32 x 32 x 4 (Peebles and Xie 2022)."""

    def __init__(self, width: int = 1152, depth: int = 28, heads: int = 16) -> None:
        super().__init__()
        self.patch = nn.Conv2d(4, width, 2, stride=2)
        self.places = nn.Parameter(torch.zeros(1, 256, width), requires_grad=False)
        self.time = nn.Sequential(nn.Linear(256, width), nn.SiLU(), nn.Linear(width, width))
        self.label = nn.Embedding(1001, width)
        self.blocks = nn.ModuleList(DitBlock(width, heads) for _ in range(depth))
        self.norm = nn.LayerNorm(width, elementwise_affine=False, eps=1e-6)
        self.adapt = nn.Sequential(nn.SiLU(), nn.Linear(width, 2 * width))
        self.leave = nn.Linear(width, 2 * 2 * 8)

    def forward(self, x: Any, time: Any, label: Any) -> Any:
        x = self.patch(x).flatten(2).transpose(1, 2) + self.places
        c = self.time(time) + self.label(label)
        for block in self.blocks:
            x = block(x, c)
        shift, scale = self.adapt(c).chunk(2, dim=1)
        x = self.leave(modulated(self.norm(x), shift, scale)).reshape(len(x), 16, 16, 2, 2, 8)
        return x.permute(0, 5, 1, 3, 2, 4).reshape(len(x), 8, 32, 32)


def _images(batch: int, side: int = 224) -> Any:
    return torch.zeros(batch, 3, side, side)


def _classes(batch: int) -> Any:
    return torch.zeros(batch, dtype=torch.long)


def torchvision_models() -> Any:
    """Also of a torchvision that was built for another torch: networks need none of its own
    operators, but it wants two to be declared."""
    try:
        import torchvision
    except RuntimeError:
        KEPT.append(torch.library.Library("torchvision", "DEF"))
        for name in ("nms", "qnms"):
            KEPT[0].define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        import torchvision
    return torchvision.models


KEPT: list[Any] = []


def _of_torchvision(name: str) -> Case:
    return Case(getattr(torchvision_models(), name), _images, _classes, batch=32)


def _inception() -> Case:
    def loss(out: Any, answers: Any) -> Any:
        return F.cross_entropy(out.logits, answers) + 0.4 * F.cross_entropy(out.aux_logits, answers)

    def make() -> Any:
        return torchvision_models().inception_v3(init_weights=False, aux_logits=True)

    return Case(make, lambda batch: _images(batch, 299), _classes, loss, batch=32)


def _of_timm(name: str) -> Case:
    torchvision_models()
    import timm

    return Case(lambda: timm.create_model(name), _images, _classes, batch=32)


def _latents(batch: int) -> Any:
    return torch.zeros(batch, 4, 32, 32), torch.zeros(batch, 256), _classes(batch)


# Networks that people train, each as it is made.
PEOPLE: dict[str, Callable[[], Case]] = {
    **{name: functools.partial(_of_torchvision, name)
       for name in ("swin_t", "resnext50_32x4d", "regnet_y_8gf", "mobilenet_v3_large", "maxvit_t",
                    "convnext_tiny")},
    "inception_v3": _inception,
    "swin_base": lambda: _of_timm("swin_base_patch4_window7_224"),
    "vit_giant": lambda: _of_timm("vit_giant_patch14_224"),
    "unet": lambda: Case(UNet, lambda batch: _images(batch, 256),
                         lambda batch: torch.zeros(batch, 256, 256, dtype=torch.long),
                         cublas=False),
    "dit_xl_2": lambda: Case(Dit, _latents, lambda batch: torch.zeros(batch, 8, 32, 32), F.mse_loss),
    "lstm": lambda: Case(lambda: LstmTokens(33278, 650),
                         lambda batch: torch.zeros(batch, 256, dtype=torch.long),
                         uncounted=2.0 * 2 * 256 * 4 * 650 * (650 + 650)),
}  # fmt: skip

# A model as hubs bring it with trust_remote_code: code and a config in one folder.
OWN_CODE = """
import torch
from torch import nn
from transformers import PretrainedConfig, PreTrainedModel


class OwnConfig(PretrainedConfig):
    model_type = "own_code"

    def __init__(self, width=64, layers=2, words=512, **more):
        self.width, self.layers, self.words = width, layers, words
        super().__init__(**more)


class OwnBlock(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.up = nn.RMSNorm(width), nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


class OwnModel(PreTrainedModel):
    config_class = OwnConfig

    def __init__(self, config):
        super().__init__(config)
        self.embed = nn.Embedding(config.words, config.width)
        self.blocks = nn.ModuleList(OwnBlock(config.width) for _ in range(config.layers))
        self.head = nn.Linear(config.width, config.words)
        self.post_init()

    def forward(self, input_ids):
        x = self.embed(input_ids)
        for block in self.blocks:
            x = block(x)
        return nn.functional.cross_entropy(self.head(x).flatten(0, 1), input_ids.flatten())
"""
