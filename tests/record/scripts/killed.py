"""A rank dies near the end, as where a node fails."""

import os
import signal

import torch
import torch.distributed as dist
from net import BATCH, STEPS, TOKENS, WORDS, Network, loss_of
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
network = DistributedDataParallel(Network())
optimizer = torch.optim.AdamW(network.parameters(), 1e-3)
for step in range(STEPS):
    loss_of(network, torch.randint(WORDS, (BATCH, TOKENS))).backward()
    optimizer.step()
    optimizer.zero_grad()
    if step == STEPS - 3 and dist.get_rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
