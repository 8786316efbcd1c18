# SPDX-License-Identifier: Apache-2.0
"""Tags from a model's modules."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from .._error import check
from .._native import lib
from .._tags import follow_context

_MOST_BYTES = 63


class ModuleTags:
    """The tags of a model's modules, until remove() is called. Also a context manager."""

    def __init__(self) -> None:
        self._hooks: list[Any] = []
        self._thread = threading.local()

    def _add(self, module: Any, name: str, is_root: bool) -> None:
        text = name.encode()[-_MOST_BYTES:].decode(errors="ignore").encode()
        self._hooks.append(module.register_forward_pre_hook(self._enter(text, is_root), prepend=True))
        self._hooks.append(module.register_forward_hook(self._leave, always_call=True))

    def _enter(self, text: bytes, is_root: bool) -> Callable[..., None]:
        def enter(_module: Any, _inputs: Any) -> None:
            if is_root:
                # What an interrupt has left: PyTorch calls no hook for it.
                self._pop(getattr(self._thread, "depth", 0))
            follow_context()
            check(lib.gpupool_tag_push(text))
            self._thread.depth = getattr(self._thread, "depth", 0) + 1

        return enter

    def _leave(self, _module: Any, _inputs: Any, _output: Any) -> None:
        self._pop(min(1, getattr(self._thread, "depth", 0)))

    def _pop(self, count: int) -> None:
        for _ in range(count):
            lib.gpupool_tag_pop()
            self._thread.depth -= 1

    def remove(self) -> None:
        """Ends the tagging. Call it while no module is running."""
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()

    def __enter__(self) -> ModuleTags:
        return self

    def __exit__(self, *_error: object) -> None:
        self.remove()


def tag_modules(model: Any, depth: int = 2) -> ModuleTags:
    """Reports and recordings show a module's qualified name, such as "layers.3", for what its forward allocates:

        gpupool.torch.tag_modules(model)

    depth: how many names deep; 0 tags only the model itself, by its class. Of a name longer than 63 bytes the end is
    shown. The innermost module counts, as with gpupool.tag. What the backward pass allocates has no tag, because
    PyTorch runs it on threads of its own; nor has what a compiled or captured model allocates without its hooks.
    Costs two Python calls a module. Raises TypeError, ValueError. Since 0.2."""
    if not hasattr(model, "named_modules"):
        raise TypeError(f"model is {model!r}, not a torch.nn.Module")
    if depth < 0:
        raise ValueError(f"depth is {depth}, not 0 or more")
    tags = ModuleTags()
    for name, module in model.named_modules():
        is_root = name == ""
        if is_root or name.count(".") < depth:
            tags._add(module, name or type(model).__name__, is_root)
    return tags
