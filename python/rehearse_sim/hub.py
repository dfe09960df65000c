"""Configs of models of the Hugging Face hub, by way of transformers, where it is installed."""

from __future__ import annotations

import importlib.util
import re

from .errors import RehearseError

MISSING = re.compile(r"the hub's cache has no (?P<id>[\w.-]+/[\w.-]+)")


def fetch_config(error: RehearseError) -> bool:
    """Where an error says that the hub's cache has no config of an id: has transformers' AutoConfig
    fetch it into that cache; whether it has. What keeps it from it becomes the error's cause."""
    found = (MISSING.search(each.message) for each in error.mistakes)
    wanted = next((each for each in found if each), None)
    if wanted is None or not importlib.util.find_spec("transformers"):
        return False
    from transformers import AutoConfig

    try:
        AutoConfig.from_pretrained(wanted["id"])
    except Exception as why:  # no network, no such model, no access
        error.__cause__ = why
        return False
    return True
