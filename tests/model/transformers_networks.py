"""Builds transformers' networks from config.json files; ends with 4 where a package is missing."""
import sys

try:
    import torch
    import transformers

    transformers.logging.set_verbosity_error()
except ImportError as missing:
    print(f"error: {missing}", file=sys.stderr)
    sys.exit(4)


def text_model(config: dict) -> dict:
    """The language model of an image and text network."""
    return config.get("text_config", config)


def build(fields: dict, device: str = "meta") -> torch.nn.Module:
    fields = text_model(dict(fields))
    architectures = fields.pop("architectures", ["AutoModelForCausalLM"])
    fields.pop("auto_map", None)
    fields.pop("quantization_config", None)
    config = transformers.AutoConfig.for_model(**fields)
    name = architectures[0].replace("MPTFor", "MptFor")
    make = getattr(transformers, name, None) or transformers.AutoModelForCausalLM
    with torch.device(device):
        if make is transformers.AutoModelForCausalLM:
            return make.from_config(config)
        return make(config)
