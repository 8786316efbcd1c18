#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints what each number in src/*/policy.hpp gains on the recorded traces, or which laws need it.

    tools/ablate.py [--passes 10] [--jobs 2] [--laws] [NAME[=VALUE]...]

Builds the command once, in build/ablate, with a policy whose numbers come from the environment, and plays the traces
with each number at a quarter and at four times its value, or at VALUE, such as kMaxChunk=32MiB. All is compared with
the header as it is, so try a value before you write it there. For each number it prints the change of reserved memory
and of the smallest limit that completes, in live peaks, and the change of the driver's time in the second half of the
passes, in milliseconds a pass: the mean over the traces, and the trace that changes most. A number whose rows are all
zero gains nothing on them. Traces are paced on the simulated device, so two runs print the same.

--laws runs the tests that bound memory, driver calls and steps instead, and prints those that fail only then. A number
that gains nothing on the traces and that no law needs can go.
"""

import argparse
import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build/ablate"
POLICIES = [Path("core/policy.hpp"), Path("share/policy.hpp")]
NUMBER = re.compile(r"^inline constexpr (\w+) (k\w+) = (.+);$", re.MULTILINE)
# The size of an array must be known when it is compiled.
FIXED = {"kPlaces", "kLargestChunk"}
# Programs of tests that have no part of the policy's header themselves, and which of their tests.
ATTACKS = ["calm", "capture_examples", "laws", "many", "peaks", "soak"]
LAWS = {f"attack/attack_{name}": "*" for name in ATTACKS} | {
    "attack/hunt/hunt_tests": "*",
    "share_tests": "*Moves*:*Phases*:TurnTest*:RestTest*:MemberTest*:PoolsTest*:Greedy*",
    "pool_tests": "-*/sim_*:*/stand_in_*:*Rooms*",
}
FAILED = re.compile(r"^\[  FAILED  \] ([\w./]+)", re.MULTILINE)
READ = """
/// The number from the environment, or the one that the policy has.
template <typename Number>
Number read_number(const char* name, Number otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : static_cast<Number>(std::strtod(text, nullptr));
}

"""


UNITS = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


def numbers():
    """name -> value, of the numbers that can be varied."""
    units = {f"k{unit}": factor for unit, factor in UNITS.items()}
    found = {}
    for policy in POLICIES:
        for _, name, value in NUMBER.findall((ROOT / "src" / policy).read_text()):
            if name not in FIXED:
                found[name] = eval(value.replace("'", ""), {"__builtins__": {}}, units)
    return found


def variable(policy):
    """A policy's header with numbers that are read when the program starts."""
    text = (ROOT / "src" / policy).read_text()
    text = text.replace("#pragma once\n", "#pragma once\n\n#include <cstdlib>\n", 1)
    text = re.sub(r"^namespace .* \{\n", lambda match: match.group() + READ, text, count=1, flags=re.MULTILINE)

    def read(match):
        kind, name, value = match.groups()
        if name in FIXED:
            return match.group()
        return f'inline const {kind} {name} = read_number<{kind}>("POLICY_{name}", {value});'

    return NUMBER.sub(read, text)


def build(targets):
    for policy in POLICIES:
        header = BUILD / "include" / policy
        header.parent.mkdir(parents=True, exist_ok=True)
        if not header.exists() or header.read_text() != variable(policy):
            header.write_text(variable(policy))
    flags = f"-DCMAKE_CXX_FLAGS=-iquote {BUILD}/include"
    parts = [f"-DGPUPOOL_BUILD_{part}=ON" for part in ("CLI", "TESTS", "TORCH")]
    options = ["-DCMAKE_BUILD_TYPE=Release", "-DGPUPOOL_BUILD_EXAMPLES=OFF", "-DGPUPOOL_UNITY=ON", flags, *parts]
    for command in (["-G", "Ninja", "-S", ROOT, "-B", BUILD, *options], ["--build", BUILD, "--target", *targets]):
        subprocess.run(["cmake", *command], check=True, stdout=subprocess.DEVNULL)


def with_number(name, value):
    return os.environ | ({f"POLICY_{name}": str(value)} if name else {})


def replay(passes, name=None, value=None):
    """trace -> what was reserved and the smallest limit, in live peaks, and milliseconds of the driver a pass."""
    traces = sorted((ROOT / "tests/data").glob("*.trace.gz"))
    command = [
        BUILD / "gpupool",
        "replay",
        "--device",
        "sim",
        "--json",
        "--pace",
        "--find-cap",
        "--passes",
        str(passes),
    ]
    done = subprocess.run(
        [*command, *traces], env=with_number(name, value), capture_output=True, text=True, timeout=600, check=False
    )
    if done.returncode != 0:
        return None
    found = {}
    for line in done.stdout.splitlines():
        run = json.loads(line)
        warm = slice(passes // 2, None)
        found[run["trace"]] = {
            "reserved": max(run["peak_reserved_bytes_by_pass"][warm]) / run["peak_live_bytes"],
            "cap": run["cap_over_live"],
            "driver": sum(run["driver_time_us"][warm]) / len(run["driver_time_us"][warm]) / 1000,
        }
    return found


def row_of(name, value, base, found):
    if found is None:
        return f"{name:18} {value:>14}   does not complete"
    cells = []
    for what, digits in (("reserved", 4), ("cap", 4), ("driver", 2)):
        changes = {trace: found[trace][what] - base[trace][what] for trace in base}
        worst = max(changes, key=lambda trace: abs(changes[trace]))
        mean = sum(changes.values()) / len(changes)
        cells.append(f"{mean:+9.{digits}f} {changes[worst]:+9.{digits}f} {worst if changes[worst] else '':19}")
    return f"{name:18} {value:>14} " + " ".join(cells)


def print_gains(passes, changes, run):
    base = replay(passes)
    print(f"{'':33} " + " ".join(f"{what:>9} {'most':>9} {'where':19}" for what in ("reserved", "limit", "driver ms")))
    for trace, each in base.items():
        print(f"{trace:33} {each['reserved']:9.4f} {each['cap']:39.4f} {each['driver']:39.2f}")
    for change, found in run(lambda change: replay(passes, *change), changes):
        print(row_of(*change, base, found), flush=True)


def broken_laws(name=None, value=None):
    """The tests that fail, and the programs that do not come to their end."""
    broken = set()
    for program, chosen in LAWS.items():
        command = [BUILD / "tests" / program, f"--gtest_filter={chosen}", "--gtest_brief=1"]
        environment = with_number(name, value) | {"GPUPOOL_BACKEND": "sim"}
        try:
            done = subprocess.run(
                command, env=environment, cwd=BUILD / "tests", capture_output=True, text=True, timeout=900, check=False
            )
            failed = set(FAILED.findall(done.stdout))
            broken |= failed if failed or done.returncode == 0 else {f"{program} ends with {done.returncode}"}
        except subprocess.TimeoutExpired:
            broken.add(f"{program} does not end")
    return broken


def print_laws(changes, run):
    base = broken_laws()
    print("broken in any case:", ", ".join(sorted(base)) or "none")
    for (name, value), broken in run(lambda change: broken_laws(*change), changes):
        print(f"{name:18} {value:>14}   {', '.join(sorted(broken - base)) or 'none'}", flush=True)


def changes_of(word, known):
    """(name, value) of each change that a word of the command line asks for."""
    name, _, value = word.partition("=")
    if name not in known:
        sys.exit(f"ablate.py: no such number: {name}; there are {', '.join(known)}")
    if not value:
        quarter = known[name] / 4 if isinstance(known[name], float) else max(1, known[name] // 4)
        return [(name, quarter), (name, known[name] * 4)]
    number = re.fullmatch(r"(\d[\d']*)([KMG]iB)?", value)
    if not number:
        sys.exit(f"ablate.py: {value} is no number such as 16, 60'000 or 32MiB")
    wanted = int(number[1].replace("'", "")) * UNITS.get(number[2], 1)
    if wanted == known[name]:
        sys.exit(f"ablate.py: {name} is {wanted} in its policy.hpp already, and would be compared with itself")
    return [(name, wanted)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--passes", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="replays at a time")
    parser.add_argument("--laws", action="store_true", help="which tests fail")
    parser.add_argument("names", nargs="*", metavar="NAME[=VALUE]", help="numbers, as they are called in the header")
    arguments = parser.parse_args()
    known = numbers()
    changes = [change for word in arguments.names or known for change in changes_of(word, known)]
    build([Path(program).name for program in LAWS] if arguments.laws else ["gpupool_cli"])
    with ThreadPoolExecutor(arguments.jobs) as jobs:

        def run(what, changes):
            return zip(changes, jobs.map(what, changes), strict=True)

        if arguments.laws:
            print_laws(changes, run)
        else:
            print_gains(arguments.passes, changes, run)


if __name__ == "__main__":
    main()
