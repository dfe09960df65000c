"""Networks of scenarios/captured that no name alone says: as the runs had them whose times are published.

    tests/capture/named_ten.py [NAME ...]

Writes NAME.model.json of each, or of all: Stable Diffusion 2's UNet, CLIP with attention as PyTorch 1.x
ran it, DETR with its first stages frozen, RetinaNet, Mask R-CNN, and DLRM of NVIDIA's DeepLearningExamples.
"""
import sys
from pathlib import Path

import torch
from torch import nn

HERE = Path(__file__).resolve().parent
FOLDER = HERE.parents[1] / "scenarios/captured"
sys.path[:0] = [str(HERE.parents[1] / "python"), str(HERE)]
import recommenders  # noqa: E402
import rehearse_sim  # noqa: E402

#: stabilityai/stable-diffusion-2-base, unet/config.json.
UNET = {"attention_head_dim": [5, 10, 20, 20], "block_out_channels": [320, 640, 1280, 1280],
        "cross_attention_dim": 1024, "sample_size": 64, "use_linear_projection": True}
#: Rows of Criteo 1TB's tables of ids that occur 15 times or more (DeepLearningExamples, DLRM).
FREQUENT = [7912889, 33823, 17139, 7339, 20046, 4, 7105, 1382, 63, 5554114, 582469, 245828, 11, 2209, 10667, 104,
            4, 968, 15, 8165896, 2675940, 7156453, 302516, 12022, 97, 35]
CLIP = {"projection_dim": 768, "text_config": {"hidden_size": 768, "intermediate_size": 3072, "num_attention_heads": 12,
                                               "num_hidden_layers": 12, "projection_dim": 768},
        "vision_config": {"hidden_size": 1024, "intermediate_size": 4096, "num_attention_heads": 16, "patch_size": 14,
                          "num_hidden_layers": 24, "projection_dim": 768}}


def stable_diffusion_2(path, side=64):
    import diffusers

    def inputs(batch):
        return {"sample": torch.zeros(batch, 4, side, side), "timestep": torch.zeros(batch, dtype=torch.long),
                "encoder_hidden_states": torch.zeros(batch, 77, 1024)}

    return rehearse_sim.capture(
        lambda: diffusers.UNet2DConditionModel(**UNET), inputs, precision="fp16", name="stable_diffusion_2", path=path,
        loss=lambda out: nn.functional.mse_loss(out.sample.float(), torch.zeros_like(out.sample, dtype=torch.float32)))


def clip_vit_l14_eager(path):
    """nn.MultiheadAttention of PyTorch 1.x: two products and a softmax."""
    import transformers

    def inputs(batch):
        return {"input_ids": torch.zeros(batch, 77, dtype=torch.long), "pixel_values": torch.ones(batch, 3, 224, 224),
                "return_loss": True}

    return rehearse_sim.capture(
        lambda: transformers.CLIPModel._from_config(transformers.CLIPConfig(**CLIP), attn_implementation="eager"),
        inputs, precision="bf16", name="clip_vit_l14_eager", path=path)


def detr_resnet50_tf32(path):
    """Stages 2 to 4 of its backbone are trained. One loss of classes and boxes, of the last decoder."""
    import transformers

    backbone = transformers.ResNetConfig(out_features=["stage4"])
    config = transformers.DetrConfig(use_timm_backbone=False, backbone=None, use_pretrained_backbone=False,
                                     backbone_config=backbone)

    def make():
        made = transformers.DetrForObjectDetection(config)
        for name, own in made.model.backbone.named_parameters():
            if any(f"stages.{stage}." in name for stage in (1, 2, 3)):
                own.requires_grad_(True)
        return made

    def loss(out):
        classes = torch.zeros(out.logits.shape[:2], dtype=torch.long)
        boxes = nn.functional.l1_loss(out.pred_boxes, torch.zeros(out.pred_boxes.shape))
        return nn.functional.cross_entropy(out.logits.transpose(1, 2), classes) + 5 * boxes

    def inputs(batch):
        return {"pixel_values": torch.ones(batch, 3, 800, 1216),
                "pixel_mask": torch.ones(batch, 800, 1216, dtype=torch.long)}

    return rehearse_sim.capture(make, inputs, loss=loss, precision="tf32", name="detr_resnet50_tf32", path=path)


def retinanet_resnet50(path):
    return rehearse_sim.capture_named("torchvision:retinanet_resnet50_fpn", precision="tf32", batch=16, path=path)


class MaskRcnn(nn.Module):
    """torchvision's, pretrained, with as many boxes as it trains on at the most: 512 an image, 128 of them with a
    mask, a quarter of each at every level. What picks them by scores is left out."""

    def __init__(self):
        from torchvision.models.detection import MaskRCNN
        from torchvision.models.detection.backbone_utils import resnet_fpn_backbone
        from torchvision.ops.misc import FrozenBatchNorm2d
        super().__init__()
        own = resnet_fpn_backbone(backbone_name="resnet50", weights=None, norm_layer=FrozenBatchNorm2d, trainable_layers=3)
        net = MaskRCNN(own, 91)
        self.backbone, self.rpn, self.heads = net.backbone, net.rpn.head, net.roi_heads

    @staticmethod
    def pooled(levels, boxes, size):
        from torchvision.ops import roi_align
        each = [boxes[:, part::4].flatten(0, 1) for part in range(4)]
        return torch.cat([roi_align(level, own.to(level.dtype), size, 1 / 4 / 2**i, 2)
                          for i, (level, own) in enumerate(zip(levels, each))])

    def forward(self, images, boxes):
        levels = list(self.backbone(images).values())
        objects, deltas = self.rpn(levels)
        one, shift = (torch.cat([each.flatten(1) for each in part], 1)[:, :256] for part in (objects, deltas))
        loss = nn.functional.binary_cross_entropy_with_logits(one.float(), torch.zeros_like(one.float()))
        loss = loss + shift.float().abs().mean()
        classes, corners = self.heads.box_predictor(self.heads.box_head(self.pooled(levels[:4], boxes, 7)))
        loss = loss + nn.functional.cross_entropy(classes, torch.zeros(len(classes), dtype=torch.long))
        loss = loss + corners[:, :4].float().abs().mean()
        masks = self.heads.mask_predictor(self.heads.mask_head(self.pooled(levels[:4], boxes[:, :128], 14)))[:, 0]
        return loss + nn.functional.binary_cross_entropy_with_logits(masks.float(), torch.zeros_like(masks.float()))


def mask_rcnn_resnet50(path):
    def inputs(batch):
        return torch.zeros(batch, 3, 800, 1088), torch.zeros(batch, 512, 5)

    return rehearse_sim.capture(MaskRcnn, inputs, precision="fp16", name="mask_rcnn_resnet50", path=path)


def dlrm_frequent(path):
    tables = [rehearse_sim.Table(rows) for rows in FREQUENT]
    return recommenders.captured("dlrm_frequent", tables, False, (), "fp16", path, optimizer="sgd",
                                 sharding="table_wise")


WAYS = {each.__name__: each for each in (stable_diffusion_2, clip_vit_l14_eager, detr_resnet50_tf32,
                                         retinanet_resnet50, mask_rcnn_resnet50, dlrm_frequent)}


def main():
    for name in sys.argv[1:] or WAYS:
        print(WAYS[name](FOLDER / f"{name}.model.json").path, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
