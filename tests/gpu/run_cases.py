# SPDX-License-Identifier: Apache-2.0
"""Programs without gpupool under `gpupool run` and `gpupool record`, and whole processes that sleep, on a GPU.

run_cases.py [--list] [--record FILE] [CASE...]    all, if none is named; GPUPOOL_COMMAND is the command

It prints what it measured, and ends with 1 if a case failed. A case whose framework or driver is not there says so, and
is no failure. --record writes what programs came to into FILE, on top of what is in run.json here, of which
tools/runs_table.py makes the table in docs/run.md. Most cases take some 10 s, and no program more than a minute.
"""

import argparse
import contextlib
import ctypes
import functools
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

from programs import COMMAND as PACKAGED
from run_programs import (
    ASYNC,
    ASYNC_LATER,
    BESIDE_A_POOL,
    CHURN,
    FRAMEWORKS,
    JAX,
    MEMBER,
    MODULE,
    PAIRS,
    PLAIN,
    POOLED,
    RECORDED,
    RUNTIME,
    SYNC,
)
from run_record import NotHere, Record

COMMAND = os.environ.get("GPUPOOL_COMMAND", str(PACKAGED))
LIMIT = 60  # seconds for each program and each command
MIB = 1 << 20
GIB = 1 << 30
came_to = Record()


def command(*words):
    done = subprocess.run([COMMAND, *map(str, words)], capture_output=True, text=True, timeout=LIMIT, check=False)
    if "cannot put a whole process to sleep" in done.stderr:
        raise NotHere(done.stderr.strip())
    assert done.returncode == 0, done.stderr
    return done.stdout


def start(program, *options, **environment):
    """A program in Python, under `gpupool run` if there are options; what it printed and said."""
    words = [COMMAND, "run", *options, "--"] if options else []
    done = subprocess.run(
        [*words, sys.executable, "-c", program],
        capture_output=True, text=True, timeout=LIMIT, check=False, env=os.environ | environment,
    )  # fmt: skip
    if done.returncode == 77:
        raise NotHere("a part of it")
    assert done.returncode == 0, done.stderr[-2000:]
    return done


def output_of(program, *options, **environment):
    return start(program, *options, **environment).stdout.strip().splitlines()[-1]


def need(name):
    if importlib.util.find_spec(name) is None:
        raise NotHere(name)


def free_bytes():
    device = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0]
    found = subprocess.run(
        ["nvidia-smi", "--query-gpu=memory.free", "--format=csv,noheader,nounits", "-i", device],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    return int(found.stdout) * MIB


@contextlib.contextmanager
def running(program, *options, **environment):
    words = [COMMAND, "run", *options, "--"] if options else []
    child = subprocess.Popen(
        [*words, sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env=os.environ | environment,
    )  # fmt: skip
    try:
        assert child.stdout.readline() == "ready\n"
        yield child
    finally:
        child.kill()
        child.communicate()


def sleep_and_wake(program, **environment):
    with running(program, **environment) as child:
        before = free_bytes()
        done = json.loads(command("sleep", child.pid, "--whole", "--json"))
        time.sleep(0.5)  # the driver's own figures lag
        given = free_bytes() - before
        print(f"sleep {done['seconds']:.2f} s, {given / GIB:.2f} GiB given back, {done['changed_pools']} pools first")
        assert given >= GIB, given
        woken = json.loads(command("wake", child.pid, "--whole", "--timeout", 30, "--json"))
        print(f"wake {woken['seconds']:.2f} s")
        child.stdin.write("\n")
        child.stdin.flush()
        assert child.stdout.readline() == "True\n", "the contents have changed"
        words = f"{given / GIB:.1f} GiB in {done['seconds']:.2f} s, woken in {woken['seconds']:.2f} s"
        return done["changed_pools"], words


def case_sleep_of_a_plain_program():
    with came_to.of("`cuMemAlloc`", "sleep --whole") as row:
        pools, row["outcome"] = sleep_and_wake(PLAIN)
        assert pools == 0


def case_sleep_of_a_program_with_gpupool():
    with came_to.of("gpupool's pools", "sleep --whole") as row:
        pools, row["outcome"] = sleep_and_wake(POOLED, GPUPOOL_CONTROL="1")
        assert pools == 1


def case_sleep_of_jax():
    need("jax")
    with came_to.of("JAX", "sleep --whole") as row:
        pools, row["outcome"] = sleep_and_wake(JAX, XLA_PYTHON_CLIENT_PREALLOCATE="false")
        assert pools == 0


def case_cost_of_a_look():
    """What --whole costs a command beside the sleep itself: the driver may have to be initialised."""
    with running(PLAIN) as child:
        start = time.perf_counter()
        assert not json.loads(command("wake", child.pid, "--whole", "--json"))["changed"]
        print(f"a wake of a process that is awake: {time.perf_counter() - start:.2f} s")


def case_malloc_async_is_capped_and_keeps():
    plain = output_of(ASYNC)
    with came_to.of("`cuMemAllocAsync`", "--keep") as row:
        capped, kept = map(int, output_of(ASYNC, "--keep", "--cap", "512MiB").split())
        print(f"MiB taken and kept: {plain} plain; {capped} {kept} with --keep --cap 512MiB")
        row["outcome"] = f"{capped} MiB of 512, keeps {kept}"
        assert 0 < capped <= 512
        assert kept >= capped
    with came_to.of("`cuMemAllocAsync`", "--cap") as row:
        capped, left = map(int, output_of(ASYNC, "--cap", "512MiB").split())
        row["outcome"] = f"{capped} MiB of 512, keeps {left}"
        assert 0 < capped <= 512
        assert left < kept


def case_malloc_async_follows_its_group():
    """Of 2 GiB, another process has 1.5 at first, and then none."""
    with came_to.of("`cuMemAllocAsync`", "--keep --share") as row, tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o700)
        group = {"GPUPOOL_SHARE_DIR": folder, "GPUPOOL_SHARE_LIMIT": "2GiB"}
        with running(MEMBER, **group, GPUPOOL_SHARE="team") as member:
            beside = int(output_of(ASYNC_LATER, "--keep", "--share", "team", **group).split()[1])
            member.communicate("\n", timeout=LIMIT)  # one that is killed would have its part for a while
        print(f"keeps {beside} MiB beside 1.5 GiB of 2 GiB")
        alone = int(output_of(ASYNC_LATER, "--keep", "--share", "team", **group).split()[1])
        print(f"keeps {alone} MiB when the other has gone")
        row["outcome"] = f"two processes: keeps {beside} MiB beside 1.5 GiB of 2 GiB"
        assert 0 < beside <= 512 + 32
        assert alone > beside


def case_hooks_cap_any_allocation():
    plain = output_of(SYNC)
    with came_to.of("`cuMemAlloc`", "--hooks") as row:
        capped = output_of(SYNC, "--hooks", "--cap", "512MiB")
        print(f"MiB taken, result, free, total: {plain} plain; {capped} with --hooks --cap 512MiB")
        assert capped == "512 2 0 512"
        row["outcome"] = "512 MiB of 512, and told of none free"


def case_hooks_tell_what_they_do_not_cover():
    """256 MiB of a module, if NVML knows the process, as it does not in a container with numbers of its own."""
    said = start(MODULE, "--hooks").stderr
    print(said.strip())
    if "NVML does not say" in said:
        raise NotHere("NVML does not say")
    missed = int(said.rpartition("not covered: ")[2].split()[0])
    assert 256 * MIB <= missed <= 512 * MIB, said


class Nvml:
    """What is in use on the GPU, without a process for each look."""

    def __init__(self):
        try:
            self.library = ctypes.CDLL(os.environ.get("GPUPOOL_LIBNVML", "libnvidia-ml.so.1"))
        except OSError as error:
            raise NotHere(str(error)) from error
        self.device = ctypes.c_void_p()
        assert self.library.nvmlInit_v2() == 0
        number = int(os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0])
        assert self.library.nvmlDeviceGetHandleByIndex_v2(number, ctypes.byref(self.device)) == 0

    def used(self):
        memory = (ctypes.c_ulonglong * 3)()  # total, free, used
        assert self.library.nvmlDeviceGetMemoryInfo(self.device, ctypes.byref(memory)) == 0
        return memory[2]


def case_cap_of_hooks_holds_by_nvml():
    """What 16 threads have beyond a cap of 1 GiB, seen ten times a second. Nobody else may use the GPU."""
    nvml = Nvml()
    with came_to.of("`cuMemAlloc`, 16 threads", "--hooks") as row:
        with running(CHURN, "--hooks", "--cap", "1GiB") as child:
            before = nvml.used() - 2 * MIB  # which it has taken already
            child.stdin.write("\n")
            child.stdin.flush()
            most = 0
            for _ in range(100):
                time.sleep(0.1)
                most = max(most, nvml.used() - before)
            got, refused = map(int, child.stdout.readline().split())
        row["outcome"] = f"at most {most / MIB:.0f} MiB of 1,024 by NVML, {got:,} allocations"
        print(f"{row['outcome']}, and {refused:,} refused")
        assert refused > 0
        # The driver's own tables for what it maps.
        assert 512 * MIB <= most <= GIB + 16 * MIB, most


@functools.cache
def plain_result(key):
    framework = FRAMEWORKS[key]
    digest, taken, _ = output_of(framework.takes(), **framework.settings).split()
    return digest, int(taken)


def under(key, means):
    """The same result to the bit, and under a cap that it heeds no more than that."""
    framework = FRAMEWORKS[key]
    need(framework.module)
    if key == "numba":
        need("numba.cuda")
    expected, most = plain_result(key)
    with came_to.of(framework.title, means) as row:
        options = ["--cap", "1GiB"] if means == "--cap" else [means, "--cap", "1GiB"]
        digest, taken, row["version"] = output_of(framework.takes(), *options, **framework.settings).split()
        print(f"{taken} MiB under a cap of 1 GiB, {most} without")
        assert digest == expected, "another result"
        row["outcome"] = "same bits"
        if means in framework.capped:
            assert 256 <= int(taken) <= 1024, taken
            row["outcome"] += f", {taken} MiB of 1,024"


def record(program, folder, **environment):
    """What is live at the end of the recordings of a program: bytes and stack of each call site, by file; and what the
    program printed. CUPTI may be missing, which is no failure."""
    path = os.path.join(folder, "run.gpt")
    done = subprocess.run(
        [COMMAND, "record", "-o", path, "--", sys.executable, "-c", program],
        capture_output=True, text=True, timeout=LIMIT, check=False, env=os.environ | environment,
    )  # fmt: skip
    if "only pools of gpupool are recorded" in done.stderr:
        raise NotHere(done.stderr.strip())
    if done.returncode == 77:
        raise NotHere("the CUDA runtime")
    assert done.returncode == 0, done.stderr[-2000:]
    live = {}
    for name in sorted(os.listdir(folder)):
        lines = command("leaks", os.path.join(folder, name), "--json").splitlines()
        sites = [each for each in map(json.loads, lines) if each["of"] == "site"]
        live[name] = sorted((site["bytes"], site["stack"]) for site in sites)
    return live, done.stdout


def mib_of(sites):
    return sum(size for size, _ in sites) / MIB


def case_recording_of_the_drivers_functions():
    with (
        tempfile.TemporaryDirectory() as folder,
        came_to.of("`cuMemAlloc`", "record") as row,
        came_to.of("`cuMemAllocAsync`", "record") as also,
    ):
        live, _ = record(RECORDED, folder)
        print(f"MiB live at the end: {mib_of(live['run.gpt'])}; the innermost frame: {live['run.gpt'][0][1][:60]!r}")
        assert mib_of(live["run.gpt"]) == 96 + 64 + 32 + 20
        trace = command("export", os.path.join(folder, "run.gpt"), "--pool", 1)
        assert trace.count("\na ") == 203 and trace.count("\nf ") == 200, (trace.count("\na "), trace.count("\nf "))
        # What ctypes called from is no function of the driver.
        assert all(stack and not stack.splitlines()[0].count("libcuda") for _, stack in live["run.gpt"]), live
        row["outcome"] = also["outcome"] = "all bytes"


def case_recording_of_the_runtime():
    with tempfile.TemporaryDirectory() as folder, came_to.of("CUDA's runtime", "record") as row:
        live, _ = record(RUNTIME, folder)
        assert mib_of(live["run.gpt"]) == 48 + 16 + 8, live
        assert not any("libcudart" in stack.splitlines()[0] for _, stack in live["run.gpt"] if stack), live
        row["outcome"] = "all bytes"


def case_recording_beside_a_pool_counts_nothing_twice():
    with came_to.of("gpupool's pools", "record") as row:
        for mode in ("vmm", "driver"):
            with tempfile.TemporaryDirectory() as folder:
                live, _ = record(BESIDE_A_POOL, folder, GPUPOOL_MODE=mode)
                assert mib_of(live["run.gpt"]) == 1024, (mode, live)
                assert mib_of(live["run.gpt.driver"]) == 80, (mode, live)
        row["outcome"] = "all bytes, none twice"


def recorded(key):
    """What was live at the peak is what the framework says it has, and what its libraries add: a little, and where its
    allocator grows by doubling, what that has unused."""
    framework = FRAMEWORKS[key]
    need(framework.module)
    with tempfile.TemporaryDirectory() as folder, came_to.of(framework.title, "record") as row:
        _, printed = record(framework.holds(), folder, **framework.settings)
        held, row["version"] = printed.strip().splitlines()[-1].split()
        said = command("report", os.path.join(folder, "run.gpt"), "--json", "--no-fit").splitlines()
        peak = max(pool["peak_live_bytes"] for pool in map(json.loads, said) if pool["device"].startswith("cuda"))
        print(f"{int(held) / MIB:.1f} MiB by its own account, {peak / MIB:.1f} MiB recorded at the peak")
        assert int(held) <= peak <= int(held) + 512 * MIB
        row["outcome"] = "all bytes"


def case_cost_of_recording():
    """A pair of cuMemAllocAsync and cuMemFreeAsync, alone and recorded."""
    plain = float(output_of(PAIRS))
    with tempfile.TemporaryDirectory() as folder:
        recorded = float(record(PAIRS, folder)[1])
    print(f"{plain:.2f} us a pair, {recorded:.2f} us recorded")


def add_cases(cases):
    """Of each framework: its programs under each means, and recorded."""
    for key in FRAMEWORKS:
        for means in ("--cap", "--keep", "--hooks"):
            cases[f"{key}_under_{means.strip('-')}"] = functools.partial(under, key, means)
        # A pool of the driver's has more than was asked for, and that is what is recorded.
        if key != "torch_async":
            cases[f"recording_of_{key}"] = functools.partial(recorded, key)


def main():
    cases = {name[5:]: case for name, case in globals().items() if name.startswith("case_")}
    add_cases(cases)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="print the cases")
    parser.add_argument("--record", type=Path, metavar="FILE")
    parser.add_argument("cases", nargs="*", metavar="CASE")
    options = parser.parse_args()
    if options.list:
        print(*cases, sep="\n")
        return 0
    if unknown := [name for name in options.cases if name not in cases]:
        parser.error(f"no such case: {', '.join(unknown)}; --list has them")
    failed = 0
    for name in options.cases or cases:
        start = time.perf_counter()
        try:
            cases[name]()
            what = "ok"
        except NotHere as missing:
            what = f"not run: {missing}"
        except Exception:
            traceback.print_exc()
            what = "FAILED"
            failed += 1
        print(f"{name}: {what} ({time.perf_counter() - start:.1f} s)", flush=True)
        if options.record:  # each time, since a machine may be taken away
            came_to.write(options.record)
    print(f"{failed} of {len(options.cases or cases)} cases failed")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
