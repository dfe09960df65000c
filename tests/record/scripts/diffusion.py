"""After examples/unconditional_image_generation/train_unconditional.py of diffusers, small."""

import os

import torch
import torch.nn.functional as F
from accelerate import Accelerator
from diffusers import DDPMScheduler, UNet2DModel
from diffusers.optimization import get_scheduler
from diffusers.training_utils import EMAModel
from torch.utils.data import DataLoader, Dataset

STEPS = int(os.environ.get("STEPS", 40))


class Images(Dataset):
    def __len__(self):
        return 2 * 8 * STEPS

    def __getitem__(self, index):
        return {"input": torch.randn(3, 32, 32)}


accelerator = Accelerator(cpu=True)
model = UNet2DModel(
    sample_size=32, in_channels=3, out_channels=3, layers_per_block=1, block_out_channels=(32, 64),
    norm_num_groups=8, down_block_types=("DownBlock2D", "AttnDownBlock2D"),
    up_block_types=("AttnUpBlock2D", "UpBlock2D"),
)  # fmt: skip
average = EMAModel(model.parameters(), decay=0.9999)
noises = DDPMScheduler(num_train_timesteps=1000)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
rate = get_scheduler("cosine", optimizer=optimizer, num_warmup_steps=5, num_training_steps=STEPS)
data = DataLoader(Images(), batch_size=8, shuffle=True)
model, optimizer, data, rate = accelerator.prepare(model, optimizer, data, rate)
for batch in data:
    clean = batch["input"]
    noise = torch.randn_like(clean)
    times = torch.randint(0, 1000, (clean.shape[0],)).long()
    with accelerator.accumulate(model):
        made = model(noises.add_noise(clean, noise, times), times).sample
        accelerator.backward(F.mse_loss(made, noise))
        accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        rate.step()
        optimizer.zero_grad()
    average.step(model.parameters())
