# SPDX-License-Identifier: Apache-2.0
"""The class of the sleep mode backend "gpupool". Only vLLM imports this."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from .._enums import Capability
from .._error import Error
from .._library import device_info
from . import install
from ._vllm_allocator import KEPT, allocator_instance

if TYPE_CHECKING:
    _Base = object
else:
    _Base = importlib.import_module("vllm.device_allocator.sleep_mode_backend").SleepModeBackend


class GpupoolBackend(_Base):
    """Sleeps by tag. Communicators and compiled code stay as they are, because they have no tag."""

    _state: str

    def __init__(self) -> None:
        super().__init__()
        install("vllm")

    def suspend(self, level: int = 1, tags: tuple[str, ...] | None = None) -> None:
        """Level 1 saves the weights and what vLLM needs after every sleep, level 2 only the latter. tags: what to save
        instead."""
        if level not in (1, 2):
            raise ValueError(f"level is {level}, not 1 or 2")
        saved = ("weights", *KEPT) if level == 1 else KEPT
        allocator_instance().sleep(saved if tags is None else tags)
        self._state = "SUSPENDED"

    def resume(self, tags: list[str] | None = None) -> None:
        """A failure leaves everything suspended."""
        before, self._state = self._state, "RESUMING"
        try:
            allocator_instance().wake_up(tags)
        except BaseException:
            self._state = before
            raise
        self._state = "RUNNING"

    def discard(self, tags: tuple[str, ...]) -> None:
        """Gives the memory of tags back, and drops its contents."""
        allocator_instance().discard(tags)
        self._state = "SUSPENDED"

    @classmethod
    def is_supported(cls) -> bool:
        """Whether the device can map memory."""
        try:
            return bool(device_info(0).capabilities & Capability.VMM)
        except Error:
            return False

    @classmethod
    def preserves_communicators(cls) -> bool:
        """They are outside of all tags."""
        return True

    @classmethod
    def preserves_compiled_artifacts(cls) -> bool:
        """They are outside of all tags."""
        return True
