"""A study of 5,000 points, from the reports of a small one, or the timeline of 10,000 operations.

    large.py study STUDY.json >LARGE.json
    large.py timeline >EXTRAS.json
"""

import json
import sys

POINTS = 5000
OPERATIONS = 10000
LANES = 10


def study(file_name):
    with open(file_name, encoding="utf-8") as file:
        large = json.load(file)
    reports = [point["report"] for point in large["points"] if point["report"]]
    large["axes"] = ["nodes", "batch", "variant"]
    large["points"] = []
    for number in range(POINTS):
        report = dict(reports[number % len(reports)])
        report["step_time_s"] *= 1 + number / POINTS
        vary = {"nodes": str(2 ** (number % 10)), "batch": str(number // 10 % 10), "variant": f"variant {number // 100}"}
        large["points"].append({"point": number + 1, "vary": vary, "exit_code": 0, "error": None, "report": report})
    return large


def timeline():
    each = LANES / OPERATIONS
    spans = [[i % LANES, i // LANES * each, (i // LANES + 0.9) * each, i % 100, i % 4, 1] for i in range(OPERATIONS)]
    return {"timeline": {"iteration": 1, "length_s": 1.0, "ranks": LANES, "operations": OPERATIONS, "spans": spans,
                         "phases": ["forward", "backward", "optimizer", "communication"],
                         "lanes": [{"rank": i, "name": "compute"} for i in range(LANES)],
                         "labels": [f"operation {i}" for i in range(100)]}, "memory": []}


json.dump(study(sys.argv[2]) if sys.argv[1] == "study" else timeline(), sys.stdout)
