"""Two stages of a pipeline, as many micro-batches as stages, each stage's forwards first (GPipe)."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from net import BATCH, LAYERS, STEPS, TOKENS, WIDTH, WORDS, Network

dist.init_process_group("gloo")
torch.manual_seed(0)
rank, MICRO = dist.get_rank(), 2
whole = Network()
half = LAYERS // 2
own = whole.layers[:half] if rank == 0 else whole.layers[half:]
parameters = [*own.parameters(), *(whole.start if rank == 0 else whole.end).parameters()]
optimizer = torch.optim.AdamW(parameters, 1e-3)
for _ in range(STEPS):
    optimizer.zero_grad()
    outputs, inputs = [], []
    for _ in range(MICRO):
        tokens = torch.randint(WORDS, (BATCH, TOKENS))
        if rank == 0:
            x = whole.start(tokens)
        else:
            x = torch.empty(BATCH, TOKENS, WIDTH)
            dist.recv(x, 0)
            x.requires_grad_()
            inputs.append(x)
        for layer in own:
            x = layer(x)
        if rank == 0:
            dist.send(x.detach(), 1)
            outputs.append(x)
        else:
            logits = whole.end(x).flatten(0, 1)
            outputs.append(F.cross_entropy(logits, tokens.flatten()))
    for micro, output in enumerate(outputs):
        if rank == 0:
            gradient = torch.empty_like(output)
            dist.recv(gradient, 1)
            output.backward(gradient)
        else:
            output.backward()
            dist.send(inputs[micro].grad, 0)
    optimizer.step()
dist.destroy_process_group()
