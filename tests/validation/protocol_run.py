"""How the protocol runs programs, and how it ends."""

import subprocess
import sys

FAILED, WRONG, MISSING, BUSY, SKIPPED = 1, 2, 4, 75, 77


class Stop(Exception):
    def __init__(self, code, text):
        super().__init__(text)
        self.code = code


def tell(text):
    print(text, file=sys.stderr, flush=True)


def run(command, limit_s, folder):
    """Its standard output. A run that is stopped, or takes too long, is asked to end, so that the testbed cleans up."""
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        out, err = process.communicate(timeout=limit_s)
    except BaseException as error:
        process.terminate()
        process.communicate()
        if isinstance(error, subprocess.TimeoutExpired):
            raise Stop(FAILED, f"took longer than {limit_s:.0f} s") from None
        raise
    if process.returncode == SKIPPED:
        raise Stop(SKIPPED, out.strip())
    if process.returncode != 0:
        raise Stop(FAILED, (err or out).strip().splitlines()[0] if (err or out).strip() else
                   f"ended with {process.returncode}")
    return out
