#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that every binding offers every function of the C interface, and that each is tried on a host without memory.

    check_coverage.py [ROOT]

A function counts as offered if a hand-written source of the binding names it. A binding lists functions that it leaves
out in its excused.json, {"gpupool_x": "why"}; an excuse for a function that it offers is stale. The same goes for user
functions that a configuration takes, {"gpupool_config_t.x": "why"}.
"""

import json
import re
import sys
from pathlib import Path

# Each binding's own sources; derived files name every function, so they prove nothing.
CPP = "include/gpupool"  # has no folder in bindings; its excuses are with its tests
SHORT_HOST = "tests/attack"  # the program that lets each allocation of each call fail
SOURCES = {
    CPP: ("*.hpp",),
    SHORT_HOST: ("host_memory*",),
    "python": ("native/*.c", "native/glue.h", "src/gpupool/**/*.py"),
    "rust": ("gpupool/src/**/*.rs",),
    "go": ("*.go", "*.c", "*.h"),
    "node": ("*.js", "src/*.cpp", "src/*.hpp"),
    "swig": ("*.i", "src/*.hpp", "languages/*.swg"),
}
DERIVED = re.compile(r"(Written|generated) by tools/apigen\.py")


def named_in(binding, patterns):
    names = set()
    for pattern in patterns:
        for path in binding.glob(pattern):
            text = path.read_text(encoding="utf-8")
            if not DERIVED.search(text[:400]):
                names |= set(re.findall(r"\w+", text))
    return names


def callbacks_of(contract):
    """The functions in a configuration that the library calls."""
    return [
        f"{struct['name']}.{field['name']}"
        for struct in contract.get("structs", [])
        if struct["name"] == "gpupool_config_t"
        for field in struct["fields"]
        if field["type"].endswith("_fn_t")
    ]


def check(root):
    contract = json.loads((root / "docs/api.json").read_text(encoding="utf-8"))
    functions = [function["name"] for function in contract["functions"]]
    functions += callbacks_of(contract)
    problems = []
    folders = {path.name: (path, path) for path in sorted((root / "bindings").iterdir()) if path.is_dir()}
    for name, excuses_in in ((CPP, "tests/cpp"), (SHORT_HOST, SHORT_HOST)):
        if (root / name).is_dir():
            folders[name] = (root / name, root / excuses_in)
    for binding, (folder, with_excuses) in folders.items():
        if binding not in SOURCES:
            problems.append(f"{binding}: tools/check_coverage.py does not know its sources")
            continue
        offered = named_in(folder, SOURCES[binding])
        excuses = with_excuses / "excused.json"
        excused = json.loads(excuses.read_text(encoding="utf-8")) if excuses.exists() else {}
        missing = f"is neither offered ({', '.join(SOURCES[binding])}) nor excused ({excuses.relative_to(root)})"
        problems += [f"{binding}: {name} {missing}" for name in functions
                     if name.rpartition(".")[2] not in offered and name not in excused]
        problems += [f"{binding}: the excuse for {name} is stale" for name in excused
                     if name.rpartition(".")[2] in offered or name not in functions]
        problems += [f"{binding}: the excuse for {name} gives no reason" for name in excused if not excused[name]]
    return problems


def main(arguments):
    root = Path(arguments[0]) if arguments else Path(__file__).resolve().parent.parent
    problems = check(root)
    print("\n".join(problems) if problems else "every function is offered, and tried on a short host, or excused")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
