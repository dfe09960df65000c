import os

os.environ.setdefault("DS_ACCELERATOR", "cpu")
import deepspeed
import torch
from net import BATCH, STEPS, TOKENS, WORDS, Network, loss_of

deepspeed.init_distributed(dist_backend="gloo")
network = Network()
engine, *_ = deepspeed.initialize(model=network, model_parameters=network.parameters(), config={
    "train_micro_batch_size_per_gpu": BATCH, "zero_optimization": {"stage": 1},
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-3, "torch_adam": True}}})  # fmt: skip
for _ in range(STEPS):
    engine.backward(loss_of(engine, torch.randint(WORDS, (BATCH, TOKENS))))
    engine.step()
