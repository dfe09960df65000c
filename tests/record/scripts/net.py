"""A small language model, as a user would write it."""

import os

import torch.nn.functional as F
from torch import nn

WIDTH, LAYERS, WORDS = int(os.environ.get("WIDTH", 256)), int(os.environ.get("LAYERS", 4)), 512
TOKENS, BATCH = 64, int(os.environ.get("BATCH", 8))
STEPS = int(os.environ.get("STEPS", 40))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.up = nn.Linear(WIDTH, 4 * WIDTH)
        self.down = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.start = nn.Embedding(WORDS, WIDTH)
        self.layers = nn.ModuleList(Block() for _ in range(LAYERS))
        self.end = nn.Linear(WIDTH, WORDS)

    def forward(self, tokens):
        x = self.start(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.end(x)


def loss_of(network, tokens):
    return F.cross_entropy(network(tokens).flatten(0, 1), tokens.flatten())
