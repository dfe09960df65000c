"""What measure writes of what is recorded."""
import argparse
import importlib.machinery
import importlib.util
import pathlib
import sys
import unittest

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))


def program(name):
    """A script without an ending, as a module."""
    loader = importlib.machinery.SourceFileLoader(name, str(HERE / name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader))
    loader.exec_module(module)
    return module


class Cases(unittest.TestCase):
    measure = program("measure")
    options = argparse.Namespace(output=HERE / "recorded")

    def test_they_are_what_is_kept(self):
        written = self.measure.cases_text(self.measure.read_plan(), self.options)
        self.assertTrue(written == (HERE / "cases.yaml").read_text(encoding="utf-8"), "measure would write another cases.yaml")


if __name__ == "__main__":
    unittest.main()
