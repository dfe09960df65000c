#!/usr/bin/env python3
"""Sets of records: a folder of recorded runs as one file, which `rehearse` reads as that folder.

    tests/validation/record_set.py pack FOLDER      all of FOLDER but cases.yaml and README.md becomes
                                                    FOLDER/records.tar.xz, which cases.yaml names then
    tests/validation/record_set.py unpack FOLDER    the other way round

`tar -xf SET` unpacks a set, too, and `tar -tf SET` lists it. The same records make the same bytes.
"""
import io
import lzma
import pathlib
import re
import shutil
import sys
import tarfile

SET = "records.tar.xz"
KEPT = ("cases.yaml", "README.md", SET)
NAMED = re.compile(r"^( +(?:scenario|recorded): )(?!/)", re.MULTILINE)


def write(file, records):
    """Records by name, as text or bytes."""
    tar = io.BytesIO()
    with tarfile.open(fileobj=tar, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name in sorted(records):
            data = records[name]
            data = data.encode() if isinstance(data, str) else data
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(data), 0o644
            archive.addfile(entry, io.BytesIO(data))
    pathlib.Path(file).write_bytes(lzma.compress(tar.getvalue(), preset=9 | lzma.PRESET_EXTREME))


def read(file):
    """Bytes by name."""
    with tarfile.open(file) as archive:
        return {entry.name: archive.extractfile(entry).read() for entry in archive if entry.isfile()}


def pack(folder):
    folder = pathlib.Path(folder)
    files = [file for file in folder.rglob("*") if file.is_file() and str(file.relative_to(folder)) not in KEPT]
    if not files or (folder / SET).exists():
        sys.exit(f"{folder}: error: there is nothing to pack, or {SET} is there already\n"
                 f"remedy: unpack {folder} first")
    write(folder / SET, {str(file.relative_to(folder)): file.read_bytes() for file in files})
    cases = folder / "cases.yaml"
    cases.write_text(NAMED.sub(rf"\g<1>{SET}/", cases.read_text(encoding="utf-8")), encoding="utf-8")
    for file in files:
        file.unlink()
    for inside in folder.iterdir():
        if inside.is_dir():
            shutil.rmtree(inside)


def unpack(folder):
    folder = pathlib.Path(folder)
    for name, data in read(folder / SET).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    cases = folder / "cases.yaml"
    cases.write_text(cases.read_text(encoding="utf-8").replace(f": {SET}/", ": "), encoding="utf-8")
    (folder / SET).unlink()


def main():
    commands = {"pack": pack, "unpack": unpack}
    if len(sys.argv) != 3 or sys.argv[1] not in commands:
        sys.exit(__doc__)
    commands[sys.argv[1]](sys.argv[2])


if __name__ == "__main__":
    main()
