#!/usr/bin/env python3
"""Records toy.csv: a small policy that one process generates with and another trains, on CPUs.

    tests/rollout/toy.py > tests/rollout/toy.csv

A GRU over 64 words answers with up to 96 sampled words, whose lengths differ; its reward is the
share of even words, and its update REINFORCE with the group's mean as baseline. Lag 0 takes turns.
With a lag of 1 and 2 batch k begins once the weights of update k - lag are there, as
`rl.staleness: {limit: lag}` has it. A row is a step: when its phases began and ended, on one clock.
Needs PyTorch and two idle cores.
"""
import multiprocessing
import os
import sys
import time

import torch

WORDS, WIDTH, BATCH, LONGEST, STEPS = 64, 256, 64, 96, 12
# Rounds of generation and of training in a step, by which of the two is longer.
BALANCES = {"generation": (5, 1), "training": (1, 1)}


class Policy(torch.nn.Module):
    """Words in, logits of the next word and a state out."""

    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(WORDS, WIDTH)
        self.cell = torch.nn.GRU(WIDTH, WIDTH, batch_first=True)
        self.head = torch.nn.Linear(WIDTH, WORDS)

    def forward(self, words, state=None):
        """Of a batch of sequences."""
        out, state = self.cell(self.embedding(words), state)
        return self.head(out), state


def generate(policy, rounds):
    """Responses, one word a step, until all are as long as they were drawn to be."""
    with torch.no_grad():
        for _ in range(rounds):
            lengths = torch.randint(LONGEST // 4, LONGEST, (BATCH,))
            words, state, all_words = torch.zeros(BATCH, 1, dtype=torch.long), None, []
            for _ in range(int(lengths.max())):
                logits, state = policy(words, state)
                words = torch.multinomial(torch.softmax(logits[:, -1], -1), 1)
                all_words.append(words)
    return torch.cat(all_words, 1), lengths


def train(policy, optimizer, batch, rounds):
    """Updates of the policy by its own responses."""
    words, lengths = batch
    inside = (torch.arange(words.shape[1])[None] < lengths[:, None]).float()
    reward = ((words % 2 == 0) * inside).sum(1) / inside.sum(1)
    for _ in range(rounds):
        logits, _ = policy(torch.cat([torch.zeros(BATCH, 1, dtype=torch.long), words[:, :-1]], 1))
        chosen = torch.log_softmax(logits, -1).gather(-1, words[..., None])[..., 0]
        loss = -((reward - reward.mean())[:, None] * chosen * inside).sum() / inside.sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def generator(lag, rounds, weights, batches):
    """Batch k once the weights of update k - lag are there."""
    torch.set_num_threads(1)
    policy, held = Policy(), 0
    for k in range(STEPS):
        newest = None
        while held < k - lag or not weights.empty():
            held, newest = weights.get()
        loaded = time.perf_counter()
        if newest is not None:
            policy.load_state_dict({name: torch.from_numpy(one) for name, one in newest.items()})
        started = time.perf_counter()
        batch = generate(policy, rounds)
        ended = time.perf_counter()
        batches.put(([one.numpy() for one in batch], held, loaded, started, ended))


def run(lag, balance):
    """Prints a row a step."""
    torch.set_num_threads(1)
    own, updates = BALANCES[balance]
    weights, batches = multiprocessing.Queue(), multiprocessing.Queue()
    policy = Policy()
    optimizer = torch.optim.SGD(policy.parameters(), lr=0.1)
    other = multiprocessing.Process(target=generator, args=(lag, own, weights, batches))
    other.start()
    for k in range(STEPS):
        batch, held, loaded, started, ended = batches.get()
        begun = time.perf_counter()
        train(policy, optimizer, [torch.from_numpy(one) for one in batch], updates)
        done = time.perf_counter()
        weights.put((k + 1, {name: one.numpy().copy() for name, one in
                             policy.state_dict().items()}))
        print(f"{balance},{lag},{k},{k - held},{started - loaded:.4f},{ended - started:.4f},"
              f"{done - begun:.4f},{done:.4f}", flush=True)
    other.join()


def main():
    """All of them."""
    torch.manual_seed(1)
    os.environ["OMP_NUM_THREADS"] = "1"
    print("longer,lag,step,age,refit_s,generation_s,training_s,trained_at_s")
    for balance in BALANCES:
        for lag in (0, 1, 2):
            run(lag, balance)
    sys.stdout.flush()


if __name__ == "__main__":
    multiprocessing.set_start_method("spawn")
    main()
