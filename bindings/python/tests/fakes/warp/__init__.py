# SPDX-License-Identifier: Apache-2.0
"""Warp: its devices and their allocators."""

from types import SimpleNamespace
from typing import Any

__version__ = "1.19.0"


class DefaultAllocator:
    pass


DefaultAllocator.__module__ = "warp._src.context"

device = SimpleNamespace(
    ordinal=0, stream=SimpleNamespace(cuda_stream=None), allocator=DefaultAllocator(), is_cuda=True
)


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
