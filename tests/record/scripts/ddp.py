import os

import torch
import torch.distributed as dist
from net import BATCH, STEPS, TOKENS, WORDS, Network, loss_of
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

dist.init_process_group("gloo")
cap = os.environ.get("BUCKET_CAP_MB")
network = DistributedDataParallel(Network(), bucket_cap_mb=float(cap) if cap else None)
optimizer = torch.optim.AdamW(network.parameters(), 1e-3)
data = TensorDataset(torch.randint(WORDS, (BATCH * STEPS, TOKENS)))
for (tokens,) in DataLoader(data, batch_size=BATCH):
    loss = loss_of(network, tokens)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
dist.destroy_process_group()
