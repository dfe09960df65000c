import lightning
import torch
from net import BATCH, STEPS, TOKENS, WORDS, Network, loss_of
from torch.utils.data import DataLoader, TensorDataset


class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.network = Network()

    def training_step(self, batch, _):
        loss = loss_of(self.network, batch[0])
        self.log("loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), 1e-3)


data = DataLoader(TensorDataset(torch.randint(WORDS, (2 * BATCH * STEPS, TOKENS))), BATCH)
lightning.Trainer(max_steps=STEPS, accelerator="cpu", devices=2, strategy="ddp", logger=False,
                  enable_checkpointing=False, enable_progress_bar=False).fit(Module(), data)  # fmt: skip
