# SPDX-License-Identifier: Apache-2.0
"""GPUPOOL_INSTALL and GPUPOOL_CAP: frameworks on the pool in programs that do not mention gpupool.

Each framework is given the pool right after the program has imported it, which is early enough for all of them, and
costs nothing where it is not used.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import os
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from . import _FRAMEWORKS, _known, install
from ._cap import apply_cap, parse_cap


def activate() -> None:
    """Heeds both variables as they are now. Called when gpupool is imported. Raises ValueError for what they cannot
    be; a failure to install is raised by the framework's import."""
    apply_cap(parse_cap(os.environ.get("GPUPOOL_CAP")))
    names = [_known(name.strip()) for name in os.environ.get("GPUPOOL_INSTALL", "").split(",") if name.strip()]
    if os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1"):
        return  # The GPUs are hidden from this process on purpose.
    if "numba" in names:
        os.environ["NUMBA_CUDA_MEMORY_MANAGER"] = "gpupool.numba"
        names.remove("numba")
    waiting = {_FRAMEWORKS[name].package: name for name in names}
    for package in [package for package in waiting if package in sys.modules]:
        install(waiting.pop(package))
    _FINDER.waiting.update(waiting)
    if waiting and _FINDER not in sys.meta_path:
        sys.meta_path.insert(0, _FINDER)


class _Finder(importlib.abc.MetaPathFinder):
    """Finds what the other finders find, with a loader that installs gpupool afterwards."""

    def __init__(self) -> None:
        self.waiting: dict[str, str] = {}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname not in self.waiting:
            return None
        for finder in sys.meta_path:
            spec = finder.find_spec(fullname, path, target) if finder is not self else None
            if spec is not None and spec.loader is not None:
                spec.loader = _Loader(spec.loader, self.waiting.pop(fullname))
                return spec
        return None


class _Loader(importlib.abc.Loader):
    def __init__(self, loader: Any, name: str) -> None:
        self._loader = loader
        self._name = name

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        created: ModuleType | None = self._loader.create_module(spec)
        return created

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        install(self._name)


_FINDER = _Finder()
