"""What PyTorch calls of a network's training step, below autograd, without numbers or a GPU."""
from __future__ import annotations

import gc
import sys
import warnings
from pathlib import Path
from unittest import mock

warnings.filterwarnings("ignore")
ROOT = Path(__file__).resolve().parents[2]
for folder in ("python", "tests/model", "tests/python"):
    sys.path.insert(0, str(ROOT / folder))

import torch  # noqa: E402
from networks import torchvision_models  # noqa: E402

torchvision_models()  # transformers loads it
import transformers  # noqa: E402
from fake_families import FAMILIES, config_of  # noqa: E402
from rehearse_sim.capturing import cuda_rules  # noqa: E402
from rehearse_sim.capturing.capture import _convert  # noqa: E402
from rehearse_sim.capturing.recorder import Recorder  # noqa: E402
from rehearse_sim.capturing.running import recording  # noqa: E402
from rehearse_sim.capturing.units import find_blocks  # noqa: E402
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402

HEADS = {"causal": transformers.AutoModelForCausalLM, "masked": transformers.AutoModelForMaskedLM,
         "seq2seq": transformers.AutoModelForSeq2SeqLM}
DTYPES = {"bf16_pure": torch.bfloat16, "fp32": torch.float32, "bf16": torch.float32}


def _recorded(module, precision, loss_of, batch):
    module.train()
    recorder = Recorder(module, find_blocks(module))
    recorder.watch_resident([*module.buffers(), *batch])
    with recording(recorder):
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
            loss = loss_of(module)
        recorder.start_backward()
        loss.backward()
        del loss
        gc.collect()
        recorder.finish()
    return recorder


def _replaced(module, *args, **given):
    """module.to(), which fake tensors refuse: other parameters in the place of these."""
    dtype = torch._C._nn._parse_to(*args, **given)[1]
    for each in module.modules():
        for name, one in list(each._parameters.items()):
            if dtype is not None and one is not None and one.dtype not in (dtype, torch.int64):
                each._parameters[name] = torch.nn.Parameter(one.detach().to(dtype),
                                                            one.requires_grad)
    return module


def _transformer(case):
    config, _ = config_of(case.network)
    with cuda_rules.building():
        module = HEADS[FAMILIES[case.network].head].from_config(
            config, attn_implementation=case.attention, dtype=DTYPES[case.precision])
    for each in module.modules():  # a decoder's config is a copy
        if hasattr(getattr(each, "config", None), "use_cache"):
            each.config.use_cache = False
    if case.lora:
        import peft
        with mock.patch.object(torch.nn.Module, "to", _replaced):
            module = peft.get_peft_model(module, peft.LoraConfig(target_modules=case.lora, r=8))
    if case.checkpointed:
        module.gradient_checkpointing_enable({"use_reentrant": False})
    ids = torch.zeros(case.batch, case.tokens, dtype=torch.long)
    return _recorded(module, case.precision,
                     lambda own: own(input_ids=ids, labels=ids).loss, [ids])


def _image(case):
    with cuda_rules.building():
        module = getattr(torchvision_models(), case.network)()
    if case.precision == "bf16_pure":
        _convert(module, torch.bfloat16)
    images = torch.zeros(case.batch, 3, 224, 224, dtype=DTYPES[case.precision])
    classes = torch.zeros(case.batch, dtype=torch.long)
    return _recorded(module, case.precision,
                     lambda own: torch.nn.functional.cross_entropy(own(images), classes),
                     [images, classes])


def units_of(case) -> list:
    """[name, forward, backward] of each unit; a call is [operator, reads, writes], and each side
    [type, sizes]."""
    with FakeTensorMode(allow_non_fake_inputs=True), cuda_rules.as_on_cuda():
        recorder = (_image if case.image else _transformer)(case)

    def calls(kernels):
        return [[one.name, [[t[0], list(t[1])] for t in one.reads],
                 [[t[0], list(t[1])] for t in one.writes]] for one in kernels]
    return [[unit.name, calls(unit.forward), calls(unit.backward)] for unit in recorder.units]


def fields_of(case) -> dict:
    return config_of(case.network)[1]
