import sys

import torch
from net import BATCH, STEPS, TOKENS, WORDS, Network, loss_of

network = Network()
optimizer = torch.optim.SGD(network.parameters(), 0.1, momentum=0.9)
for step in range(STEPS):
    loss_of(network, torch.randint(WORDS, (BATCH, TOKENS))).backward()
    optimizer.step()
    optimizer.zero_grad()
    if "crash" in sys.argv and step == STEPS - 2:
        raise SystemExit(7)
    if "kill" in sys.argv and step == STEPS - 2:
        import os
        import signal

        os.kill(os.getpid(), signal.SIGKILL)
print("done")
