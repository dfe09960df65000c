"""What measure writes of what is recorded."""
import importlib.machinery
import importlib.util
import pathlib
import sys
import unittest

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
import record_set  # noqa: E402


def program(name):
    """A script without an ending, as a module."""
    loader = importlib.machinery.SourceFileLoader(name, str(HERE / name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader))
    loader.exec_module(module)
    return module


class Cases(unittest.TestCase):
    measure = program("measure")

    def test_they_are_what_is_kept(self):
        names = {name for file in HERE.glob("*.tar.xz") for name in record_set.read(file)}
        written = self.measure.cases_text(self.measure.read_plan(), names)
        self.assertTrue(written == (HERE / "cases.yaml").read_text(encoding="utf-8"), "measure would write another cases.yaml")

    def test_points_are_rounded_and_all_else_is_kept(self):
        curve = '{"staleness":{"mean":7.4939759},"points": [\n {"time_s":0.2583934,"test_loss":1.2e-07,"test_accuracy":0.14251,"staleness":{"mean":7.1621621}}]}'
        shorter = self.measure.shortened(curve, False)
        self.assertEqual(shorter, curve.replace("0.2583934", "0.258393").replace("7.1621621", "7.16216"))
        self.assertEqual(self.measure.shortened(shorter, False), shorter)
        self.assertEqual(self.measure.shortened(curve, True), curve.replace("0.2583934", "0.258393"))


if __name__ == "__main__":
    unittest.main()
