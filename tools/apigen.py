#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Generates all files derived from the public header.

    tools/apigen.py            lints the header and writes the derived files
    tools/apigen.py --check    writes nothing; fails, and names each derived file that is stale

The header's marked region is parsed once into a model (api/parser.py, api/model.py); for each derived file, one
function turns the model into text (api/writers). To derive another file, add such a function and a line to
api/writers/__init__.py.
"""

import argparse
import re
import sys
from pathlib import Path

from api.model import Function
from api.parser import LintErrors, parse
from api.writers import OUTPUTS

HEADER = Path("include/gpupool/gpupool.h")
RELEASED = Path("tests/abi/released")
NODE = re.compile(r"^GPUPOOL_([\d.]+) \{(.*?)^\}", re.MULTILINE | re.DOTALL)


def stale_files(root, api):
    """The derived files that are out of date, with the content they should have."""
    stale = {}
    for name, write in OUTPUTS.items():
        path = root / name
        text = write(api)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            stale[path] = text
    return stale


def late_functions(root, api):
    """What is wrong with functions that claim a version which has been released without them."""
    released = {}  # the functions of each version node, as the last release that has the node has them
    for folder in sorted((root / RELEASED).glob("*"), key=lambda path: [int(part) for part in path.name.split(".")]):
        for version, text in NODE.findall((folder / "gpupool.map").read_text(encoding="utf-8")):
            released[version] = folder.name, set(re.findall(r"^ +(gpupool_\w+);", text, re.MULTILINE))
    now = ".".join(api.version.split(".")[:2])
    return [
        f"{HEADER}:{function.line}: {function.name} is not in {released[function.since][0]}, which has been released: "
        f"write `Since {now}.` in its comment, after a change of the header's version if need be"
        for function in api.of(Function)
        if function.since in released and function.name not in released[function.since][1]
    ]


def main(arguments=None):
    options = argparse.ArgumentParser(description="Generates all files derived from the public header.")
    options.add_argument("--check", action="store_true", help="write nothing; fail if a derived file is stale")
    options.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent, help="the repository")
    given = options.parse_args(arguments)

    header = given.root / HEADER
    try:
        api = parse(header.read_text(encoding="utf-8"), header)
    except LintErrors as errors:
        print("\n".join(errors.messages), file=sys.stderr)
        return 1
    if late := late_functions(given.root, api):
        print("\n".join(late), file=sys.stderr)
        return 1

    stale = stale_files(given.root, api)
    for path, text in stale.items():
        if given.check:
            print(f"{path}: stale; run tools/apigen.py", file=sys.stderr)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            print(f"wrote {path}")
    return 1 if given.check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
