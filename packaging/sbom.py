#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lists the contents of a folder's packages as an SPDX 2.3 document, read from the packages themselves.

    sbom.py FOLDER VERSION OUTPUT.spdx.json

It opens each package and lists each file in it with its checksums. Libraries and programs among them say what they load
when they start, and, by the names that C++ leaves in a binary, what was compiled into them.
"""

import hashlib
import io
import json
import lzma
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from pathlib import Path

OURS = "Apache-2.0"
# Software that may be compiled in: how its type names look in a binary, and its licence.
COMPILED_IN = {
    "libstdc++": (rb"\x00N10__cxxabiv117__class_type_infoE\x00", "GPL-3.0-only WITH GCC-exception-3.1"),
    "libc++": (rb"St3__1\w+bad_\w+|NSt3__1\d+\w+E\x00", "Apache-2.0 WITH LLVM-exception"),
    "CLI11": (rb"N3CLI\d+\w+E\x00", "BSD-3-Clause"),
    "nlohmann-json": (rb"N8nlohmann\d+json_abi\w+", "MIT"),
    "fmt": (rb"N3fmt\d?\w+E\x00", "MIT"),
}
ZIPS = (".jar", ".nupkg", ".whl", ".rock", ".zip")
TARS = (".tar.gz", ".tgz", ".crate", ".gem")


# ---- reading packages


def files_in_tar(data):
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        for entry in archive:
            if entry.isfile():
                yield entry.name.removeprefix("./"), archive.extractfile(entry).read()


def files_in_zip(data):
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for name in archive.namelist():
            if not name.endswith("/"):
                yield name, archive.read(name)


def parts_of_ar(data):
    """Names and contents of an ar archive, such as a Debian package."""
    position = 8
    while position + 60 <= len(data):
        name = data[position:position + 16].decode().strip().rstrip("/")
        size = int(data[position + 48:position + 58])
        yield name, data[position + 60:position + 60 + size]
        position += 60 + size + size % 2


def files_in_deb(path, data):
    for name, part in parts_of_ar(data):
        if name == "data.tar.xz":
            yield from files_in_tar(lzma.decompress(part))
        elif name == "data.tar.zst":  # which Python cannot read
            unpacked = subprocess.run(["dpkg-deb", "--fsys-tarfile", path], check=True, capture_output=True)
            yield from files_in_tar(unpacked.stdout)


def files_in(path):
    """Names and contents of what a package installs or carries."""
    data = path.read_bytes()
    if path.name.endswith(ZIPS):
        yield from files_in_zip(data)
    elif path.name.endswith(".deb"):
        yield from files_in_deb(path, data)
    elif path.name.endswith(TARS):
        for name, content in files_in_tar(data):
            if path.suffix == ".gem" and name == "data.tar.gz":
                yield from files_in_tar(content)
            elif path.suffix != ".gem":
                yield name, content


def needed_by(binary):
    """The libraries that the loader will look for."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(binary)
        file.flush()
        # A file that is no whole binary needs nothing; readelf's status says so.
        command = ["readelf", "--dynamic", "--wide", file.name]
        read = subprocess.run(command, capture_output=True, text=True, check=False)
    return re.findall(r"\(NEEDED\).*\[(.*)\]", read.stdout)


def compiled_into(binary):
    return [name for name, (pattern, _) in COMPILED_IN.items() if re.search(pattern, binary)]


# ---- writing


class Document:
    def __init__(self, version):
        seconds = int(os.environ.get("SOURCE_DATE_EPOCH", time.time()))
        self.version = version
        self.packages = []
        self.files = []
        self.relations = []
        self.others = {}
        self.created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))

    def relate(self, one, kind, other):
        relation = {"spdxElementId": one, "relationshipType": kind, "relatedSpdxElement": other}
        if relation not in self.relations:
            self.relations.append(relation)

    def add_package(self, path):
        identity = f"SPDXRef-Package-{len(self.packages) + 1}"
        self.packages.append({
            "SPDXID": identity, "name": path.name, "versionInfo": self.version, "packageFileName": path.name,
            "supplier": "Organization: The gpupool developers", "downloadLocation": "NOASSERTION",
            "filesAnalyzed": False, "licenseConcluded": OURS, "licenseDeclared": OURS, "copyrightText": "NOASSERTION",
            "checksums": checksums(path.read_bytes()),
        })
        self.relate("SPDXRef-DOCUMENT", "DESCRIBES", identity)
        first = len(self.files)
        for name, content in files_in(path):
            self.add_file(identity, f"./{path.name}/{name}", content)
        if self.files[first:]:
            sums = sorted(file["checksums"][0]["checksumValue"] for file in self.files[first:])
            code = hashlib.sha1("".join(sums).encode()).hexdigest()
            self.packages[-1].update(filesAnalyzed=True, licenseInfoFromFiles=["NOASSERTION"],
                                     packageVerificationCode={"packageVerificationCodeValue": code})

    def add_file(self, package, name, content):
        identity = f"SPDXRef-File-{len(self.files) + 1}"
        is_binary = content.startswith(b"\x7fELF")
        self.files.append({
            "SPDXID": identity, "fileName": name, "checksums": checksums(content, "SHA1", "SHA256"),
            "fileTypes": ["BINARY"] if is_binary else ["OTHER"], "licenseConcluded": "NOASSERTION",
            "licenseInfoInFiles": ["NOASSERTION"], "copyrightText": "NOASSERTION",
        })
        self.relate(package, "CONTAINS", identity)
        if is_binary:
            for library in needed_by(content):
                if not library.startswith("libgpupool.so"):
                    self.relate(identity, "DYNAMIC_LINK", self.other(library, "NOASSERTION"))
            for part in compiled_into(content):
                self.relate(identity, "STATIC_LINK", self.other(part, COMPILED_IN[part][1]))

    def other(self, name, license_name):
        """Somebody else's software."""
        if name not in self.others:
            identity = "SPDXRef-Other-" + re.sub(r"[^A-Za-z0-9.-]", "-", name.replace("+", "p"))
            self.others[name] = {
                "SPDXID": identity, "name": name, "downloadLocation": "NOASSERTION", "filesAnalyzed": False,
                "licenseConcluded": license_name, "licenseDeclared": license_name, "copyrightText": "NOASSERTION",
            }
        return self.others[name]["SPDXID"]

    def write(self, path):
        everything = hashlib.sha256(json.dumps(self.packages, sort_keys=True).encode()).hexdigest()
        document = {
            "spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT",
            "name": f"gpupool-{self.version}",
            "documentNamespace": f"https://github.com/gpupool/gpupool/sbom/{self.version}/{everything}",
            "creationInfo": {"created": self.created, "creators": ["Tool: gpupool-sbom"]},
            "packages": self.packages + [self.others[name] for name in sorted(self.others)],
            "files": self.files, "relationships": self.relations,
        }
        path.write_text(json.dumps(document, indent=1) + "\n")


def checksums(data, *algorithms):
    return [{"algorithm": name, "checksumValue": hashlib.new(name.lower(), data).hexdigest()}
            for name in algorithms or ("SHA256",)]


def main(arguments):
    if len(arguments) != 3:
        sys.exit(__doc__)
    document = Document(arguments[1])
    output = Path(arguments[2])
    for path in sorted(Path(arguments[0]).iterdir()):
        if path.is_file() and path != output and path.name != "SHA256SUMS":
            document.add_package(path)
    document.write(output)


if __name__ == "__main__":
    main(sys.argv[1:])
