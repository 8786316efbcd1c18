# SPDX-License-Identifier: Apache-2.0
"""RMM: its resources by device."""

from types import SimpleNamespace
from typing import Any

__version__ = "26.10.00"


class CudaMemoryResource:
    pass


class CallbackMemoryResource:
    def __init__(self, allocate: Any, deallocate: Any) -> None:
        self.allocate, self.deallocate = allocate, deallocate


resources: dict[int, Any] = {}

mr = SimpleNamespace(
    CallbackMemoryResource=CallbackMemoryResource,
    get_per_device_resource=lambda device: resources.setdefault(device, CudaMemoryResource()),
    set_per_device_resource=resources.__setitem__,
)
