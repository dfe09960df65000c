"""`rehearse`: the program of this package. `rehearse calibrate` builds the calibrator first, and
`rehearse record` and `rehearse capture` are this package's own."""

from __future__ import annotations

import hashlib
import os
import sys
import tarfile
import tempfile
from pathlib import Path

from .errors import MissingError, RehearseError
from .program import program

SOURCES = Path(__file__).resolve().parent / "share" / "rehearse" / "sources.tar.xz"


def unpacked(sources: Path) -> Path:
    """The packed sources as a folder of the user's cache, where their build stays. Two processes
    may unpack at once: the first one's folder is kept."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rehearse-sim"
    folder = cache / hashlib.sha256(sources.read_bytes()).hexdigest()[:16]
    if folder.exists():
        return folder
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as own, tarfile.open(sources) as packed:
        new = Path(own) / "sources"
        if hasattr(tarfile, "data_filter"):
            packed.extractall(new, filter="data")
        else:  # Python before 3.10.12
            packed.extractall(new)
        try:
            new.rename(folder)
        except OSError:
            if not folder.exists():
                raise
    return folder


def _command(words: list[str]) -> str:
    """The program, or the launcher that builds what it runs, against the active Python's torch."""
    if words[:1] == ["calibrate"] and SOURCES.exists():
        interpreters = str(Path(sys.executable).parent)
        os.environ["PATH"] = os.pathsep.join([interpreters, os.environ.get("PATH", "")])
        return str(unpacked(SOURCES) / "rehearse")
    found = program()
    if Path(found).resolve() == Path(sys.argv[0]).resolve():  # this script, by the path
        raise MissingError(
            "rehearse: error: this installation of rehearse-sim holds no program\n"
            "remedy: install the wheel for Linux on x86-64, or set REHEARSE to the program", []
        )  # fmt: skip
    return found


def main() -> int:
    """Does not return where there is a program: that takes this process over. A record does."""
    words = sys.argv[1:]
    if words[:1] == ["record"] or words[:2] == ["import", "record"]:
        from .recording.command import main as record

        return record(words)
    if words[:1] == ["capture"]:
        from .capturing.command import main as capture

        return capture(words[1:])
    try:
        own = _command(words)
    except RehearseError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    os.execv(own, ["rehearse", *words])


if __name__ == "__main__":
    sys.exit(main())
