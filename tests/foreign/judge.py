"""Asks a framework's own code whether it takes files: judge.py FRAMEWORK FILE...

Prints "legal NAME" or "REFUSED NAME: WHY" for each, and ends with 77 where the framework is missing.
"""
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
