"""Networks that nobody has built in, by hand: a state space, a recurrence in time, an LSTM."""

from __future__ import annotations

from typing import Any

import torch
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
