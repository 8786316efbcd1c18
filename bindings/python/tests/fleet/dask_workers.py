# SPDX-License-Identifier: Apache-2.0
"""A cluster of Dask on the simulated device: run by test_fleet.py, with one card of 1 GiB for all processes."""

from __future__ import annotations

import os
import signal

import fill
from dask import config
from distributed import Client, LocalCluster

import gpupool

QUARTER = fill.CARD // 4


def members() -> set[int]:
    gpupool.share_repair("team", "sim")
    return {member.pid for member in gpupool.share_info("team", "sim").members}


def caps_hold(client: Client) -> None:
    with fill.watched() as seen:
        found = client.run(fill.fill)
        assert [(got, limit) for _, got, limit in found.values()] == [(QUARTER, QUARTER)] * 4, found
        assert fill.used() == fill.CARD

        # Killed with all that it has. Dask's nanny starts another one, which is limited like the first.
        killed = next(iter(found.values()))[0]
        os.kill(killed, signal.SIGKILL)
        numbers = {number for number, _, _ in found.values()} - {killed}

        def is_back() -> bool:
            now = set(client.run(os.getpid, on_error="ignore").values())
            return len(now) == 4 and killed not in now and numbers < now

        fill.until(is_back)
        again = client.run(fill.fill)
        assert [(got, limit) for _, got, limit in again.values()] == [(QUARTER, QUARTER)] * 4, again
        assert fill.used() == fill.CARD
    assert max(seen) == fill.CARD


def ends_give_back(client: Client) -> None:
    """What is freed stays cached until the worker ends."""
    client.run(fill.free)
    workers = list(client.run(os.getpid).items())
    client.retire_workers([workers[0][0]], close_workers=True)
    fill.until(lambda: workers[0][1] not in members())
    assert fill.used() == 3 * QUARTER


def a_task_of_dask(client: Client) -> None:
    assert client.submit(fill.fill, pure=False).result()[2] == QUARTER


def main() -> None:
    with (
        config.set({"gpupool.share": "team"}),
        LocalCluster(
            n_workers=4, threads_per_worker=1, resources={"GPU": 0.25}, preload=["gpupool.dask"], dashboard_address=None
        ) as cluster,
        Client(cluster) as client,
    ):
        for check in (caps_hold, ends_give_back, a_task_of_dask):
            check(client)
            print("ok", check.__name__, flush=True)


if __name__ == "__main__":
    main()
