# SPDX-License-Identifier: Apache-2.0
"""What each launcher's variables come to: the device of a rank, and its share."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest
from test_frameworks_install import run

import gpupool
from gpupool.launch import Place, place

LAUNCHERS = {
    "torchrun": ("LOCAL_RANK", "LOCAL_WORLD_SIZE", "RANK", "WORLD_SIZE"),
    "openmpi": (
        "OMPI_COMM_WORLD_LOCAL_RANK",
        "OMPI_COMM_WORLD_LOCAL_SIZE",
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_SIZE",
    ),
    "mvapich2": (
        "MV2_COMM_WORLD_LOCAL_RANK",
        "MV2_COMM_WORLD_LOCAL_SIZE",
        "MV2_COMM_WORLD_RANK",
        "MV2_COMM_WORLD_SIZE",
    ),
    "mpich": ("MPI_LOCALRANKID", "MPI_LOCALNRANKS", "PMI_RANK", "PMI_SIZE"),
    "pmi": ("PMI_LOCAL_RANK", "PMI_LOCAL_SIZE", "PMI_RANK", "PMI_SIZE"),
}


def started(launcher: str, local: int, ranks: int, rank: int | None = None, **others: str) -> dict[str, str]:
    """The environment of a rank, on the second of two such machines unless `rank` says something else."""
    figures = (local, ranks, ranks + local if rank is None else rank, 2 * ranks)
    return {**dict(zip(LAUNCHERS[launcher], map(str, figures), strict=True)), **others}


def srun(task: int, tasks: str, node: int = 0, rank: int = 5, **others: str) -> dict[str, str]:
    return {
        "SLURM_JOB_ID": "7",
        "SLURM_LOCALID": str(task),
        "SLURM_STEP_TASKS_PER_NODE": tasks,
        "SLURM_NODEID": str(node),
        "SLURM_PROCID": str(rank),
        **others,
    }


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_a_device_for_each_rank(launcher: str) -> None:
    for local in range(4):
        found = place(started(launcher, local, 4, CUDA_VISIBLE_DEVICES="0,1,2,3"))
        assert found == Place(launcher, 4 + local, local, 4, local, 1.0)


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_ranks_share_a_device(launcher: str) -> None:
    shares = [place(started(launcher, local, 4), devices=1) for local in range(4)]
    assert [(each.device, each.share) for each in shares] == [(0, 0.25)] * 4


def test_ranks_that_do_not_come_out_even() -> None:
    found = [place(started("torchrun", local, 5), devices=2) for local in range(5)]
    assert [each.device for each in found] == [0, 1, 0, 1, 0]
    assert [each.share for each in found] == [1 / 3, 1 / 2, 1 / 3, 1 / 2, 1 / 3]
    for devices in range(1, 9):
        for ranks in range(1, 20):
            each = [place(started("openmpi", local, ranks), devices=devices) for local in range(ranks)]
            for device in range(devices):
                assert sum(one.share for one in each if one.device == device) <= 1 + 1e-9
            assert all(one.device < devices for one in each)


def test_fewer_ranks_than_devices() -> None:
    assert [place(started("mpich", local, 2), devices=8)[4:] for local in range(2)] == [(0, 1.0), (1, 1.0)]


def test_ranks_that_are_placed_in_another_order() -> None:
    """Open MPI 5 goes by the places that ranks are bound to: rank 1 may be local rank 2."""
    assert place(started("openmpi", 2, 3, 1), devices=4) == Place("openmpi", 1, 2, 3, 2, 1.0)


def test_nothing_has_started_it() -> None:
    assert place({}) == Place("", 0, 0, 1, 0, 1.0)
    assert place({"LOCAL_RANK": "", "SLURM_LOCALID": " "}) == Place("", 0, 0, 1, 0, 1.0)


def test_slurm_counts_the_tasks_of_this_machine() -> None:
    for node, tasks in enumerate((2, 2, 2, 1)):
        found = place(srun(0, "2(x3),1", node), devices=1)
        assert (found.launcher, found.local_size, found.share) == ("slurm", tasks, 1 / tasks)
    assert place(srun(3, "4", CUDA_VISIBLE_DEVICES="0,1", SLURM_GPUS_ON_NODE="2"))[3:] == (4, 1, 0.5)


def test_a_batch_script_is_no_task_of_slurm() -> None:
    batch = {"SLURM_JOB_ID": "7", "SLURM_LOCALID": "0", "SLURM_PROCID": "0", "SLURM_TASKS_PER_NODE": "4(x2)"}
    assert place(batch, devices=1) == Place("", 0, 0, 1, 0, 1.0)
    found = place({**batch, **started("openmpi", 3, 4)}, devices=1)
    assert (found.launcher, found.local_rank, found.share) == ("openmpi", 3, 0.25)


def test_slurm_gives_tasks_devices_of_their_own() -> None:
    # All of a task's devices are in sight, or those of all tasks.
    for task in range(3):
        narrow = srun(task, "3", SLURM_GPUS_PER_TASK="2", CUDA_VISIBLE_DEVICES="4,5")
        assert place(narrow)[4:] == (0, 1.0)
        wide = srun(task, "3", SLURM_GPUS_PER_TASK="a100:2", CUDA_VISIBLE_DEVICES="0,1,2,3,4,5")
        assert place(wide)[4:] == (2 * task, 1.0)
    # With --gpu-bind, a task sees one of the two that four tasks have.
    bound = srun(3, "4", CUDA_VISIBLE_DEVICES="0", SLURM_GPUS_ON_NODE="2")
    assert place(bound)[4:] == (0, 0.5)


def test_slurm_gives_a_job_a_part_of_a_device() -> None:
    shards = {"SLURM_SHARDS_ON_NODE": "2", "GPUPOOL_SHARDS_PER_DEVICE": "8", "CUDA_VISIBLE_DEVICES": "0"}
    assert place({"SLURM_JOB_ID": "7", **shards}).share == 0.25
    assert place({**srun(0, "2"), **shards}).share == 0.125
    assert place(srun(0, "1", CUDA_MPS_ACTIVE_THREAD_PERCENTAGE="15")).share == 0.15
    assert place({"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "15"}).share == 1.0  # not of a job of Slurm's


def test_a_launcher_that_starts_another() -> None:
    one_a_machine = srun(0, "1(x2)", 1, 1)
    assert place({**one_a_machine, **started("torchrun", 2, 4)}, devices=4).device == 2
    same = started("openmpi", 2, 4, 2)
    assert place({**same, **srun(2, "4", rank=2)}, devices=4).launcher == "openmpi"
    # People set LOCAL_RANK by hand, and nothing else.
    assert place({"LOCAL_RANK": "3", **srun(3, "4")}, devices=1)[3:] == (4, 0, 0.25)


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        (started("torchrun", 4, 4), "LOCAL_RANK is 4 with LOCAL_WORLD_SIZE 4: ranks are 0 to 3"),
        (started("openmpi", 1, 4, 9), "OMPI_COMM_WORLD_RANK is 9 with OMPI_COMM_WORLD_SIZE 8"),
        ({**started("torchrun", 0, 4), "WORLD_SIZE": "2", "RANK": "1"}, "but WORLD_SIZE is 2: fewer ranks in all"),
        ({"LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "0"}, "there are no ranks"),
        ({"LOCAL_RANK": "1"}, "LOCAL_RANK is 1, and LOCAL_WORLD_SIZE is not set"),
        ({"LOCAL_RANK": "-1"}, "LOCAL_RANK is '-1', not a number from 0"),
        ({"LOCAL_RANK": "one"}, "LOCAL_RANK is 'one'"),
        ({"LOCAL_RANK": "1" * 30}, "LOCAL_RANK is '1111"),
        ({"LOCAL_RANK": "\u0663"}, "LOCAL_RANK is "),
        ({"RANK": "3", "WORLD_SIZE": "8"}, "RANK and WORLD_SIZE are set, and LOCAL_RANK is not"),
        (
            {**started("torchrun", 0, 2, 0), **started("openmpi", 3, 4)},
            "LOCAL_RANK is 0 with LOCAL_WORLD_SIZE 2, but OMPI_COMM_WORLD_LOCAL_RANK is 3 with",
        ),
        ({"LOCAL_RANK": "1", **srun(3, "4")}, "SLURM_LOCALID is 3 with SLURM_STEP_TASKS_PER_NODE 4, but LOCAL_RANK"),
        (srun(0, "2(3)"), "SLURM_STEP_TASKS_PER_NODE is '2(3)', not a list such as \"2(x3),1\""),
        (srun(0, "2", 1), "SLURM_NODEID is 1, beyond the machines"),
        (srun(0, "2", CUDA_VISIBLE_DEVICES="0", SLURM_GPUS_PER_TASK="all"), "SLURM_GPUS_PER_TASK is 'all'"),
        (srun(2, "4", CUDA_VISIBLE_DEVICES="0,1,2,3", SLURM_GPUS_PER_TASK="2"), "task 2 of this machine sees 4"),
        (srun(0, "1", SLURM_SHARDS_ON_NODE="2"), "GPUPOOL_SHARDS_PER_DEVICE is not set"),
        (srun(0, "1", CUDA_MPS_ACTIVE_THREAD_PERCENTAGE="0"), "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE is '0'"),
        (started("torchrun", 0, 2, CUDA_VISIBLE_DEVICES="-1,0"), "hides every GPU"),
        (started("torchrun", 0, 2, CUDA_VISIBLE_DEVICES="0", GPUPOOL_RANKS_PER_DEVICE="3"), "GPUPOOL_RANKS_PER_DEVICE"),
        ({"GPUPOOL_LAUNCHER": "slurmm"}, "GPUPOOL_LAUNCHER is 'slurmm'; it is one of torchrun, openmpi"),
        ({"GPUPOOL_LAUNCHER": "slurm", **started("torchrun", 0, 2)}, "GPUPOOL_LAUNCHER is slurm, whose variables"),
    ],
)
def test_nonsense_is_refused_by_name(environment: dict[str, str], words: str) -> None:
    with pytest.raises(ValueError, match=r"^.+$") as caught:
        place(environment)
    assert words in str(caught.value) and "\n" not in str(caught.value)


def test_what_settles_a_doubt() -> None:
    both = {**started("torchrun", 0, 2, 0), **started("openmpi", 3, 4)}
    assert place({**both, "GPUPOOL_LAUNCHER": "openmpi"}, devices=4).device == 3
    # A wrapper shows each rank a device of its own.
    alone = started("openmpi", 3, 4, CUDA_VISIBLE_DEVICES="3", GPUPOOL_RANKS_PER_DEVICE="1")
    assert place(alone)[4:] == (0, 1.0)


RANK = {"LOCAL_RANK": "2", "LOCAL_WORLD_SIZE": "4", "RANK": "2", "WORLD_SIZE": "4", "CUDA_VISIBLE_DEVICES": "0"}
LIMIT = "import gpupool; p = gpupool.default_pool(0); print(p.stats().limit_bytes / p.device_info().total_bytes)"


def test_the_cap_is_automatic() -> None:
    assert run("-c", LIMIT, GPUPOOL_CAP="auto", **RANK).stdout == "0.25\n"
    assert run("-c", LIMIT, GPUPOOL_CAP="auto").stdout == "0.0\n"
    adopt = "import gpupool; print(gpupool.launch.adopt().device); "
    assert run("-c", adopt + LIMIT, **{**RANK, "CUDA_VISIBLE_DEVICES": "0,1"}).stdout == "0\n0.5\n"
    refused = run("-c", LIMIT, GPUPOOL_CAP="auto", **{**RANK, "LOCAL_RANK": "4"})
    assert refused.returncode == 1 and "LOCAL_RANK is 4 with LOCAL_WORLD_SIZE 4" in refused.stderr


def test_a_framework_is_limited_before_it_is_given_the_pool() -> None:
    program = """
        import gpupool, gpupool.frameworks
        gpupool.frameworks._check_gpu = lambda: None
        import cupy, os
        print(os.environ["GPUPOOL_CAP"], gpupool.frameworks.installed())
    """
    done = run("-c", textwrap.dedent(program), GPUPOOL_CAP="auto", GPUPOOL_INSTALL="cupy", **RANK)
    assert (done.stdout, done.stderr) == ("25% ('cupy',)\n", "")
    program = program.replace("import cupy", 'gpupool.install("cupy", cap="auto")\n        import cupy')
    assert run("-c", textwrap.dedent(program), **RANK).stdout == "25% ('cupy',)\n"


# As much of Ray as is asked, where Ray itself is not there.
RAY = """
import os, sys, types
sys.modules["ray"] = ray = types.ModuleType("ray")
ray.WORKER_MODE, given = 1, {}
context = types.SimpleNamespace(worker=types.SimpleNamespace(mode=1), get_assigned_resources=lambda: given,
    get_accelerator_ids=lambda: {"GPU": ["3"] if given else []})
ray.is_initialized, ray.get_runtime_context = lambda: True, lambda: context
import gpupool, gpupool.frameworks
gpupool.frameworks._check_gpu = lambda: None
"""


def ray_worker(program: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return run("-c", RAY + textwrap.dedent(program), GPUPOOL_CAP="auto", GPUPOOL_INSTALL="cupy", **environment)


def test_a_worker_of_ray_that_has_no_gpu_yet() -> None:
    done = ray_worker("""
        import cupy  # at the top of a module, in a task without a GPU
        assert os.environ["GPUPOOL_CAP"] == "1"
        try: gpupool.default_pool(0)
        except RuntimeError as error: assert "Ray has given this worker no GPU" in str(error)
        else: raise AssertionError
        given["GPU"] = 0.25  # and then one with a part of it
        pool = gpupool.default_pool(0)
        assert pool.stats().limit_bytes == pool.device_info().total_bytes // 4
        given["GPU"] = 0.5  # which stays, until it is asked for
        assert gpupool.default_pool(0).stats().limit_bytes == pool.device_info().total_bytes // 4
        assert gpupool.ray.adopt().share == 0.5
        assert pool.stats().limit_bytes == pool.device_info().total_bytes // 2
        given["GPU"] = 1.0
        gpupool.ray.adopt()
        assert pool.stats().limit_bytes == 0
    """)
    assert (done.returncode, done.stderr) == (0, "")


def test_rays_devices() -> None:
    done = ray_worker("""
        given["GPU"] = 2.0
        os.environ["CUDA_VISIBLE_DEVICES"] = "3"
        assert gpupool.launch.place()[4:] == (0, 1.0)
        os.environ["CUDA_VISIBLE_DEVICES"] = "0,1,2,3"  # RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES
        assert gpupool.launch.place()[4:] == (3, 1.0)
    """)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_driver_of_ray_is_no_worker() -> None:
    done = ray_worker("""
        context.worker.mode = 0
        assert gpupool.launch.place().launcher == ""
        try: gpupool.ray.adopt()
        except RuntimeError as error: assert "is no worker" in str(error)
        else: raise AssertionError
    """)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_runtime_env_for_ray() -> None:
    found = gpupool.ray.runtime_env(install=["torch", "cupy"], share="team", priority=2, pip=["x"], env_vars={"A": "1"})
    assert found["pip"] == ["x"]
    assert found["env_vars"] == {
        "GPUPOOL_INSTALL": "torch,cupy",
        "GPUPOOL_CAP": "auto",
        "GPUPOOL_SHARE": "team",
        "GPUPOOL_SHARE_PRIORITY": "2",
        "A": "1",
    }
    with pytest.raises(ValueError, match='did you mean "torch"'):
        gpupool.ray.runtime_env(install="tourch")
    with pytest.raises(TypeError, match="share is 3, of type int"):
        gpupool.ray.runtime_env(share=3)
    with pytest.raises(ValueError, match='share is "a/b"'):
        gpupool.ray.runtime_env(share="a/b")
    with pytest.raises(ValueError, match="priority is 9; it must be -8 to 8"):
        gpupool.ray.runtime_env(share="team", priority=9)
    with pytest.raises(ValueError, match="guaranteed is"):
        gpupool.ray.runtime_env(share="team", guaranteed="much")


LAUNCH = ("-m", "gpupool.launch")
SHOW = ("sh", "-c", 'echo "$CUDA_VISIBLE_DEVICES $GPUPOOL_FRACTION $*"', "sh", "-x", "--one-device")


def test_a_program_in_any_language() -> None:
    assert run(*LAUNCH, *SHOW, **RANK).stdout == "0 0.25 -x --one-device\n"
    two = {**RANK, "LOCAL_RANK": "3", "RANK": "3", "CUDA_VISIBLE_DEVICES": "4,GPU-1"}
    assert run(*LAUNCH, "--one-device", *SHOW, **two).stdout == "GPU-1 0.5 -x --one-device\n"
    assert run(*LAUNCH, *SHOW, GPUPOOL_FRACTION="10%", **RANK).stdout == "0 0.1 -x --one-device\n"
    done = run(*LAUNCH, sys.executable, "-c", LIMIT, **RANK)
    assert (done.stdout, done.stderr) == ("0.25\n", "")


def test_a_program_that_cannot_be_started() -> None:
    for arguments, environment, words in (
        ((), {}, "name a program"),
        (("nowhere-to-be-found",), {}, "there is no nowhere-to-be-found"),
        (("true",), {"LOCAL_RANK": "x"}, "LOCAL_RANK is 'x'"),
        (("true",), {"GPUPOOL_FRACTION": "2"}, "GPUPOOL_FRACTION is '2'"),
    ):
        done = run(*LAUNCH, *arguments, **environment)
        assert done.returncode == 2 and words in done.stderr and "Traceback" not in done.stderr


def test_nothing_is_imported_that_is_not_used() -> None:
    done = run(
        "-c", "import sys, gpupool.launch, gpupool.ray; print({'ray', 'dask', 'torch', 'ctypes'} & set(sys.modules))"
    )
    assert (done.stdout, done.stderr) == ("set()\n", "")
