"""DLRM and DLRM-DCNv2 as torchrec's examples have them, with EmbeddingBags for its tables.

    tests/capture/recommenders.py [--write]

`--write` captures those of scenarios/captured anew. Layers: torchrec's models/dlrm.py; sizes: the
README of recommendation_v2/torchrec_dlrm in mlcommons/training.
"""
import argparse
import sys
from pathlib import Path

import torch
from torch import nn

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))
import rehearse_sim  # noqa: E402
from rehearse_sim import EmbeddingBags, Table  # noqa: E402

WIDTH, NUMBERS = 128, 13
#: Criteo 1TB: rows with one id of each, and MLPerf's with several.
CRITEO = [45833188, 36746, 17245, 7413, 20243, 3, 7114, 1441, 62, 29275261, 1572176, 345138, 10, 2209, 11267, 128,
          4, 974, 14, 48937457, 11316796, 40094537, 452104, 12606, 104, 35]
MLPERF = [40000000, 39060, 17295, 7424, 20265, 3, 7122, 1543, 63, 40000000, 3067956, 405282, 10, 2209, 11938, 155,
          4, 976, 14, 40000000, 40000000, 40000000, 590152, 12973, 108, 36]
HOTS = [3, 2, 1, 2, 6, 1, 1, 1, 1, 7, 3, 8, 1, 6, 9, 5, 1, 1, 1, 12, 100, 27, 10, 3, 1, 1]


def layers(sizes, last_is_plain=False):
    made = []
    for i, (fan_in, fan_out) in enumerate(zip(sizes, sizes[1:])):
        made.append(nn.Linear(fan_in, fan_out))
        if not (last_is_plain and i == len(sizes) - 2):
            made.append(nn.ReLU())
    return nn.Sequential(*made)


class Cross(nn.Module):
    """Low-rank cross layers (DCN v2): x0 * (W(Vx) + b) + x."""

    def __init__(self, width, rank, count):
        super().__init__()
        self.down = nn.ModuleList(nn.Linear(width, rank, bias=False) for _ in range(count))
        self.up = nn.ModuleList(nn.Linear(rank, width) for _ in range(count))

    def forward(self, first):
        x = first
        for down, up in zip(self.down, self.up):
            x = first * up(down(x)) + x
        return x


class Dlrm(nn.Module):
    def __init__(self, tables, cross, **sharded):
        super().__init__()
        self.dense = layers([NUMBERS, 512, 256, WIDTH])
        self.bags = EmbeddingBags(tables, WIDTH, **sharded)
        count = len(tables) + 1
        self.cross = Cross(count * WIDTH, 512, 3) if cross else None
        pairs = count * (count - 1) // 2
        self.over = layers([count * WIDTH if cross else WIDTH + pairs, 1024, 1024, 512, 256, 1], True)
        self.register_buffer("places", torch.triu_indices(count, count, offset=1), persistent=False)

    def forward(self, numbers, ids):
        dense = self.dense(numbers)
        together = torch.cat([dense.unsqueeze(1), self.bags(ids)], dim=1)
        if self.cross is not None:
            return self.over(self.cross(together.flatten(1))).squeeze(1)
        products = torch.bmm(together, together.transpose(1, 2))
        return self.over(torch.cat([dense, products[:, self.places[0], self.places[1]]], dim=1)).squeeze(1)


def inputs(tables):
    hots = sum(table.hot for table in tables)
    return lambda batch: (torch.zeros(batch, NUMBERS), torch.zeros(batch, hots, dtype=torch.long))


def captured(name, tables, cross, ranks, precision, path=None, **sharded):
    return rehearse_sim.capture(
        lambda: Dlrm(tables, cross, **sharded), inputs(tables), targets=lambda batch: torch.zeros(batch),
        loss=nn.functional.binary_cross_entropy_with_logits, precision=precision, name=name, batches=(1024, 2048, 8192),
        embedding_parallel=ranks, path=path or ROOT / f"scenarios/captured/{name}.model.json")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--write", action="store_true")
    if not parser.parse_args().write:
        return 0
    plain = [Table(rows) for rows in CRITEO]
    print(captured("dlrm", plain, False, (4, 8), "tf32", optimizer="sgd", sharding="table_wise"))
    several = [Table(rows, hot) for rows, hot in zip(MLPERF, HOTS)]
    print(captured("dlrm_dcnv2", several, True, (8, 64), "fp16", optimizer="exact_adagrad",
                   sharding=["column_wise" if hot > 8 else "table_wise" for hot in HOTS]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
