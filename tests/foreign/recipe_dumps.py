"""Dumps of Megatron-Bridge's benchmark recipes, made without what the recipes need to run.

The recipes of a checkout (its `recipes`, `perf_recipes` and `training/mixed_precision.py`) are executed as they are.
Everything else that they import becomes a bag that keeps what is set in it. So a dump has what the recipes set, and
not the defaults of the dataclasses of Megatron-LM; a model is the name of its checkpoint.
"""
import importlib.abc
import importlib.machinery
import pathlib
import sys
import types

REAL = ("megatron.bridge.recipes", "megatron.bridge.perf_recipes", "megatron.bridge.training.mixed_precision")
TAKEN_OVER = ("megatron", "torch", "transformers", "nvidia_resiliency_ext", "omegaconf", "packaging")


class Kind(type):
    """A class of which nothing is known: what is asked of it is a name."""

    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return f"{cls.__name__}.{name}"


class Bag(metaclass=Kind):
    """Settings of an unknown class. What was not set is None."""

    def __init__(self, *args, **settings):
        self.__dict__.update(settings)

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return None

    def __class_getitem__(cls, item):
        return cls


# Blocks by the config.json of each.
LAYERS = {"meta-llama/Meta-Llama-3-8B": 32, "meta-llama/Meta-Llama-3-70B": 80, "meta-llama/Meta-Llama-3.1-405B": 126,
          "meta-llama/Llama-3.1-405B": 126, "openai/gpt-oss-20b": 24, "openai/gpt-oss-120b": 36,
          "moonshotai/Kimi-K2-Instruct": 61, "moonshotai/Kimi-K2-Base": 61}


class AutoBridge(Bag):
    @classmethod
    def from_hf_pretrained(cls, name, **_):
        return cls(checkpoint=name)

    def get_model_config(self, **_):
        # Layouts are those of Megatron-LM's ModelParallelConfig.
        sizes = ("tensor_model", "pipeline_model", "context", "expert_model")
        return Bag(_target_=self.checkpoint, num_layers=LAYERS[self.checkpoint], **{f"{size}_parallel_size": 1 for size in sizes})

    to_megatron_provider = get_model_config


class ConfigContainer(Bag):
    """Its parts are there, whether they are named or not."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        setattr(self, name, Bag())
        return getattr(self, name)


class Stub(types.ModuleType):
    __path__ = []

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        if self.__name__ == "torch" and name.islower():
            made = f"torch.{name}"
        elif name in ("AutoBridge", "ConfigContainer"):
            made = globals()[name]
        else:
            made = Kind(name, (Bag,), {"__module__": self.__name__})
        setattr(self, name, made)
        return made


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def __init__(self, source):
        self.source = source

    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] not in TAKEN_OVER:
            return None
        if any(name == real or name.startswith(real + ".") for real in REAL):
            place = self.source / name.replace(".", "/")
            if (place / "__init__.py").exists():
                return importlib.util.spec_from_file_location(name, place / "__init__.py",
                                                              submodule_search_locations=[str(place)])
            if place.with_suffix(".py").exists():
                return importlib.util.spec_from_file_location(name, place.with_suffix(".py"))
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        return Stub(spec.name)

    def exec_module(self, module):
        pass


def plain(value):
    """What JSON can hold of a recipe's value."""
    if isinstance(value, str) and value.startswith("torch."):
        return {"_target_": value, "_call_": False}  # as OmegaConf's dumps have a type
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple, set)):
        return [plain(each) for each in value]
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, type) or callable(value):
        return getattr(value, "__name__", "callable")
    if hasattr(value, "__dict__"):
        name = type(value).__name__
        return {"_target_": name} | {key: plain(each) for key, each in vars(value).items() if key[0] != "_" or
                                     key == "_target_"}
    return str(value)


def dumps(source, families):
    """By the name of a recipe, its dump: of the functions of `perf_recipes/FAMILY` of a checkout's `src`."""
    source = pathlib.Path(source)
    sys.meta_path.insert(0, Finder(source))
    found = {}
    for file in sorted((source / "megatron/bridge/perf_recipes").glob("*/*/*.py")):
        if file.name == "__init__.py" or file.parts[-3] not in families:
            continue
        name = ".".join(file.relative_to(source).with_suffix("").parts)
        module = importlib.import_module(name)
        for key, value in vars(module).items():
            if isinstance(value, types.FunctionType) and value.__module__ == name and key.endswith("_config"):
                if "gpu_" in key and key[0] != "_":
                    found[key] = plain(value())
    return found
