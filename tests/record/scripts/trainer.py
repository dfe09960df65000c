import os
import tempfile

import torch
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments


class Tokens(Dataset):
    def __len__(self):
        return 100000

    def __getitem__(self, index):
        tokens = torch.randint(1000, (128,))
        return {"input_ids": tokens, "labels": tokens}


config = GPT2Config(vocab_size=1000, n_positions=128, n_embd=256, n_layer=4, n_head=4)
arguments = TrainingArguments(
    output_dir=tempfile.mkdtemp(), per_device_train_batch_size=8, logging_steps=10,
    max_steps=int(os.environ.get("STEPS", 40)), save_strategy="no", report_to=[], use_cpu=True,
    ddp_backend="gloo",
)  # fmt: skip
Trainer(model=GPT2LMHeadModel(config), args=arguments, train_dataset=Tokens()).train()
