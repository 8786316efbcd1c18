#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tries libraries that have a hook for an allocator with gpupool's headers, without a GPU.

    try_hosts.py [--libraries DIR] [--record] [NAME...]

NAME is a host: host_NAME.py here tries it. hosts.json says what each came to, and the table in docs/frameworks.md is
made of that (tools/host_record.py), so a host that comes to something else is a failure; --record writes it instead.
--libraries: where libgpupool.so is, by default build/release. Packages are fetched once into build/hosts. Ends with 77
if one of a host could not be had.
"""

import argparse
import importlib
import sys
from pathlib import Path

import kit
from host_record import Trial

HOSTS = sorted(path.stem.removeprefix("host_") for path in Path(__file__).parent.glob("host_*.py"))


def attempt_all(trial: Trial, names: list[str], libraries: Path) -> None:
    for name in names:
        try:
            for each in importlib.import_module(f"host_{name}").attempt(libraries.resolve(), kit.KEPT / "work" / name):
                trial.came(name, each)
        except kit.Unavailable as error:
            trial.skip(name, error)
        except kit.Failed as error:
            trial.fail(name, error)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--libraries", type=Path, default=kit.ROOT / "build/release")
    parser.add_argument("--record", action="store_true")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    trial = Trial()
    attempt_all(trial, options.names or HOSTS, options.libraries)
    return trial.end(is_recorded=options.record)


if __name__ == "__main__":
    sys.exit(main())
