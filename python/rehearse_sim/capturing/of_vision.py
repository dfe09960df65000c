"""Networks of torchvision and timm by name: images, and for detection boxes, go in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .plans import Plan, UnknownNetwork, floats, mean

#: Frames and sides that torchvision's video networks take (their weights' `min_size`s and clips).
CLIP = {"mvit_v1_b": (16, 224), "mvit_v2_s": (16, 224), "swin3d": (32, 224), "s3d": (32, 224)}
#: COCO's usual image; boxes of an image of its train2017 in the mean (860,001 in 117,266).
COCO, BOXES = (3, 480, 640), 7
#: Detectors whose second stage runs on boxes that the first one scores.
PICKS = ("fasterrcnn", "maskrcnn", "keypointrcnn")
AUXILIARY = {"googlenet", "inception_v3"}


def _images(
    make: Callable[[], Any], size: tuple[int, ...], note: str, loss: Callable[..., Any] | None = None
) -> Plan:
    import torch

    return Plan(make, lambda batch: torch.zeros(batch, *size), lambda batch: torch.zeros(batch, dtype=torch.long),
                loss, f"{note} with images of {size}")  # fmt: skip


def _heads(output: Any, targets: Any) -> Any:
    """The logits, and beside them two or one of auxiliary heads."""
    import torch

    return sum(torch.nn.functional.cross_entropy(each, targets) * (1 if place == 0 else 0.3)
               for place, each in enumerate(output) if each is not None)  # fmt: skip


def _pixels(output: Any, *_: Any) -> Any:
    """Segmentation: a class for each pixel, and 0.5 times that of an auxiliary head."""
    import torch

    made = floats(output)
    classes = torch.zeros(made[0].shape[0], *made[0].shape[2:], dtype=torch.long)
    return sum(torch.nn.functional.cross_entropy(each, classes) * (1 if place == 0 else 0.5)
               for place, each in enumerate(made))  # fmt: skip


def _detector(make: Callable[[], Any], note: str) -> Plan:
    """Images of COCO's usual size, a list of them, with as many boxes as it has in the mean."""
    import torch

    def made() -> Any:
        module = make()
        module.transform.torch_choice = lambda sizes: sizes[0]  # of several sides one is drawn for each image
        return module

    def inputs(batch: int) -> Any:
        places = torch.arange(BOXES, dtype=torch.float32)
        box = torch.stack([20 + 60 * places, 10 + 40 * places, 100 + 75 * places, 90 + 55 * places], dim=1)
        return [torch.zeros(*COCO) for _ in range(batch)], [
            {"boxes": box.clone(), "labels": torch.ones(BOXES, dtype=torch.long)} for _ in range(batch)]  # fmt: skip

    return Plan(made, inputs, None, lambda losses: sum(losses.values()),
                f"{note} with images of {COCO} and {BOXES} boxes")  # fmt: skip


def torchvision_plan(name: str) -> Plan:
    import torch
    import torchvision

    called = f"captured from torchvision {torchvision.__version__}: {name}"
    if name not in torchvision.models.list_models():
        raise UnknownNetwork(f"torchvision {torchvision.__version__} has no network {name!r}")
    make = torchvision.models.get_model_builder(name)
    kind = make.__module__.removeprefix("torchvision.models.")

    def made() -> Any:
        more: dict[str, Any] = {"init_weights": False} if name in AUXILIARY else {}
        if kind.startswith(("detection", "segmentation")):
            more = {"weights_backbone": None}
        return make(weights=None, **more)

    if name.startswith(PICKS):
        raise UnknownNetwork(
            f"{name} picks boxes by their scores, so that which kernels run is a matter of values\n"
            "remedy: its backbone, such as torchvision:resnet50, or a detector whose boxes stand on a grid: "
            "torchvision:retinanet_resnet50_fpn --batch 16, hf:facebook/detr-resnet-50"
        )
    if kind.startswith("detection"):
        return _detector(made, called)
    if kind.startswith("segmentation"):
        return _images(made, (3, 520, 520), called, _pixels)
    if kind.startswith("video"):
        frames, side = next((each for start, each in CLIP.items() if name.startswith(start)), (16, 112))
        return _images(made, (3, frames, side, side), called)
    if kind.startswith("optical_flow"):
        return Plan(made, lambda batch: (torch.zeros(batch, 3, 368, 496), torch.zeros(batch, 3, 368, 496)), None, mean,
                    f"{called} with two images of (3, 368, 496)")  # fmt: skip
    size = 299 if name == "inception_v3" else 224
    return _images(made, (3, size, size), called, _heads if name in AUXILIARY else None)


def timm_plan(name: str) -> Plan:
    import timm
    import torch

    if not timm.is_model(name):
        raise UnknownNetwork(f"timm {timm.__version__} has no network {name!r}")
    own = timm.get_pretrained_cfg(name, allow_unregistered=True)
    size = tuple(getattr(own, "input_size", None) or (3, 224, 224))

    def loss(output: Any, targets: Any) -> Any:
        """Cross entropy of logits, of each head where a network distils; else the mean."""
        logits = [each for each in floats(output) if each.dim() == 2]
        return sum(torch.nn.functional.cross_entropy(each, targets) for each in logits) if logits else mean(output)

    return _images(lambda: timm.create_model(name, pretrained=False), size,
                   f"captured from timm {timm.__version__}: {name}", loss)  # fmt: skip
