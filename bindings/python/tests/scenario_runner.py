# SPDX-License-Identifier: Apache-2.0
"""Plays scenario files through the Python binding, by addresses, and prints what the pools counted.

python scenario_runner.py FILE...

Prints one line of JSON for each scenario. A step that does not come out as expected ends its scenario; the
exit status is then 1.
"""

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import gpupool

SIM_DEVICE = 7
GROUPS = ("all", "large", "small")
QUANTITIES = "requested_bytes allocated_bytes active_bytes reserved_bytes allocated_blocks active_blocks chunks".split()
METRICS = ("current", "peak", "total_allocated", "total_freed")
COUNTS = (
    "limit_bytes cached_bytes releasable_bytes slack_bytes hits misses steals stream_steals retries oom_handler_calls "
    "failed_mallocs streams"
).split()
CALLS = ("create release map set_access unmap address malloc free event_record query stream_wait host_wait").split()
PATHS = [
    *(f"{group}.{quantity}.{metric}" for group in GROUPS for quantity in QUANTITIES for metric in METRICS),
    *COUNTS,
    *(f"driver.{call}.count" for call in CALLS),
]
EXPECTATIONS = {"status", "stats", "same_address", "other_address", "address_zero", "message_contains"}

Step = dict[str, Any]


class Unexpected(Exception):
    """A step that did not come out as the scenario expects."""


class Block:
    """What a scenario remembers of a block, also once it is freed."""

    def __init__(self, address: int, stream: int) -> None:
        self.address = address
        self.stream = stream


class Scenario:
    def __init__(self, description: Step) -> None:
        self.description = description
        self.on_sim = "sim" in description
        self.pools: dict[str, gpupool.Pool] = {}
        self.streams: dict[str, gpupool.Stream] = {}
        self.blocks: dict[str, Block] = {}
        self.saved: dict[str, int] = {}
        if self.on_sim:
            capacity = description["sim"].get("capacity_bytes", 0)
            gpupool.sim.configure(SIM_DEVICE, capacity_bytes=capacity, data=False)

    # ---- running

    def run(self) -> Step:
        for number, step in enumerate(self.description["steps"], 1):
            try:
                self.play(step)
            except (Unexpected, KeyError, AttributeError) as why:
                raise Unexpected(f"step {number}: {json.dumps(step)}: {why}") from None
        return {"name": self.description["name"], "pools": {name: self.figures(name) for name in self.pools}}

    def figures(self, pool: str) -> dict[str, int]:
        stats = self.pools[pool].stats()
        return {path: look_up(stats, path) for path in PATHS}

    def close(self) -> None:
        for stream in self.streams.values():
            stream.close()
        for pool in self.pools.values():
            pool.close()

    def play(self, step: Step) -> None:
        expected = step.get("expect", {})
        if unknown := expected.keys() - EXPECTATIONS:
            raise Unexpected(f"there is no expectation {sorted(unknown)}")
        for i in range(*step["for"]) if "for" in step else [None]:
            names = {} if i is None else {"block": step["block"].replace("#", str(i))}
            self.play_once({**step, **names}, expected)
        self.check(step, expected)
        for name, path in step.get("save", {}).items():
            self.saved[name] = self.statistic(step["pool"], path)

    def play_once(self, step: Step, expected: Step) -> None:
        operation = getattr(self, f"do_{step['op']}", None)
        if operation is None:
            raise Unexpected("there is no such operation")
        status, message = "GPUPOOL_SUCCESS", ""
        try:
            operation(step)
        except gpupool.Error as error:
            status, message = f"GPUPOOL_ERROR_{gpupool.Status(error.status).name}", error.message
        wanted = expected.get("status", "GPUPOOL_SUCCESS")
        if status != wanted:
            raise Unexpected(f"expected {wanted}, found {status} {message}")
        if expected.get("message_contains", "") not in message:
            raise Unexpected(f"expected {expected['message_contains']!r} in the message {message!r}")

    # ---- expectations

    def check(self, step: Step, expected: Step) -> None:
        for path, wanted in expected.get("stats", {}).items():
            found = self.statistic(step["pool"], path)
            lowest, highest = self.bounds(wanted)
            if not lowest <= found <= highest:
                raise Unexpected(f"expected {path} = {json.dumps(wanted)}, found {found}")
        if "block" not in step:
            return
        address = self.blocks[step["block"]].address if step["block"] in self.blocks else 0
        if "same_address" in expected and address != self.blocks[expected["same_address"]].address:
            raise Unexpected(f"expected the address of {expected['same_address']}, found {address:#x}")
        if "other_address" in expected and address == self.blocks[expected["other_address"]].address:
            raise Unexpected(f"expected another address than that of {expected['other_address']}")
        if expected.get("address_zero", address == 0) != (address == 0):
            raise Unexpected(f"expected address_zero = {expected['address_zero']}, found {address:#x}")

    def bounds(self, wanted: Any) -> tuple[int, float]:
        if isinstance(wanted, dict) and "saved" not in wanted:
            lowest = self.value(wanted["min"]) if "min" in wanted else 0
            return lowest, self.value(wanted["max"]) if "max" in wanted else float("inf")
        return self.value(wanted), self.value(wanted)

    def value(self, wanted: Any) -> int:
        if isinstance(wanted, dict):
            return self.saved[wanted["saved"]] + int(wanted.get("plus", 0))
        return int(wanted)

    def statistic(self, pool: str, path: str) -> int:
        if path.startswith("device."):
            return int(getattr(self.pools[pool].device_info(), path.removeprefix("device.")))
        return look_up(self.pools[pool].stats(), path)

    # ---- operands

    def size(self, step: Step, key: str) -> int:
        size = step[key]
        if isinstance(size, dict):
            return int(size["of_total"] * self.pools[step["pool"]].device_info().total_bytes) // 512 * 512
        return int(size)

    def stream(self, step: Step) -> int:
        return int(self.streams[step["stream"]]) if "stream" in step else 0

    # ---- operations

    def do_create(self, step: Step) -> None:
        options = {key: value for key, value in step.items() if key not in ("op", "pool", "expect", "save")}
        place: dict[str, Any] = {"device": SIM_DEVICE, "backend": "sim"} if self.on_sim else {}
        self.pools[step["pool"]] = gpupool.Pool(**place, **options)

    def do_destroy(self, step: Step) -> None:
        self.pools.pop(step["pool"]).close()

    def do_stream(self, step: Step) -> None:
        self.streams[step["stream"]] = self.pools[step["pool"]].stream()

    def do_destroy_stream(self, step: Step) -> None:
        self.streams.pop(step["stream"]).close()

    def do_malloc(self, step: Step) -> None:
        pool, stream, size = self.pools[step["pool"]], self.stream(step), self.size(step, "size")
        if "alignment" in step:
            address = pool.malloc_aligned(size, step["alignment"], stream)
        else:
            address = pool.malloc(size, stream)
        self.blocks[step["block"]] = Block(address, stream)

    def do_free(self, step: Step) -> None:
        pool = self.pools[step["pool"]]
        if "address" in step:
            pool.free(step["address"])
            return
        block = self.blocks[step["block"]]
        stream = block.stream
        if "stream" in step:
            stream = gpupool.STREAM_UNKNOWN if step["stream"] == "unknown" else self.stream(step)
        pool.free(block.address + step.get("offset", 0), stream)

    def do_record_stream(self, step: Step) -> None:
        self.pools[step["pool"]].record_stream(self.blocks[step["block"]].address, self.stream(step))

    def do_release_stream(self, step: Step) -> None:
        self.pools[step["pool"]].release_stream(self.stream(step))

    def do_synchronize(self, step: Step) -> None:
        self.pools[step["pool"]].synchronize()

    def do_empty(self, step: Step) -> None:
        self.pools[step["pool"]].empty_cache()

    def do_reset_peaks(self, step: Step) -> None:
        self.pools[step["pool"]].reset_peak_memory_stats()

    def do_validate(self, step: Step) -> None:
        self.pools[step["pool"]].validate()

    def do_trim(self, step: Step) -> None:
        self.pools[step["pool"]].trim(self.size(step, "target_bytes"))

    def do_reserve(self, step: Step) -> None:
        self.pools[step["pool"]].reserve(self.size(step, "target_bytes"), self.stream(step))

    def do_set_fraction(self, step: Step) -> None:
        self.pools[step["pool"]].set_per_process_memory_fraction(step["fraction"])

    def do_set_limit(self, step: Step) -> None:
        self.pools[step["pool"]].set_limit(self.size(step, "limit_bytes"))

    def do_look(self, step: Step) -> None:
        pass


def look_up(stats: gpupool.Stats, path: str) -> int:
    value: Any = stats
    for name in path.split("."):
        value = getattr(value, name)
    return int(value)


def main(files: Iterable[str]) -> int:
    status = 0
    for file in files:
        scenario = Scenario(json.loads(Path(file).read_text(encoding="utf-8")))
        try:
            print(json.dumps(scenario.run(), sort_keys=True, separators=(",", ":")))
        except Unexpected as why:
            print(f"{file}: {why}", file=sys.stderr)
            status = 1
        finally:
            scenario.close()
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
