# SPDX-License-Identifier: Apache-2.0
"""Where Triton keeps its allocator."""

from contextvars import ContextVar
from typing import Any

_allocator: ContextVar[Any] = ContextVar("_allocator", default=None)
