# SPDX-License-Identifier: Apache-2.0
"""PyTorch's own tests, natively and with gpupool as its allocator, compared test by test.

    python run_pytorch_tests.py [--only PATTERN] [--native-results FILE] [--timeout SECONDS] PATH...

PATH: PyTorch's test folder, of its sources of the same version (a wheel does not have it), or files in it. Of a folder,
the files about memory and devices are taken. Each file runs in a process of its own, first natively, then with
GPUPOOL_INSTALL=torch, which needs gpupool in this Python's site-packages. What passes natively and not with gpupool
runs again by itself, because a test that fails leaves memory behind, which its traceback holds.

Prints a table, and each test that passes natively and does not with gpupool; ends with 1 if one of these is not in the
list of docs/pytorch.md ("PyTorch's own tests"). With --native-results, what came of the native runs is kept in that
file, and taken from it the next time.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as xml
from collections import Counter
from contextlib import suppress
from pathlib import Path

FILES = (
    "test_cuda.py",
    "test_cuda_multigpu.py",
    "test_cuda_primary_ctx.py",
    "test_cuda_sanitizer.py",
    "test_cuda_trace.py",
    "test_multiprocessing.py",
    "nn/test_dropout.py",
    "distributed/test_p2p_ipc.py",
    "inductor/test_cudagraph_trees.py",
)
DOCS = Path(__file__).resolve().parents[2] / "docs" / "pytorch.md"


def find_files(paths):
    """The test files that are meant. Ends the program where there is none."""
    files = []
    for path in paths:
        if path.is_dir():
            folder = path / "test" if (path / "test" / "test_cuda.py").exists() else path
            files += [folder / name for name in FILES if (folder / name).exists()]
        elif path.exists():
            files.append(path)
    if not files:
        sys.exit(f"there is none of PyTorch's test files at {', '.join(map(str, paths))}: name its test folder")
    return files


def run(file, pattern, timeout, **environment):
    """By test: "passed", "failed" or "skipped", and the seconds of those that passed. A process that dies leaves its
    test "died", and goes on after it."""
    outcomes, seconds, left_out = {}, 0.0, []
    while True:
        found, took, died = run_once(file, pattern, timeout, left_out, environment)
        outcomes |= found
        seconds += took
        if died is None or died in left_out:
            return outcomes, seconds
        outcomes[died] = "died"
        left_out = [name for name, outcome in outcomes.items()]


def run_alone(file, test, timeout):
    """What becomes of one test with gpupool in a process of its own."""
    return run_once(file, "", timeout, [], {"GPUPOOL_INSTALL": "torch"}, test)[0].get(test, "died")


def run_once(file, pattern, timeout, left_out, environment, test=None):
    with tempfile.TemporaryDirectory() as folder:
        report, log = Path(folder) / "report.xml", Path(folder) / "log"
        select = [f"--deselect={file.name}::{name}" for name in left_out]
        command = [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", f"--junitxml={report}", *select]
        command += [*(["-k", pattern] if pattern else []), f"{file.name}::{test}" if test else file.name]
        with log.open("w", encoding="utf-8") as output, suppress(subprocess.TimeoutExpired):
            subprocess.run(
                command,
                cwd=file.parent,
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=timeout,
                check=False,
                env=os.environ | environment,
            )
        if report.exists():
            return *read_report(report), None
        return read_log(log.read_text(encoding="utf-8", errors="replace"), file.name)


def read_report(report):
    outcomes, seconds = {}, 0.0
    for case in xml.parse(report).getroot().iter("testcase"):
        name = f"{case.get('classname', '').rsplit('.', 1)[-1]}::{case.get('name')}"
        kinds = {child.tag for child in case}
        outcomes[name] = "failed" if kinds & {"failure", "error"} else "skipped" if "skipped" in kinds else "passed"
        seconds += float(case.get("time", 0)) if outcomes[name] == "passed" else 0
    return outcomes, seconds


def read_log(text, file):
    """Of a process that did not come to its report: what it printed, and the test that it was in."""
    outcomes, last = {}, None
    line = rf"^{re.escape(file)}::(\S+)(?: (PASSED|FAILED|SKIPPED|ERROR))?"
    for name, outcome in re.findall(line, text, re.MULTILINE):
        if outcome:
            outcomes[name] = {"ERROR": "failed"}.get(outcome, outcome.lower())
        last = name
    if last is None:
        sys.exit(f"{file} cannot be run:\n{text[-2000:]}")
    return outcomes, 0.0, last if last not in outcomes else None


def named_differences():
    """The tests that docs/pytorch.md names, with why they differ."""
    text = DOCS.read_text(encoding="utf-8") if DOCS.exists() else ""
    firsts = re.findall(r"^\| (`\w+`[^|]*) \|", text, re.MULTILINE)
    return {name for first in firsts for name in re.findall(r"`(test_\w+)`", first)}


def base_name(test):
    """As the list has it: without the class, and without what parametrisation adds."""
    return test.rsplit("::", 1)[-1]


def is_named(test, named):
    return any(base_name(test) == name or base_name(test).startswith(f"{name}_") for name in named)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="+", type=Path, metavar="PATH")
    parser.add_argument("--only", default="", metavar="PATTERN", help="as pytest's -k")
    parser.add_argument("--native-results", type=Path, metavar="FILE")
    parser.add_argument("--timeout", type=float, default=1800, metavar="SECONDS", help="for one file and way")
    given = parser.parse_args()
    kept = {}
    if given.native_results and given.native_results.exists():
        kept = json.loads(given.native_results.read_text(encoding="utf-8"))
    named, new = named_differences(), 0
    print(f"{'file':<28}{'tests':>7}{'native':>8}{'gpupool':>9}{'only natively':>15}{'seconds':>18}")
    for file in find_files([path.resolve() for path in given.paths]):
        if file.name not in kept:
            kept[file.name] = run(file, given.only, given.timeout)
        native, native_seconds = kept[file.name]
        ours, seconds = run(file, given.only, given.timeout, GPUPOOL_INSTALL="torch")
        lost = [test for test, outcome in native.items() if outcome == "passed" and ours.get(test) != "passed"]
        again = {test: run_alone(file, test, given.timeout) for test in lost if not is_named(test, named)}
        ours |= again
        lost = [test for test in lost if ours.get(test) != "passed"]
        passed = [Counter(outcomes.values())["passed"] for outcomes in (native, ours)]
        print(
            f"{file.name:<28}{len(native):>7}{passed[0]:>8}{passed[1]:>9}{len(lost):>15}"
            f"{native_seconds:>9.1f}{seconds:>9.1f}",
            flush=True,
        )
        for test, outcome in again.items():
            if outcome == "passed":
                print(f"    by itself: {test}: passed", flush=True)
        for test in lost:
            new += not is_named(test, named)
            print(f"    {'named' if is_named(test, named) else 'NEW'}: {test}: {ours.get(test, 'not run')}", flush=True)
    if given.native_results:
        given.native_results.write_text(json.dumps(kept), encoding="utf-8")
    print(f"{new} tests pass natively, fail with gpupool, and are not named in docs/pytorch.md")
    return 1 if new else 0


if __name__ == "__main__":
    sys.exit(main())
