"""What a user does first, with nothing but a bare Python: installs the wheel in a virtual environment, and asks it.

  python3 tour.py WHEEL FOLDER

The answers stay in FOLDER. The last line on standard output is how long each took, in seconds of the
clock and of the CPU, as JSON.
"""
import json
import os
import pathlib
import resource
import shutil
import subprocess
import sys
import time

wheel, folder = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
TOOLS = ("c++", "g++", "gcc", "cc", "clang", "cmake", "ninja", "make")
took = {"tools": [tool for tool in TOOLS if shutil.which(tool)]}
CPU_SECONDS_OF_THE_FIRST_ANSWER = 5  # what others do on this machine does not count


def cpu_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def timed(what, words):
    begin, before = time.monotonic(), cpu_seconds()
    done = subprocess.run([str(word) for word in words], cwd=folder, capture_output=True, text=True)
    took[what] = [round(time.monotonic() - begin, 2), round(cpu_seconds() - before, 2)]
    if done.returncode != 0:
        sys.exit(f"FAILED {what}: {' '.join(map(str, words))}: {done.stdout[-500:]}{done.stderr[-2000:]}")
    return done.stdout


def check(what, condition):
    if not condition:
        sys.exit(f"FAILED {what}")


folder.mkdir(parents=True, exist_ok=True)
bin_folder = folder / "venv" / "bin"
timed("venv", [sys.executable, "-m", "venv", "--clear", folder / "venv"])
timed("install", [bin_folder / "pip", "install", "--quiet", "--no-index", wheel])
for name in ("REHEARSE", "REHEARSE_DATA"):
    os.environ.pop(name, None)
os.environ["PATH"] = f"{bin_folder}{os.pathsep}{os.environ['PATH']}"
(package,) = (folder / "venv" / "lib").glob("python*/site-packages/rehearse_sim")
share = package / "share" / "rehearse"

# The README's example, a study, a plan and a page.
shutil.copytree(share / "scenarios", folder / "scenarios", dirs_exist_ok=True)
run = ["rehearse", "run", "scenarios/p5_llama7b_fsdp.yaml"]
(folder / "run.json").write_text(timed("first answer", [*run, "--format", "json"]))
check("the first answer is late", took["first answer"][1] < CPU_SECONDS_OF_THE_FIRST_ANSWER)
study = {"scenario": "scenarios/toy_ddp.yaml", "vary": {"cluster.nodes": [1, 2, 3, 4]}}
(folder / "study.yaml").write_text(json.dumps(study))
(folder / "plan.yaml").write_text(json.dumps({**study, "objective": "throughput"}))
for command, file in (("sweep", "study.yaml"), ("plan", "plan.yaml")):
    answer = json.loads(timed(command, ["rehearse", command, file, "--quiet", "--format", "json"]))
    check(f"the {command} answers", answer["schema"].startswith("rehearse."))
timed("page", [*run, "--quiet", "--html", "page.html"])
page = (folder / "page.html").read_text()
check("the page has its chart library", "Chart" in page and len(page) > 200_000)
check("the page asks no network", 'src="http' not in page and "@import" not in page)

ask = """
import json, rehearse_sim
assert rehearse_sim.shipped("scenarios/p5_llama7b_fsdp.yaml").exists()
p = rehearse_sim.predict("scenarios/p5_llama7b_fsdp.yaml")
assert p.to_dict() == json.load(open("run.json")), "Python says something else"
rows = rehearse_sim.sweep("study.yaml", kind="rows")
assert len(rows) == 4 and all(row["error"] is None for row in rows), rows
"""
timed("python", [bin_folder / "python", "-c", ask])
check("a mistake is told", subprocess.run(
    ["rehearse", "run", "scenarios/keys.md"], cwd=folder, capture_output=True).returncode == 2)  # fmt: skip
check("its help needs no build", "calibrat" in timed("help", ["rehearse", "calibrate", "--help"]))
shutil.rmtree(folder / "venv")
print(json.dumps(took))
