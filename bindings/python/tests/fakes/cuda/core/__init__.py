# SPDX-License-Identifier: Apache-2.0
"""cuda.core: memory resources."""

from types import SimpleNamespace
from typing import Any


class MemoryResource:
    pass


class DeviceMemoryResource:
    def __init__(self, device_id: int) -> None:
        self.device_id = device_id


class Buffer(SimpleNamespace):
    @staticmethod
    def from_handle(ptr: int, size: int, mr: Any, stream: Any) -> "Buffer":
        return Buffer(handle=ptr, size=size, mr=mr, stream=stream)


class Device:
    known: dict[int, "Device"] = {}
    device_id: int
    memory_resource: Any

    def __new__(cls, device_id: int) -> "Device":
        device = cls.known.setdefault(device_id, super().__new__(cls))
        device.device_id = device_id
        return device
