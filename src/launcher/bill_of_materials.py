"""What the wheel holds of others: their licences' texts, and a bill of materials (CycloneDX 1.6, as PEP 770 asks).

  bill_of_materials.py SOURCES FOLDER VERSION

SOURCES: the unpacked sources that `wheel_libraries.sh` builds. FOLDER gets `licenses/NAME.txt` and
`sboms/rehearse.cdx.json`. Its time is SOURCE_DATE_EPOCH, and its number is made of its contents: two runs write the same
bytes. Ends with a message where a licence's text or a version is not there, or the document is not valid.
"""
import dataclasses
import datetime
import json
import os
import pathlib
import re
import subprocess
import sys
import uuid

import ziglang
from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import HashAlgorithm, HashType, Property
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL

DOCUMENTS = pathlib.Path("/usr/share/doc")
PROGRAM, BOTH, SIMGRID = "rehearse_sim/bin/rehearse", "both", "rehearse_sim.libs/libsimgrid"


@dataclasses.dataclass
class Part:
    """One library: its name, its licence by SPDX, the Debian package whose `copyright` holds the text, how it got in."""

    name: str
    license: str
    package: str
    how: str  # built of Debian's source; headers: files as the package has them; inside another part
    where: str = PROGRAM
    source: str = ""  # Debian's source package, where it is built


PARTS = [
    Part("yaml-cpp", "MIT", "libyaml-cpp-dev", "built", source="yaml-cpp"),
    Part("fmt", "MIT", "libfmt-dev", "built", source="fmtlib"),
    Part("mimalloc", "MIT", "libmimalloc-dev", "built", source="mimalloc"),
    Part("cpp-httplib", "MIT", "libcpp-httplib-dev", "built", source="cpp-httplib"),
    Part("liblzma", "LicenseRef-Public-Domain", "liblzma-dev", "built", source="xz-utils"),
    Part("xxHash", "BSD-2-Clause", "libxxhash-dev", "built", source="xxhash"),
    Part("zlib", "Zlib", "zlib1g-dev", "built", source="zlib"),
    Part("SQLiteCpp", "MIT", "libsqlitecpp-dev", "built", source="sqlitecpp"),
    Part("SQLite", "blessing", "libsqlite3-dev", "inside"),
    Part("nlohmann_json", "MIT", "nlohmann-json3-dev", "headers"),
    Part("RapidJSON", "MIT", "rapidjson-dev", "headers"),
    Part("toml++", "MIT", "libtomlplusplus-dev", "headers"),
    Part("CLI11", "BSD-3-Clause", "libcli11-dev", "headers"),
    Part("Eigen", "MPL-2.0", "libeigen3-dev", "headers"),
    Part("Boost", "BSL-1.0", "libboost-dev", "headers", BOTH),
    Part("Chart.js", "MIT", "libjs-chart.js", "headers"),
    Part("@kurkle/color", "MIT", "libjs-chart.js", "inside"),
]


def fail(message):
    sys.exit(f"package: error: {message}")


def installed(package):
    """A Debian package's source, and its version with Debian's revision."""
    if package == "libboost-dev":  # it holds no file of its own
        found = subprocess.run(["dpkg-query", "--search", "/usr/include/boost/version.hpp"], capture_output=True, text=True)
        package = found.stdout.split(":")[0]
    asked = ["dpkg-query", "--show", "--showformat=${source:Package} ${source:Version}", package]
    told = subprocess.run(asked, capture_output=True, text=True)
    return told.stdout.split() if told.returncode == 0 else fail(f"dpkg-query knows no {package}")


def archive_of(sources, name):
    """Version and archive of a source that was built, as the .dsc says, which Debian signs."""
    (description,) = sources.glob(f"{name}_*.dsc")
    text = description.read_text()
    version = re.search(r"^Version: (.+)$", text, re.MULTILINE)[1]
    checksums = text.split("Checksums-Sha256:", 1)[1]
    return version, re.search(r"^ ([0-9a-f]{64}) \d+ \S+\.orig\.tar\.\S+$", checksums, re.MULTILINE)[1]


def upstream(version):
    """The library's own version: 0.7.0 of Debian's 0.7.0+dfsg-8."""
    return re.match(r"(?:\d+:)?([0-9.]*[0-9])", version)[1]


def constant(file, pattern):
    return re.search(pattern, file.read_text(errors="replace"), re.MULTILINE)[1]


def component(part_name, version, license_text, where, purl, text, hashes=()):
    properties = [Property(name="rehearse:part_of", value=one) for one in ([PROGRAM, SIMGRID] if where == BOTH else [where])]
    return Component(name=part_name, version=version, type=ComponentType.LIBRARY, purl=purl, bom_ref=purl.to_string(),
                     licenses=[LicenseFactory().make_from_string(license_text)], hashes=hashes,
                     properties=[*properties, Property(name="rehearse:license_text", value=text)])


def debian_component(part, sources):
    if part.name == "SQLite":
        header = next(sources.glob("sqlitecpp-*/sqlite3/sqlite3.h"))
        version, digest = constant(header, r'^#define SQLITE_VERSION\s+"([^"]+)"'), None
        purl = PackageURL("generic", None, "sqlite", version)
    elif part.name == "@kurkle/color":  # Debian's version names it: 3.9.1+~0.2.1-2
        version, digest = re.search(r"\+~([0-9.]+)", installed(part.package)[1])[1], None
        purl = PackageURL("npm", "@kurkle", "color", version)
    else:
        if part.how == "built":
            source, (full, digest) = part.source, archive_of(sources, part.source)
        else:
            (source, full), digest = installed(part.package), None
        version = upstream(full)
        purl = PackageURL("deb", "debian", source, full, {"arch": "source"})
    hashes = [HashType(alg=HashAlgorithm.SHA_256, content=digest)] if digest else []
    return component(part.name, version, part.license, part.where, purl, f"licenses/{part.package}.txt", hashes)


def compiler_component(name, zig):
    """LLVM's runtime libraries, whose source Zig compiles into every program."""
    number = int(constant(zig / "lib/libcxx/include/__config", r"define _LIBCPP_VERSION (\d+)"))
    version = f"{number // 10000}.{number // 100 % 100}.{number % 100}"
    purl = PackageURL("github", "llvm", "llvm-project", f"llvmorg-{version}", subpath=name)
    return component(name, version, "Apache-2.0 WITH LLVM-exception", BOTH, purl, "licenses/libcxx.txt")


def simgrid_component(sources):
    (archive,) = sources.glob("simgrid-*.tar.gz")
    digest = subprocess.run(["sha256sum", archive], capture_output=True, text=True, check=True).stdout.split()[0]
    version = archive.name.removeprefix("simgrid-").removesuffix(".tar.gz")
    return component("SimGrid", version, "LGPL-2.1-only", SIMGRID, PackageURL("pypi", None, "simgrid", version),
                     "licenses/SimGrid.txt", [HashType(alg=HashAlgorithm.SHA_256, content=digest)])


def write_licenses(sources, folder, zig):
    folder.mkdir(parents=True, exist_ok=True)
    (simgrid,) = (one for one in sources.glob("simgrid-*") if one.is_dir())
    (folder / "SimGrid.txt").write_bytes(b"".join((simgrid / n).read_bytes() for n in ("COPYING", "LICENSE-LGPL-2.1")))
    texts = [zig / "lib" / name / "LICENSE.TXT" for name in ("libcxx", "libunwind")]
    (folder / "libcxx.txt").write_bytes(b"".join(text.read_bytes() for text in texts))
    for part in PARTS:
        text = DOCUMENTS / part.package / "copyright"
        if not text.exists():
            fail(f"{text} is not there, whose licence the wheel has to hold\nremedy: apt-get install {part.package}")
        (folder / f"{part.package}.txt").write_bytes(text.read_bytes())


def bill(sources, version, zig):
    purl = PackageURL("pypi", None, "rehearse-sim", version)
    own = Component(name="rehearse-sim", version=version, type=ComponentType.APPLICATION, purl=purl,
                    bom_ref=purl.to_string(), licenses=[LicenseFactory().make_from_string("MIT")])
    parts = [simgrid_component(sources), *(debian_component(part, sources) for part in PARTS),
             *(compiler_component(name, zig) for name in ("libcxx", "libcxxabi", "libunwind"))]
    document = Bom(components=parts)
    document.metadata.component = own
    document.metadata.timestamp = datetime.datetime.fromtimestamp(int(os.environ["SOURCE_DATE_EPOCH"]), datetime.timezone.utc)
    document.serial_number = uuid.uuid5(uuid.NAMESPACE_URL, " ".join(sorted(str(part.purl) for part in [own, *parts])))
    document.register_dependency(own, parts)
    return document


def main(sources, folder, version):
    zig = pathlib.Path(ziglang.__file__).parent
    write_licenses(sources, folder / "licenses", zig)
    text = JsonV1Dot6(bill(sources, version, zig)).output_as_string(indent=1)
    if error := JsonStrictValidator(SchemaVersion.V1_6).validate_str(text):
        fail(f"the bill of materials is not CycloneDX 1.6: {error}")
    file = folder / "sboms" / "rehearse.cdx.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(json.loads(text), indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3])
