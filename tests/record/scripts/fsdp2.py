import torch
import torch.distributed as dist
from net import BATCH, STEPS, TOKENS, WORDS, Network, loss_of
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

dist.init_process_group("gloo")
network, mesh = Network(), init_device_mesh("cpu", (dist.get_world_size(),))
for layer in network.layers:
    fully_shard(layer, mesh=mesh)
fully_shard(network, mesh=mesh)
optimizer = torch.optim.AdamW(network.parameters(), 1e-3)
for _ in range(STEPS):
    loss_of(network, torch.randint(WORDS, (BATCH, TOKENS))).backward()
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
