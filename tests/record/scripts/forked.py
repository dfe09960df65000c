import sys

import torch
import torch.distributed as dist
from net import BATCH, STEPS, TOKENS, WORDS, Network, loss_of
from torch.multiprocessing import start_processes
from torch.nn.parallel import DistributedDataParallel


def work(rank):
    dist.init_process_group("gloo", f"file://{sys.argv[1]}", rank=rank, world_size=2)
    network = DistributedDataParallel(Network())
    optimizer = torch.optim.SGD(network.parameters(), 0.1)
    for _ in range(STEPS):
        loss_of(network, torch.randint(WORDS, (BATCH, TOKENS))).backward()
        optimizer.step()
        optimizer.zero_grad()
    dist.destroy_process_group()


if __name__ == "__main__":
    torch.set_num_threads(1)
    start_processes(work, nprocs=2, start_method="fork")
    print("done")
