"""In front of PYTHONPATH: Python runs this first in every process of the recorded command. It
starts the agent, then the environment's own sitecustomize. Whatever fails here fails in silence: the run
goes on as without us."""

import contextlib
import importlib
import os
import sys


def _begin() -> None:
    if not os.environ.get("PYTHON_REHEARSE_RECORD"):
        return
    import importlib.util

    folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    place = os.path.join(folder, "agent.py")
    spec = importlib.util.spec_from_file_location("_rehearse_agent", place)
    if spec is None or spec.loader is None:
        return
    agent = importlib.util.module_from_spec(spec)
    sys.modules["_rehearse_agent"] = agent
    spec.loader.exec_module(agent)
    agent.install(os.environ["PYTHON_REHEARSE_RECORD"])


def _go_on() -> None:
    """The sitecustomize that would have run without this one."""
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [each for each in sys.path if os.path.abspath(each or ".") != here]
    own = sys.modules.pop("sitecustomize", None)
    try:
        importlib.import_module("sitecustomize")
    except ImportError as error:
        if error.name != "sitecustomize":
            raise
        if own is not None:
            sys.modules["sitecustomize"] = own


with contextlib.suppress(Exception):
    _begin()
_go_on()
