"""The wheel's bill of materials beside what the wheel holds.

  bill.py UNPACKED LICENSES.md

Its licences are those of METADATA, its texts are those in licenses/, LICENSES.md has a row for each part, and the
program itself holds the versions that its libraries leave in it. `package` checks it against CycloneDX's schema.
"""
import json
import pathlib
import re
import sys

wheel, table = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]).read_text()
(file,) = wheel.glob("*.dist-info/sboms/rehearse.cdx.json")
bill = json.loads(file.read_text())
parts = bill["components"]
wrong = []


def check(what, condition):
    if not condition:
        wrong.append(what)


def license_of(part):
    (one,) = part["licenses"]
    return one.get("expression") or one["license"].get("id") or one["license"]["name"]


def values(part, name):
    return [one["value"] for one in part["properties"] if one["name"] == f"rehearse:{name}"]


check("it is no CycloneDX 1.6", (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6"))
(metadata,) = wheel.glob("*.dist-info/METADATA")
told = re.search(r"^License-Expression: (.+)$", metadata.read_text(), re.MULTILINE)[1].split(" AND ")
licenses = {"MIT"} | {license_of(part) for part in parts}
check(f"METADATA tells {sorted(told)}, the bill {sorted(licenses)}", set(told) == licenses)
version = re.search(r"^Version: (.+)$", metadata.read_text(), re.MULTILINE)[1]
check("it is of another version", bill["metadata"]["component"]["version"] == version)

share = wheel / "rehearse_sim" / "share" / "rehearse"
texts = {f"licenses/{text.name}" for text in (share / "licenses").iterdir()}
named = {text for part in parts for text in values(part, "license_text")}
check(f"licences' texts without a part, or the reverse: {sorted(texts ^ named)}", texts == named)
for part in parts:
    check(f"{part['name']} is not in LICENSES.md", part["name"].lower() in table.lower())
    check(f"{part['name']} has no version", re.fullmatch(r"[0-9]+(\.[0-9]+)+", part["version"]))
    for place in values(part, "part_of"):
        check(f"{place} is not in the wheel", list(wheel.glob(f"{place}*")))

# Versions that libraries leave in what is linked with them: the program, not the bill's maker, says them.
versions = {part["name"]: part["version"] for part in parts}
program = (wheel / "rehearse_sim" / "bin" / "rehearse").read_bytes()
for name, text in {"SQLite": "{}", "zlib": "inflate {} Copyright", "Chart.js": "Chart.js v{}"}.items():
    check(f"the program holds no {name} {versions[name]}", text.format(versions[name]).encode() in program)
(simgrid,) = wheel.glob("rehearse_sim.libs/libsimgrid-*.so*")
check("SimGrid is another", versions["SimGrid"].encode() in simgrid.read_bytes())
check("SimGrid's source is another", list(share.glob(f"simgrid-{versions['SimGrid']}.tar.gz")))

print(*wrong, sep="\n", end="\n" if wrong else "")
print(f"bill of materials: {len(parts)} parts")
sys.exit(bool(wrong))
