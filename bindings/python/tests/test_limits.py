# SPDX-License-Identifier: Apache-2.0
"""Nobody lifts a limit but its owner: of any two, the smaller holds, and a failed malloc names it."""

from __future__ import annotations

import textwrap

import pytest
from test_frameworks_install import run

import gpupool

# Each pair has a process of its own, because a device has one default pool. It is forked, which takes no time.
PAIRS = """
import itertools, os, sys, tempfile
import gpupool, gpupool.frameworks
gpupool.frameworks._check_gpu = lambda: None
import cupy, gpupool.cupy
from gpupool.frameworks import _torch_settings
from gpupool.frameworks._environment import activate

MIB = 1 << 20
os.environ["GPUPOOL_SHARE_DIR"] = tempfile.mkdtemp()

def variable(name, text="{}MiB"):
    def apply(mib):
        found = os.environ.get(name)
        os.environ[name] = ",".join(filter(None, [found, text.format(mib)]))
        activate()
    return apply

def fraction(mib):
    os.environ["GPUPOOL_FRACTION"] = str(mib / 1024)

def setting(mib):
    os.environ["PYTORCH_ALLOC_CONF"] = f"per_process_memory_fraction:{mib / 1024}"
    _torch_settings.heed_settings()

def launcher(mib):
    os.environ.update(LOCAL_RANK="0", RANK="0", LOCAL_WORLD_SIZE=str(1024 // mib), WORLD_SIZE="8")
    variable("GPUPOOL_CAP", "auto")(mib)

def group(mib):
    os.environ.update(GPUPOOL_SHARE=f"group-{os.getpid()}", GPUPOOL_SHARE_LIMIT=f"{mib}MiB")

# Who sets a limit, and what a failed malloc says of it.
FROM_OUTSIDE = {
    "GPUPOOL_LIMIT": (variable("GPUPOOL_LIMIT"), "over the limit of GPUPOOL_LIMIT"),
    "GPUPOOL_FRACTION": (fraction, "over the limit of GPUPOOL_FRACTION"),
    "GPUPOOL_CAP": (variable("GPUPOOL_CAP"), "over the limit of GPUPOOL_CAP"),
    "launcher": (launcher, "over the limit of GPUPOOL_CAP"),
    "install": (lambda mib: gpupool.install("cupy", cap=f"{mib}MiB"), "over the limit of GPUPOOL_CAP"),
    "jax": (lambda mib: gpupool.jax.share(0.5, cap=mib / 512), "over the limit of GPUPOOL_CAP"),
    "PYTORCH_ALLOC_CONF": (setting, "over the limit of GPUPOOL_FRACTION"),
    "group": (group, "over the group's limit"),
}
OWN = {
    "set_limit": lambda mib: gpupool.default_pool(0).set_limit(mib * MIB),
    "fraction": lambda mib: gpupool.set_per_process_memory_fraction(mib / 1024),
    "CuPy's set_limit": lambda mib: gpupool.frameworks._cupy_pool.DefaultPool(None).set_limit(mib * MIB),
}
# The environment is there before the program, which sets a pool's own limit when there is one.
def turn(name):
    return 2 if name in OWN else 1 if name in ("install", "jax", "PYTORCH_ALLOC_CONF") else 0

LIMITERS = {**FROM_OUTSIDE, **{name: (apply, "over the pool's limit") for name, apply in OWN.items()}}

def holds(mib, words):
    pool = gpupool.default_pool(0)
    with pool.alloc(mib * MIB):
        try: pool.alloc(2 * MIB)
        except gpupool.OverLimitError as error: assert words in str(error), error
        else: raise AssertionError("no limit")

def pair(first, second):
    (_, (apply, _)), (_, (then, _)) = first, second
    apply(first[0]); then(second[0])
    by_outsider = first[1] in (LIMITERS[name] for name in FROM_OUTSIDE)
    both_own = not by_outsider and second[1] in (LIMITERS[name] for name in OWN)
    mib, (_, words) = second if both_own else min(first, second, key=lambda each: each[0])
    holds(mib, words)

failed = 0
for one, other in itertools.permutations(LIMITERS, 2):
    if turn(one) > turn(other):
        continue
    for small_first in (True, False):
        sizes = (256, 512) if small_first else (512, 256)
        child = os.fork()
        if child == 0:
            try:
                gpupool.sim.configure(0, data=False, capacity_bytes=1024 * MIB)
                pair((sizes[0], LIMITERS[one]), (sizes[1], LIMITERS[other]))
            except BaseException as error:
                print(f"{one}={sizes[0]} {other}={sizes[1]}: {error!r}"[:300], flush=True)
                os._exit(1)
            os._exit(0)
        failed += os.waitpid(child, 0)[1] != 0
print(failed, "failed")
"""


def test_all_pairs() -> None:
    done = run("-c", PAIRS, CUDA_VISIBLE_DEVICES="0")
    assert (done.stdout, done.stderr) == ("0 failed\n", "")


def program(text: str, **environment: str) -> str:
    prologue = "import os, gpupool, gpupool.frameworks\ngpupool.frameworks._check_gpu = lambda: None\nMIB = 1 << 20\n"
    done = run("-c", prologue + textwrap.dedent(text), **environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_an_administrators_limit_stays_for_children_too() -> None:
    program(
        """
        import subprocess, sys
        gpupool.install("cupy", cap="40%")
        assert gpupool.default_pool(0).stats().limit_bytes == 64 * MIB
        assert os.environ["GPUPOOL_LIMIT"] == "64MiB" and os.environ["GPUPOOL_CAP"] == "40%"
        child = "import gpupool; print(gpupool.default_pool(0).stats().limit_bytes)"
        assert int(subprocess.check_output([sys.executable, "-c", child])) == 64 * MIB
        """,
        GPUPOOL_LIMIT="64MiB",
    )


def test_the_environment_holds_for_every_pool_but_the_hosts() -> None:
    program(
        """
        for given in ({}, {"limit": "128MiB"}, {"fraction": 0.9}, {"kind": "managed"}):
            assert gpupool.Pool("sim", **given).stats().limit_bytes == 64 * MIB, given
        assert gpupool.Pool("sim", limit="32MiB").stats().limit_bytes == 32 * MIB
        assert gpupool.Pool("sim", limit="128MiB").stats().own_limit_bytes == 128 * MIB
        assert gpupool.Pool("sim", kind="pinned").stats().limit_bytes == 0
        """,
        GPUPOOL_LIMIT="64MiB",
    )


def test_a_second_cap_joins_the_first() -> None:
    program(
        """
        gpupool.install("cupy", cap="64MiB")
        assert os.environ["GPUPOOL_CAP"] == "128MiB,50%,67108864"
        pool = gpupool.default_pool(0)
        pool.set_limit(0)
        assert pool.stats().limit_bytes == 64 * MIB
        """,
        GPUPOOL_CAP="128MiB, 50%",
    )


def test_on_the_command_line_too(tmp_path_factory: pytest.TempPathFactory) -> None:
    script = tmp_path_factory.mktemp("program") / "program.py"
    script.write_text("import gpupool; print(gpupool.default_pool(0).stats().limit_bytes)")
    done = run("-m", "gpupool", "--cap", "40%", str(script), GPUPOOL_CAP="64MiB")
    assert done.stdout == f"{64 << 20}\n", done.stderr


def test_a_cap_has_every_bit_of_its_fraction() -> None:
    from gpupool.frameworks._cap import Cap, _text_of  # noqa: PLC0415

    for fraction in (0.4, 0.29, 1 / 3, 0.07, 1e-9, 0.1 + 0.2, 1.0):
        text = _text_of(Cap(fraction=fraction))
        assert abs(gpupool.parse_size(text, of=10**15) - int(fraction * 10**15)) <= 1, text
    assert _text_of(Cap(fraction=0.29)) == "29%"
