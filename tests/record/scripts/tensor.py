"""Each block's two products split over all ranks, and the logits' columns."""

import torch
import torch.distributed as dist
from net import BATCH, STEPS, TOKENS, WORDS, Network, loss_of
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

dist.init_process_group("gloo")
torch.manual_seed(0)
mesh = init_device_mesh("cpu", (dist.get_world_size(),))
network = Network()
parallelize_module(network, mesh, {
    "layers.*.up": ColwiseParallel(), "layers.*.down": RowwiseParallel(),
    "end": ColwiseParallel(output_layouts=Replicate()),
})  # fmt: skip
optimizer = torch.optim.AdamW(network.parameters(), 1e-3)
for _ in range(STEPS):
    loss = loss_of(network, torch.randint(WORDS, (BATCH, TOKENS)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
dist.destroy_process_group()
