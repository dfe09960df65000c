"""What the tensors of a prediction take at the most, as those of a fake run are counted."""

import json
import os
import pickle
import subprocess
from pathlib import Path


def requested_peak(question, folder):
    """The most bytes that tensors have, in pieces of 512, cuBLAS's workspaces left out. What
    PyTorch's allocator counts as allocated is more: it leaves up to 1 MiB of a large block unsplit
    (c10/cuda/CUDACachingAllocator.cpp: should_split), which no fake tensor knows."""
    scenario, snapshot = Path(folder) / "scenario.yaml", Path(folder) / "memory.pickle"
    scenario.write_text(json.dumps(question, default=str))
    subprocess.run([os.environ["REHEARSE"], "run", scenario, "--memory-snapshot", snapshot,
                    "--no-intervals", "--quiet"], stdout=subprocess.DEVNULL, check=True)
    events = pickle.loads(snapshot.read_bytes())["device_traces"][0]
    now = most = 0
    live = {}
    for event in events:
        if event["action"] == "alloc" and event["frames"][0]["filename"] != "cuBLAS":
            live[event["addr"]] = (event["size"] + 511) // 512 * 512
            now += live[event["addr"]]
            most = max(most, now)
        elif event["action"] == "free_requested":
            now -= live.pop(event["addr"], 0)
    return most
