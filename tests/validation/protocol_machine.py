"""What else the machine does while it is measured: other programs, other guests of its host, and how fast its cores are.

Cores of a machine that others use change their speed without any time being stolen: on one with four cores a step that took
0.48 ms a sample while it was calibrated took 0.70 to 0.85 for twenty minutes after.
"""

import concurrent.futures
import dataclasses
import json
import os
import pathlib
import statistics
import tempfile
import time

import protocol_calibration
from protocol_run import BUSY, Stop, run, tell

# Cores that others may use, over a sample.
IDLE_ENOUGH, SAMPLE_S, PATIENCE_S = 0.2, 1.0, 120
# Of the time in which cores wanted to run: where others took more, a run is summed up apart. What its computation then takes
# longer by is as much as predictions may be off.
DISTURBED = 0.1
# Forward passes at a batch that was calibrated, on all cores at once, in processes that wait between their steps as those of
# training do; with no network.
SPEED_COMMAND = ["step", "--nproc", "1", "--strategy", "ddp", "--model", protocol_calibration.BUSY_MODEL, "--image", "32",
                 "--batch", str(protocol_calibration.BUSY_BATCH), "--steps", "30", "--warmup", "5", "--slow", "0:30",
                 "--threads", "1", "--cpu", "--quiet", "--output"]
SPEED_S = 4  # roughly, for the plan
GUESTS_PATIENCE_S, GUESTS_PAUSE_S = 300, 5


def ticks():
    """Of all cores since the machine began: their time, what was idle, and what other guests of the host took."""
    with open("/proc/stat", encoding="utf-8") as lines:
        fields = [int(field) for field in lines.readline().split()[1:9]]
    return sum(fields), fields[3] + fields[4], fields[7]


def busy_cores():
    """Cores that compute, over a short sample."""
    before = ticks()
    time.sleep(SAMPLE_S)
    after = ticks()
    return (1 - (after[1] - before[1]) / max(1, after[0] - before[0])) * os.cpu_count()


def stolen(before, after):
    """The part of the time in which cores wanted to run that other guests of the host took."""
    wanted = (after[0] - before[0]) - (after[1] - before[1])
    return (after[2] - before[2]) / max(1, wanted)


def wait_for_idle(force):
    begin = time.monotonic()
    told = False
    while (cores := busy_cores()) > IDLE_ENOUGH and not force:
        if time.monotonic() - begin > PATIENCE_S:
            raise Stop(BUSY, f"error: other programs use {cores:.1f} cores, and times would be theirs\n"
                             "remedy: try again when the machine is idle (what is recorded stays), or --force")
        if not told:
            tell(f"waiting: other programs use {cores:.1f} cores")
            told = True
    return cores


@dataclasses.dataclass(frozen=True)
class Speed:
    """Of the cores, over what they had when they were calibrated; and what others took of them meanwhile (stolen())."""

    relative: float
    stolen: float

    @property
    def disturbed(self):
        return self.stolen >= DISTURBED


def speed_now(calibrator, frozen, folder):
    before = ticks()
    with tempfile.TemporaryDirectory() as scratch:
        files = [pathlib.Path(scratch) / f"{core}.json" for core in range(os.cpu_count())]
        with concurrent.futures.ThreadPoolExecutor(len(files)) as pool:
            list(pool.map(lambda file: run([calibrator, *SPEED_COMMAND, str(file)], 60, folder), files))
        forward = statistics.mean(forward_s(json.loads(file.read_text(encoding="utf-8"))) for file in files)
    return Speed(round(frozen.forward_s() / forward, 3), stolen(before, ticks()))


def forward_s(report):
    return report["per_rank"][0]["phases"]["forward_s"]


def speed_when_left_alone(calibrator, frozen, folder, force):
    """Waits while other guests take much, but not for ever."""
    begin = time.monotonic()
    while (speed := speed_now(calibrator, frozen, folder)).disturbed and not force:
        if time.monotonic() - begin > GUESTS_PATIENCE_S:
            break
        tell(f"waiting: other guests of the host take {speed.stolen:.0%} of the time")
        time.sleep(GUESTS_PAUSE_S)
    return speed


def has_changed(before, after):
    """By as much as predictions may be off."""
    return abs(after / before - 1) >= DISTURBED
