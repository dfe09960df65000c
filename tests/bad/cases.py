"""The wrong inputs of tests/bad: one file for each topic, read, laid out as files, and written.

TOPIC.cases holds files, each below a line "=== NAME". A file that ends with .yaml is run as a scenario and
must exit 2. A file that ends with .args holds the expected exit code and the arguments, written as for a
shell. Both are cases: what the program must say stands below a line "--- says". Any other file is there for
the cases to read.
"""
import dataclasses
import pathlib
import re
import subprocess

root = pathlib.Path(__file__).resolve().parent.parent.parent
folder = root / "tests/bad"
# What the cases name from where they stand.
_neighbours = ("tests/data", "tests/plan", "tests/study", "tests/validation/staleness", "scenarios", "platforms")


@dataclasses.dataclass
class File:
    """One file of a topic; `said` is None where it is no case."""

    topic: str
    name: str
    text: str
    said: str | None

    @property
    def case(self):
        return self.name.rsplit(".", 1)[0]

    @property
    def path(self):
        """Where it is laid out, from the root of the tree."""
        return f"tests/bad/{self.topic}/{self.name}"


def read():
    """All files of all topics, in the order in which they stand."""
    return [file for kept in sorted(folder.glob("*.cases")) for file in _read_topic(kept)]


def _read_topic(kept):
    head, *blocks = re.split(r"^=== ", kept.read_text(), flags=re.MULTILINE)
    if head:
        raise ValueError(f"{kept}: it does not begin with a line \"=== NAME\"")
    for block in blocks:
        name, _, rest = block.partition("\n")
        text, mark, said = rest.partition("--- says\n")
        yield File(kept.stem, name, text, said if mark else None)


def is_case(name):
    return name.endswith((".yaml", ".args"))


def write(files):
    """Writes the topics' files anew; within a topic, files stand in the order of their names."""
    for topic in sorted({file.topic for file in files}):
        ours = sorted((file for file in files if file.topic == topic), key=lambda file: file.name)
        text = "".join(f"=== {file.name}\n{file.text}" + ("" if file.said is None else f"--- says\n{file.said}") for file in ours)
        (folder / f"{topic}.cases").write_text(text)


def loose():
    """Files in a folder TOPIC that are to be taken into TOPIC.cases."""
    return sorted(path for path in folder.glob("*/*") if path.parent.name != "__pycache__")


def take_in(files):
    """The files and the loose ones, which are deleted."""
    for path in loose():
        text = path.read_text()
        if text and not text.endswith("\n"):
            raise ValueError(f"{path}: its last line has no end")
        files = [file for file in files if (file.topic, file.name) != (path.parent.name, path.name)]
        files.append(File(path.parent.name, path.name, text, "" if is_case(path.name) else None))
        path.unlink()
        if not any(path.parent.iterdir()):
            path.parent.rmdir()
    return files


def lay_out(tree, files):
    """Writes the files into a tree, beside links to what they name."""
    for neighbour in _neighbours:
        (tree / neighbour).parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["cp", "-rs", str(root / neighbour), str(tree / neighbour)], check=True)
    for file in files:
        (tree / file.path).parent.mkdir(parents=True, exist_ok=True)
        (tree / file.path).write_text(file.text)
