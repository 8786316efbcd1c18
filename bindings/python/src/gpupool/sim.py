# SPDX-License-Identifier: Apache-2.0
"""The simulated device. It follows CUDA's rules for memory and streams, in virtual time, and reports when they are
broken. There are 8, numbered from 0; for other numbers these functions raise InvalidArgumentError.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ._arguments import device_number, integer, real
from ._arguments import size as size_of
from ._error import check
from ._native import ffi, lib
from ._record import Record
from ._stream import StreamLike, Using, stream_number


class Faults(Record):
    """The rules of a device that have been broken so far."""

    __slots__ = ("count", "last")

    count: int
    last: str
    """A description of the last one."""


def configure(
    device: int = 0,
    *,
    data: bool | None = None,
    capacity_bytes: int | str = 0,
    price_scale: float = 0.0,
    strict_streams: bool = False,
    host_bytes: int | str = 0,
) -> None:
    """Sets how a simulated device behaves; possible only while no pool uses it.

    data: whether blocks are real host memory, with true aliasing (the default), or only addresses, for speed.
    capacity_bytes: 0 is an H200's. price_scale: multiplies the prices of driver calls, which are an H200's too. What
    is left out is as GPUPOOL_SIM in the environment says.
    strict_streams: only 0 and streams that a pool created are streams; any other number is a fault. Since 0.2.
    host_bytes: how much host memory can be page-locked; 0 is 1 TiB. Since 0.2.
    Raises InvalidArgumentError (no such device, in use, out of range).
    """
    config = ffi.new("gpupool_sim_config_t *", {"struct_size": ffi.sizeof("gpupool_sim_config_t")})
    config.data = 0 if data is None else 1 if data else 2
    config.capacity_bytes = size_of("capacity_bytes", capacity_bytes)
    config.price_scale = real("price_scale", price_scale)
    config.host_bytes = size_of("host_bytes", host_bytes)
    config.streams = 2 if strict_streams else 1
    check(lib.gpupool_sim_configure(device_number("device", device), config))


def script(text: str, device: int = 0) -> None:
    """Makes driver calls fail: a comma-separated list of "CALL:NUMBER[=ERROR]". CALL is create, release, map,
    set_access, unmap, address, malloc, free, event_record, query, stream_wait, host_wait, copy (of sleep and wake),
    stream or share (with other processes); NUMBER counts its occurrences from 1, starting now, or is * for all; ERROR
    is out_of_memory, error, or kill, which ends the process as kill -9 does. "" ends all failures."""
    check(lib.gpupool_sim_script(device_number("device", device), text.encode()))


def work(nanoseconds: int, stream: StreamLike = 0, *, address: int = 0, size: int = 0, device: int = 0) -> None:
    """Queues work on a stream that takes some virtual time, and reads and writes size bytes at address."""
    check(lib.gpupool_sim_work(device, stream_number(stream), address, size, nanoseconds))


def advance(nanoseconds: int, device: int = 0) -> None:
    """Lets virtual time pass."""
    check(lib.gpupool_sim_advance(device_number("device", device), integer("nanoseconds", nanoseconds)))


@contextmanager
def capture(stream: StreamLike, device: int = 0) -> Iterator[None]:
    """Inside the `with`, the stream captures a graph: work, fills and copies are recorded for launch, not done."""
    number = stream_number(stream)
    check(lib.gpupool_sim_capture(device, number, 1))
    try:
        yield
    finally:
        check(lib.gpupool_sim_capture(device, number, 0))


def launch(capture: int, stream: StreamLike = 0, device: int = 0) -> None:
    """Queues on a stream of the device what an ended capture recorded, any number of times.

    capture: what Pool.capture_id returned during the capture. The addresses are those of the capture, and must be
    mapped now. Since 0.2. Raises InvalidArgumentError (no such device, no such capture on it, or one in progress),
    DriverError, and UnsupportedError as the copies do.
    """
    number = device_number("device", device)
    with Using(stream) as on:
        check(lib.gpupool_sim_launch(number, integer("capture", capture), on))


def hold(address: int, device: int = 0) -> None:
    """Holds the physical memory mapped at an address as another library such as NCCL would: it does not return to the
    device until hold(0). Since 0.2. Raises InvalidArgumentError (no chunk is mapped there)."""
    check(lib.gpupool_sim_hold(device_number("device", device), address))


def faults(device: int = 0) -> Faults:
    """Use of unmapped memory, races between streams, unmapping memory in use, and calls that are illegal during
    capture."""
    count = ffi.new("uint64_t *")
    text = ffi.new("char[]", 1024)
    check(lib.gpupool_sim_faults(device, count, text, 1024))
    return Faults(count=int(count[0]), last=ffi.string(text).decode(errors="replace"))
