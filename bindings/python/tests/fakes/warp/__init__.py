# SPDX-License-Identifier: Apache-2.0
"""Warp: its devices, their allocators and streams."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

__version__ = "1.19.0"


class DefaultAllocator:
    pass


DefaultAllocator.__module__ = "warp._src.context"

destroyed: list[int] = []


class Stream:
    def __init__(self, cuda_stream: int | None, owner: bool = True) -> None:
        self.cuda_stream, self.owner = cuda_stream, owner
        self.device = device

    def __del__(self) -> None:
        if self.cuda_stream:
            destroyed.append(self.cuda_stream)


device = SimpleNamespace(ordinal=0, stream=None, allocator=DefaultAllocator(), is_cuda=True)
device.stream = Stream(None)


def get_device(wanted: Any) -> Any:
    return device


def get_cuda_devices() -> list[Any]:
    return [device]


def get_device_allocator(wanted: Any) -> Any:
    return wanted.allocator


def set_device_allocator(wanted: Any, allocator: Any) -> None:
    wanted.allocator = allocator


def set_cuda_allocator(allocator: Any) -> None:
    device.allocator = allocator or DefaultAllocator()
