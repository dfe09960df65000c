import os

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Basic(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.downsample = nn.Sequential()
        if stride > 1 or inputs != outputs:
            self.downsample = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
            )

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(y + self.downsample(x))


class ResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 32, 3, 1, 1, bias=False), nn.BatchNorm2d(32)
        self.layer1 = nn.Sequential(Basic(32, 32, 1), Basic(32, 32, 1))
        self.layer2 = nn.Sequential(Basic(32, 64, 2), Basic(64, 64, 1))
        self.layer3 = nn.Sequential(Basic(64, 128, 2), Basic(128, 128, 1))
        self.fc = nn.Linear(128, 10)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        return self.fc(self.layer3(self.layer2(self.layer1(x))).mean((2, 3)))


dist.init_process_group("gloo")
network = DistributedDataParallel(ResNet())
optimizer = torch.optim.SGD(network.parameters(), 0.1, momentum=0.9)
for _ in range(int(os.environ.get("STEPS", 40))):
    images, classes = torch.randn(16, 3, 32, 32), torch.randint(10, (16,))
    loss = F.cross_entropy(network(images), classes)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
dist.destroy_process_group()
