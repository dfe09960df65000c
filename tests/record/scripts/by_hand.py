import sys

import torch
from net import BATCH, STEPS, TOKENS, WORDS, Network, loss_of

network = Network()
for _ in range(STEPS):
    tokens = torch.randint(WORDS, (BATCH, TOKENS))
    if "inference" in sys.argv:
        with torch.no_grad():
            network(tokens)
        continue
    loss_of(network, tokens).backward()
    with torch.no_grad():
        for each in network.parameters():
            each -= 0.1 * each.grad
            each.grad = None
print("done")
