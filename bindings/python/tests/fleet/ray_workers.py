# SPDX-License-Identifier: Apache-2.0
"""A cluster of Ray on the simulated device: run by test_fleet.py, with one card of 1 GiB for all processes."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

import fill
import ray

import gpupool

QUARTER = fill.CARD // 4


@ray.remote(num_cpus=0)
class Worker:
    """An actor that takes what it may have."""

    def fill(self) -> tuple[int, int, int]:
        return fill.fill()

    def free(self) -> None:
        fill.free()

    def place(self) -> tuple[float, str | None]:
        return gpupool.launch.place().share, os.environ.get("GPUPOOL_SHARE")


def worker(num_gpus: float, **options: Any) -> Any:
    return Worker.options(num_gpus=num_gpus, **options).remote()  # type: ignore[attr-defined]


def caps_hold() -> None:
    with fill.watched() as seen:
        workers = [worker(0.25) for _ in range(4)]
        found = ray.get([each.fill.remote() for each in workers])
        assert [(got, limit) for _, got, limit in found] == [(QUARTER, QUARTER)] * 4, found
        assert len({number for number, _, _ in found}) == 4
        assert fill.used() == fill.CARD

        # Killed with all that it has, which another worker gets.
        os.kill(found[0][0], signal.SIGKILL)
        after = worker(0.25)
        assert ray.get(after.fill.remote())[1:] == (QUARTER, QUARTER)

        # One that Ray ends.
        ray.kill(workers[1])
        after = [after, worker(0.25)]
        assert ray.get(after[1].fill.remote())[1:] == (QUARTER, QUARTER)
        for each in (*workers[2:], *after):
            ray.kill(each)
    fill.until(lambda: all(member.pid not in [f[0] for f in found] for member in members()))
    assert max(seen) == fill.CARD


def members() -> tuple[gpupool.ShareMember, ...]:
    gpupool.share_repair("team", "sim")
    return gpupool.share_info("team", "sim").members


def a_task_that_ends_gives_back() -> None:
    @ray.remote(num_cpus=0, num_gpus=0.5)  # type: ignore[untyped-decorator]
    def work() -> tuple[int, int, int]:
        return fill.fill()

    number, got, limit = ray.get(work.remote())
    assert got == limit == 2 * QUARTER
    fill.until(lambda: not any(member.pid == number for member in members()))
    assert fill.used() == 0


def caches_go_to_who_needs_them() -> None:
    gpupool.share_set("limit", 2 * QUARTER + QUARTER // 2, share="team", device="sim")
    first, second = worker(0.5), worker(0.5)
    assert ray.get(first.fill.remote())[1] == 2 * QUARTER
    assert ray.get(second.fill.remote())[1] == QUARTER // 2
    ray.get(first.free.remote())
    assert ray.get(second.fill.remote())[1] == 2 * QUARTER
    for each in (first, second):
        ray.kill(each)
    fill.until(lambda: not members())
    gpupool.share_set("limit", fill.CARD, share="team", device="sim")


def a_task_without_a_gpu_gets_none() -> None:
    @ray.remote(num_cpus=0)  # type: ignore[untyped-decorator]
    def work() -> str:
        try:
            gpupool.default_pool(0)
        except RuntimeError as error:
            return str(error)
        return "it got a pool"

    assert "Ray has given this worker no GPU" in ray.get(work.remote())


def one_worker_with_several_tasks() -> None:
    @ray.remote(num_cpus=0, num_gpus=0.25, max_calls=0)  # type: ignore[untyped-decorator]
    def work() -> tuple[int, float, int]:
        share = gpupool.ray.adopt().share
        return os.getpid(), share, gpupool.default_pool(0).stats().limit_bytes

    first = ray.get(work.remote())
    second = ray.get(work.options(num_gpus=0.5).remote())
    assert first[1:] == (0.25, QUARTER) and second[1:] == (0.5, 2 * QUARTER), (first, second)


def settings_of_one_actor() -> None:
    """By gpupool.ray.runtime_env, and by the plugin."""
    for environment in (
        gpupool.ray.runtime_env(share="others", cap="128MiB"),
        {"gpupool": {"share": "others", "cap": "128MiB"}},
    ):
        each = worker(0.25, runtime_env=environment)
        assert ray.get(each.fill.remote())[1:] == (128 * fill.MIB, 128 * fill.MIB)
        assert ray.get(each.place.remote()) == (0.25, "others")
        assert fill.used("others") == 128 * fill.MIB and fill.used() == 0
        ray.kill(each)
        fill.until(lambda: gpupool.share_repair("others", "sim") >= 0 and fill.used("others") == 0)
    refused = worker(0.25, runtime_env={"gpupool": {"shares": "team"}})
    try:
        ray.get(refused.fill.remote())
    except ray.exceptions.RuntimeEnvSetupError as error:
        assert "gpupool has no option 'shares'" in str(error), error
    else:
        raise AssertionError("a slip of the pen was taken")


def main() -> None:
    ray.init(
        num_cpus=4,
        num_gpus=1,
        include_dashboard=False,
        logging_level="ERROR",
        log_to_driver=False,
        _temp_dir=sys.argv[1],
        runtime_env={"worker_process_setup_hook": "gpupool.ray.setup"},
    )
    try:
        for check in (
            caps_hold,
            a_task_that_ends_gives_back,
            caches_go_to_who_needs_them,
            a_task_without_a_gpu_gets_none,
            one_worker_with_several_tasks,
            settings_of_one_actor,
        ):
            check()
            print("ok", check.__name__, flush=True)
    finally:
        ray.shutdown()


if __name__ == "__main__":
    main()
