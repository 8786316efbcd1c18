# SPDX-License-Identifier: Apache-2.0
"""GPUPOOL_INSTALL and GPUPOOL_CAP: frameworks on the pool in programs that do not mention gpupool.

Each framework gets the pool right after the program imports it, which is early enough for all of them, and costs
nothing if it is not used. If a framework cannot use the pool, its import fails: a program that should share the GPU
must not take all of it because of a typing error.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import os
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from . import _FRAMEWORKS, _NO_WAY_IN, _known, install
from ._cap import AUTO, await_place, heed_caps, parse_cap, parts_of


def activate() -> None:
    """Applies both variables as they are now. Raises ValueError for bad values; the framework's import raises a failure
    to install."""
    caps = parts_of(os.environ.get("GPUPOOL_CAP", ""))
    for cap in caps:
        if cap != AUTO:
            parse_cap(cap)
    if AUTO in caps:
        await_place()
    heed_caps()
    names = [_known(name) for name in _names()]
    _FINDER.refused.clear()
    if os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1"):
        return  # The GPUs are deliberately hidden from this process.
    if "numba" in names:
        os.environ["NUMBA_CUDA_MEMORY_MANAGER"] = "gpupool.numba"
        names.remove("numba")
    waiting = {_FRAMEWORKS[name].package: name for name in names}
    for package in [package for package in waiting if package in sys.modules]:
        install(waiting.pop(package))
    _FINDER.waiting.update(waiting)
    _FINDER.begin()


def activate_at_start() -> None:
    """The same when gpupool is imported, which may be at the start of any Python program, such as pip: if
    GPUPOOL_INSTALL is set, bad values print one line on stderr, and the first import of a framework raises the
    error."""
    try:
        activate()
    except ValueError as error:
        names = _names()
        if not names:
            raise
        given = {name: os.environ[name] for name in ("GPUPOOL_INSTALL", "GPUPOOL_CAP") if name in os.environ}
        words = f"{', '.join(f'{name}={value}' for name, value in given.items())}: {error}"
        packages = [framework.package for framework in _FRAMEWORKS.values()]
        packages += [name for name in _NO_WAY_IN if name in names]
        _FINDER.refused.update(dict.fromkeys(packages, ValueError(words)))
        _FINDER.begin()
        if sys.stderr is not None:
            line = " ".join(words.split())
            print(f"gpupool: {line} (imports of frameworks fail)", file=sys.stderr)


def _names() -> list[str]:
    return [name.strip() for name in os.environ.get("GPUPOOL_INSTALL", "").split(",") if name.strip()]


class _Finder(importlib.abc.MetaPathFinder):
    """Finds what the other finders find, and wraps the loader so that it installs gpupool afterwards, or refuses to
    load."""

    def __init__(self) -> None:
        self.waiting: dict[str, str] = {}
        """Packages, and what install() calls them."""
        self.refused: dict[str, Exception] = {}
        """Packages, and why they cannot use the pool."""

    def begin(self) -> None:
        if (self.waiting or self.refused) and self not in sys.meta_path:
            sys.meta_path.insert(0, self)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname not in self.waiting and fullname not in self.refused:
            return None
        for finder in sys.meta_path:
            spec = finder.find_spec(fullname, path, target) if finder is not self else None
            if spec is not None and spec.loader is not None:
                spec.loader = _Loader(spec.loader, self, fullname)
                return spec
        if fullname in self.waiting and _FRAMEWORKS[self.waiting[fullname]].may_be_missing:
            return importlib.machinery.ModuleSpec(fullname, _Loader(_Nothing(), self, fullname))
        return None


class _Nothing(importlib.abc.Loader):
    """The loader of a missing package, which gpupool fills by itself."""

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> None:
        """Any empty module will do."""

    def exec_module(self, module: ModuleType) -> None:
        """The module is empty."""


class _Loader(importlib.abc.Loader):
    def __init__(self, loader: Any, finder: _Finder, package: str) -> None:
        self._loader = loader
        self._finder = finder
        self._package = package

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        if self._package in self._finder.refused:
            raise self._finder.refused[self._package].with_traceback(None)
        created: ModuleType | None = self._loader.create_module(spec)
        return created

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        try:
            install(self._finder.waiting[self._package])
        except Exception as error:
            # A second attempt must not get the framework without the pool.
            self._finder.refused[self._package] = error
            raise
        del self._finder.waiting[self._package]


_FINDER = _Finder()
