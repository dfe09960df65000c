"""Asks a framework's own code whether it takes files: judge.py FRAMEWORK FILE...

Prints "legal NAME" or "REFUSED NAME: WHY" for each, and ends with 77 where the framework is missing.
"""
import dataclasses
import importlib.abc
import importlib.machinery
import json
import os
import pathlib
import shlex
import sys
import typing
from unittest import mock


def accelerate(file):
    """What `accelerate launch` makes of it, and the plugins that a script's Accelerator makes of that."""
    from accelerate import DeepSpeedPlugin, FullyShardedDataParallelPlugin
    from accelerate.commands import launch
    from accelerate.parallelism_config import ParallelismConfig
    from accelerate.utils import launch as environments

    arguments = launch.launch_command_parser().parse_args(["--config_file", str(file), "train.py"])
    arguments, settings, _ = launch._validate_launch_command(arguments)
    with mock.patch.dict(os.environ):
        if arguments.use_deepspeed:
            arguments.deepspeed_fields_from_accelerate_config = ",".join(settings.deepspeed_config)
            os.environ.update(environments.prepare_deepspeed_cmd_env(arguments)[1])
            return DeepSpeedPlugin()
        os.environ.update(environments.prepare_multi_gpu_env(arguments))
        # Copies of rank 0's parameters need a device.
        os.environ.update(FSDP_SYNC_MODULE_STATES="false", FSDP_CPU_RAM_EFFICIENT_LOADING="false")
        if arguments.use_fsdp:
            FullyShardedDataParallelPlugin()
            assert arguments.fsdp_auto_wrap_policy, "without a policy nothing is wrapped"
        if arguments.use_parallelism_config:
            sizes = ParallelismConfig()
            assert sizes.total_size == arguments.num_processes, f"{sizes.total_size} ranks of {arguments.num_processes}"


def deepspeed(file):
    from deepspeed.runtime import config

    settings = json.loads(file.read_text())
    micro = settings["train_micro_batch_size_per_gpu"] * settings.get("gradient_accumulation_steps", 1)
    ranks = settings.get("train_batch_size", micro) // micro * settings.get("sequence_parallel_size", 1)
    with mock.patch.object(config.dist, "get_rank", lambda: 0), mock.patch.object(config.dist, "get_world_size", lambda: ranks):
        config.DeepSpeedConfig(settings)


def torchtitan(file):
    from torch.distributed.pipelining.schedules import get_schedule_class
    from torchtitan.config import ConfigManager

    config = ConfigManager().parse_args(["--job.config_file", str(file)])
    get_schedule_class(config.parallelism.pipeline_parallel_schedule)


def megatron(file):
    # Python 3.11 has none.
    typing.override = getattr(typing, "override", lambda method: method)
    from megatron.training import arguments

    lines = file.read_text().replace("\\\n", " ").splitlines()
    variables = dict(line.split(" ")[1].split("=") for line in lines if line.startswith("export "))
    words = shlex.split(next(line for line in lines if line.startswith("torchrun ")))
    script = next(place for place, word in enumerate(words) if word.startswith("pretrain_"))
    launcher = dict(zip(words[1:script:2], map(int, words[2:script:2])))
    variables.update(RANK="0", LOCAL_RANK="0", WORLD_SIZE=str(launcher["--nproc_per_node"] * launcher["--nnodes"]))
    hopper = mock.Mock(major=9, minor=0)
    with (mock.patch.dict(os.environ, variables), mock.patch.object(sys, "argv", words[script:]),
          mock.patch("torch.cuda.get_device_properties", lambda *_: hopper), mock.patch("torch.cuda.get_device_capability", lambda *_: (9, 0))):
        arguments.validate_args(arguments.parse_args())


def axolotl(file):
    """What `axolotl train` checks on eight Hoppers, before it loads anything."""
    import yaml

    absent("ring_flash_attn")
    from axolotl.utils.config import validate_config
    from axolotl.utils.dict import DictDefault

    gpu = {"bf16": True, "fp8": True, "tf32": True, "n_gpu": 8, "compute_capability": "sm_90"}
    settings = yaml.safe_load(file.read_text())
    if plugins := settings.get("plugins"):
        from axolotl.integrations.base import PluginManager

        for plugin in plugins:
            PluginManager.get_instance().register(plugin)
    validate_config(DictDefault(settings), capabilities=gpu, env_capabilities={"torch_version": "2.9.0"})


def trl(file):
    from transformers import training_args
    from trl import ModelConfig, ScriptArguments, SFTConfig, TrlParser

    os.chdir(file.parent)
    pathlib.Path("ds_config.json").write_text('{"zero_optimization": {"stage": 2}}')
    # The device's abilities are not the file's.
    with mock.patch.object(training_args, "is_torch_bf16_gpu_available", lambda: True), mock.patch.object(training_args, "is_torch_tf32_available", lambda: True), mock.patch.object(training_args, "is_accelerate_available", lambda *_: True):
        TrlParser((ScriptArguments, SFTConfig, ModelConfig)).parse_args_and_config(["--config", str(file)])


def torchtune(file):
    """What `tune validate` does: each component is there and takes its arguments."""
    from omegaconf import OmegaConf
    from torchtune.config import validate

    validate(OmegaConf.load(file))


def absent(*packages):
    """Packages whose kernels are compiled for GPUs, as names that import and do nothing."""
    class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
        def find_spec(self, name, path, target=None):
            return importlib.machinery.ModuleSpec(name, self, is_package=True) if name.split(".")[0] in packages else None

        def create_module(self, spec):
            return mock.MagicMock(name=spec.name, __name__=spec.name, __path__=[], __spec__=spec, __version__="2.9.0")

        def exec_module(self, module):
            pass

    sys.meta_path.insert(0, Finder())


def nemo(file):
    """The YAML laid over a recipe of Megatron-Bridge, whose fields it names."""
    import torch

    absent("transformer_engine", "modelopt", "nvidia_resiliency_ext", "mamba_ssm", "causal_conv1d")
    from megatron.bridge.models.gpt_provider import GPTModelProvider
    from megatron.bridge.models.mla_provider import MLAModelProvider
    from megatron.bridge.training import config
    from megatron.bridge.training.comm_overlap import CommOverlapConfig
    from megatron.bridge.training.mixed_precision import get_mixed_precision_config
    from megatron.bridge.training.utils.omegaconf_utils import process_config_with_overrides

    text = file.read_text()
    provider = MLAModelProvider if "kv_lora_rank" in text else GPTModelProvider
    recipe = config.ConfigContainer(
        train=config.TrainingConfig(), model=provider(num_layers=2, hidden_size=128, num_attention_heads=8, activation_func=torch.nn.functional.silu),
        optimizer=config.OptimizerConfig(), scheduler=config.SchedulerConfig(), logger=config.LoggerConfig(),
        dataset=config.MockGPTDatasetConfig(seq_length=128, random_seed=1, reset_position_ids=False, reset_attention_mask=False, eod_mask_loss=False),
        tokenizer=config.TokenizerConfig(tokenizer_type="NullTokenizer", vocab_size=1000), checkpoint=config.CheckpointConfig(),
        ddp=config.DistributedDataParallelConfig(), comm_overlap=CommOverlapConfig(tp_comm_overlap=False), mixed_precision="bf16_mixed")
    made = process_config_with_overrides(recipe, str(file))
    get_mixed_precision_config(made.mixed_precision)
    names = {section: {field.name for field in dataclasses.fields(getattr(made, section))} | {"seq_length"} for section in ("train", "model", "ddp", "optimizer", "dataset", "comm_overlap")}
    import yaml

    for section, settings in yaml.safe_load(text).items():
        for key in settings if isinstance(settings, dict) else ():
            assert key in names[section], f"{section}.{key} is no field of {type(getattr(made, section)).__name__}"
    made.model.finalize()


def main(framework, files):
    judge = globals()[framework]
    for file in map(pathlib.Path, files):
        try:
            judge(file)
            print(f"legal {file.stem}", flush=True)
        except ModuleNotFoundError as missing:
            print(missing, file=sys.stderr)
            sys.exit(77)
        except (Exception, SystemExit) as refused:
            print(f"REFUSED {file.stem}: {type(refused).__name__}: {' '.join(str(refused).split())}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
