#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs clang-tidy over the sources of a build, on all cores, and remembers which were clean.

    tools/tidy.py BUILD [FILTER]

BUILD holds compile_commands.json; FILTER is a regular expression on the path within the repository
(default: src/). It skips a source while the source, every header of ours that it includes, its command, .clang-tidy and
clang-tidy itself are the same as in its last clean run. It uses only the clang-tidy in build/checkers, which
tools/setup.sh installs, because other versions complain about other things. Without it, nothing is checked.
"""

import hashlib
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


def tidy(folder, version, entry):
    """clang-tidy's complaint about one source; None if it was clean before, "" if it is clean now."""
    source = Path(entry["file"])
    stamp = folder / (str(source.relative_to(ROOT)).replace("/", "__") + ".clean")
    mark = fingerprint(source, entry["command"], version)
    if stamp.exists() and stamp.read_text(encoding="utf-8") == mark:
        return None
    done = subprocess.run([TIDY, "-p", folder, "--quiet", source], capture_output=True, text=True, check=False)
    if done.returncode == 0:
        stamp.write_text(mark, encoding="utf-8")
        return ""
    return done.stdout or done.stderr


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
    (folder / "compile_commands.json").write_text(json.dumps(entries), encoding="utf-8")
    if not entries:
        print(f"{build}: no source matches", file=sys.stderr)
        return 1
    with ThreadPoolExecutor(os.cpu_count()) as workers:
        results = list(workers.map(lambda entry: tidy(folder, version, entry), entries))
    complaints = [text for text in results if text]
    print("\n".join(complaints), end="")
    known = results.count(None)
    print(f"clang-tidy: {len(entries)} sources, {known} known to be clean, {len(complaints)} with complaints")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
