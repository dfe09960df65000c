import os

os.environ.setdefault("DS_ACCELERATOR", "cpu")
import deepspeed
import torch
from net import BATCH, STEPS, TOKENS, WORDS, Network, loss_of

STAGE = int(os.environ.get("STAGE", 1))
deepspeed.init_distributed(dist_backend="gloo")
network = Network()
engine, *_ = deepspeed.initialize(model=network, model_parameters=network.parameters(), config={
    "train_micro_batch_size_per_gpu": BATCH, "zero_optimization": {"stage": STAGE},
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-3, "torch_adam": True}}})  # fmt: skip
for _ in range(STEPS):
    engine.backward(loss_of(engine, torch.randint(WORDS, (BATCH, TOKENS))))
    engine.step()
