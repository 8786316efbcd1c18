#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs clang-tidy over the sources of a build, on all cores, and remembers which were clean.

    tools/tidy.py BUILD [FILTER]

BUILD holds compile_commands.json; FILTER is a regular expression on the path within the repository
(default: src/). It skips a source while the source, every header of ours that it includes, its command, .clang-tidy and
clang-tidy itself are the same as in its last clean run. It uses only the clang-tidy in build/checkers, which
tools/setup.sh installs, because other versions complain about other things. Without it, nothing is checked.

Most of the time goes into the headers of the standard library. So sources with the same command are looked at together,
as one that includes them; where that is not clean, each half of them, down to a source by itself.
"""

import hashlib
import itertools
import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
INCLUDE = re.compile(rb'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)
SEARCH = ("src", "include", "tests", ".")
TIDY = ROOT / "build/checkers/clang-tidy"
GCC_ONLY = " -mtls-dialect=gnu2"  # clang before 19 does not know it
TOGETHER = 32  # sources


def closure(source):
    """The source and every file of the repository that it includes, directly or not."""
    files, waiting = set(), [source]
    while waiting:
        path = waiting.pop()
        if path in files:
            continue
        files.add(path)
        for name in INCLUDE.findall(path.read_bytes()):
            found = (ROOT / folder / name.decode() for folder in SEARCH)
            waiting += [file for file in found if file.is_file()]
    return sorted(files)


def apart(entry):
    """The entries of the sources that CMake compiles as one, which includes each of them."""
    unit = Path(entry["file"])
    if "/Unity/" not in entry["file"]:
        return [entry]
    sources = re.findall(r'^#include "(.+)"$', unit.read_text(encoding="utf-8"), re.MULTILINE)
    return [entry | {"file": one, "command": entry["command"].replace(entry["file"], one)} for one in sources]


def fingerprint(source, command, version):
    digest = hashlib.sha256(f"{version}\0{command}".encode())
    digest.update((ROOT / ".clang-tidy").read_bytes())
    for path in closure(source):
        digest.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


class Source:
    def __init__(self, folder, version, entry):
        self.path = Path(entry["file"])
        # What the command says of other files than the source: the same for the others of its target.
        self.command = re.sub(r" -o \S+| -c | -MF \S+| -MT \S+", " ", entry["command"]).replace(entry["file"], "")
        self.stamp = folder / (str(self.path.relative_to(ROOT)).replace("/", "__") + ".clean")
        self.mark = fingerprint(self.path, entry["command"], version)

    def is_known(self):
        return self.stamp.exists() and self.stamp.read_text(encoding="utf-8") == self.mark


def complaint(folder, file, *options):
    done = subprocess.run([TIDY, "-p", folder, "--quiet", *options, file], capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stdout or done.stderr


def tidy(folder, sources, unit):
    """clang-tidy's complaints about sources that have one command, which is unit's too."""
    if len(sources) > 1:
        unit.write_text("".join(f'#include "{source.path}"\n' for source in sources), encoding="utf-8")
        if complaint(folder, unit, "--checks=-bugprone-suspicious-include"):
            half = len(sources) // 2
            return tidy(folder, sources[:half], unit) + tidy(folder, sources[half:], unit)
    elif text := complaint(folder, sources[0].path):
        return [text]
    for source in sources:
        source.stamp.write_text(source.mark, encoding="utf-8")
    return []


def grouped(sources):
    """Sources that are looked at together."""
    for _, group in itertools.groupby(sorted(sources, key=lambda s: (s.command, s.path)), lambda s: s.command):
        same = list(group)
        yield from (same[i : i + TOGETHER] for i in range(0, len(same), TOGETHER))


def main(arguments):
    if not TIDY.exists():
        print("clang-tidy: not installed, skipped")
        return 0
    version = subprocess.run([TIDY, "--version"], capture_output=True, text=True, check=True).stdout
    build = Path(arguments[0]).resolve()
    wanted = re.compile(arguments[1] if len(arguments) > 1 else "src/")
    commands = json.loads((build / "compile_commands.json").read_text(encoding="utf-8"))
    commands = [one for entry in commands for one in apart(entry)]
    entries = [c for c in commands if Path(c["file"]).is_relative_to(ROOT)]
    entries = [c for c in entries if wanted.match(str(Path(c["file"]).relative_to(ROOT)))]
    folder = build / "tidy"
    folder.mkdir(exist_ok=True)
    for entry in entries:
        entry["command"] = entry["command"].replace(GCC_ONLY, "")
    if not entries:
        print(f"{build}: no source matches", file=sys.stderr)
        return 1
    sources = [Source(folder, version, entry) for entry in entries]
    groups = list(grouped(source for source in sources if not source.is_known()))
    by_path = {entry["file"]: entry for entry in entries}
    units = [folder / f"unit_{i}.cpp" for i in range(len(groups))]
    for unit, group in zip(units, groups, strict=True):
        entry = by_path[str(group[0].path)]
        entries.append(entry | {"file": str(unit), "command": entry["command"].replace(entry["file"], str(unit))})
    (folder / "compile_commands.json").write_text(json.dumps(entries), encoding="utf-8")
    with ThreadPoolExecutor(os.cpu_count()) as workers:
        results = workers.map(lambda group, unit: tidy(folder, group, unit), groups, units)
        complaints = [text for texts in results for text in texts]
    print("\n".join(complaints), end="")
    known = len(sources) - sum(map(len, groups))
    print(f"clang-tidy: {len(sources)} sources, {known} known to be clean, {len(complaints)} with complaints")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
