import torch
from accelerate import Accelerator
from net import BATCH, STEPS, TOKENS, WORDS, Network, loss_of
from torch.utils.data import DataLoader, TensorDataset

accelerator = Accelerator(gradient_accumulation_steps=2, cpu=True)
network = Network()
optimizer = torch.optim.AdamW(network.parameters(), 1e-3)
data = DataLoader(TensorDataset(torch.randint(WORDS, (4 * BATCH * STEPS, TOKENS))), BATCH)
network, optimizer, data = accelerator.prepare(network, optimizer, data)
for (tokens,) in data:
    with accelerator.accumulate(network):
        accelerator.backward(loss_of(network, tokens))
        if accelerator.sync_gradients:
            accelerator.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
