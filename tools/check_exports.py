#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks what a built library exports against the contract.

    tools/check_exports.py libgpupool.so docs/api.json [torch]

The exported symbols must be exactly the contract's functions (torch: those of libgpupool_torch), each in the version
node in which it first appeared; the soname must match the contract's version; no symbol may be unique across the
process (it would pin the library); the stack must not be executable; dlclose must not unload the library; and it may
need only the C and C++ runtimes, plus libgpupool in the case of libgpupool_torch.
"""

import json
import re
import subprocess
import sys

NEEDED = re.compile(r"(libc|libstdc\+\+|libm|libgcc_s|libdl|libpthread|ld-linux[-\w]*|libc\.musl-[-\w]+)\.so(\.\d+)?")


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def exported_symbols(library):
    """Pairs of a symbol's name with its version ("" if none) and its type letter."""
    symbols = []
    for line in run("nm", "-D", "--defined-only", "--with-symbol-versions", library).splitlines():
        kind, name = line.split()[-2:]
        if kind != "A":  # the version nodes themselves
            symbols.append((name, kind))
    return symbols


def symbol_violations(library, functions):
    expected = {f"{function['name']}@@GPUPOOL_{function['since']}" for function in functions}
    symbols = exported_symbols(library)
    actual = {name for name, _ in symbols}
    yield from (f"{name} is missing or has another version" for name in sorted(expected - actual))
    yield from (f"{name} is exported and is not in the contract" for name in sorted(actual - expected))
    yield from (f"{name} is unique across the process" for name, kind in symbols if kind == "u")
    yield from (f"{name} is not a function" for name, kind in symbols if kind not in "Tu")


def soname_of(version, part=""):
    """The name that a program linked to this version asks the loader for: it omits the parts that may differ."""
    major, minor, _ = version.split(".")
    return f"libgpupool{part}.so.{major}.{minor}" if major == "0" else f"libgpupool{part}.so.{major}"


def soname_violations(library, expected):
    found = re.findall(r"\(SONAME\).*\[(.+)\]", run("readelf", "-dW", library))
    if found != [expected]:
        yield f"its soname is {' '.join(found) or 'missing'}, not {expected}"


def dynamic_violations(library, *also_needed):
    stack = re.search(r"^\s*GNU_STACK.*", run("readelf", "-lW", library), re.MULTILINE)
    if not stack or "E" in stack.group().split()[-2]:
        yield "the stack is executable"
    dynamic = run("readelf", "-dW", library)
    for name in re.findall(r"\(NEEDED\).*\[(.+)\]", dynamic):
        if not NEEDED.fullmatch(name) and name not in also_needed:
            yield f"{name} is needed"
    flags = " ".join(re.findall(r"\(FLAGS(?:_1)?\)(.*)", dynamic))
    if "NODELETE" not in flags:
        yield "dlclose would unload it (link with -z nodelete)"
    if "NOW" not in flags:
        yield "symbols are bound late (link with -z now)"
    if "STATIC_TLS" in flags:
        yield "it needs static thread-local storage, so dlopen may fail"


def violations(library, contract, part=""):
    """part: "torch" for libgpupool_torch."""
    version = contract["version"]
    return [
        *symbol_violations(library, contract[f"{part}_functions" if part else "functions"]),
        *soname_violations(library, soname_of(version, f"_{part}" if part else "")),
        *dynamic_violations(library, *([soname_of(version)] if part else [])),
    ]


def main(arguments):
    if len(arguments) not in (2, 3) or arguments[2:] not in ([], ["torch"]):
        print(__doc__, file=sys.stderr)
        return 2
    library, contract_path, *part = arguments
    with open(contract_path, encoding="utf-8") as file:
        contract = json.load(file)
    found = violations(library, contract, *part)
    for reason in found:
        print(f"{library}: {reason}")
    if not found:
        print(f"{library}: exports exactly the functions that it should")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
