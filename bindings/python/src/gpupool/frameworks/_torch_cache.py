# SPDX-License-Identifier: Apache-2.0
"""Libraries built on this machine and kept for the next process.

A loaded library has all rights of this process. So only files that belong to this user, in a folder of this user that
nobody else can write, are loaded; any other file, or one that cannot be loaded, is rebuilt.
"""

from __future__ import annotations

import ctypes
import os
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path

_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


class ShimError(Exception):
    """Why there is no shim."""


def cache_folder() -> Path:
    """$XDG_CACHE_HOME/gpupool, or ~/.cache/gpupool. A relative XDG_CACHE_HOME is ignored, as its specification asks."""
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (base if base.is_absolute() else Path.home() / ".cache") / "gpupool"


def load(name: str, build: Callable[[Path], object]) -> ctypes.CDLL:
    """The library of that name. build(path) creates it; both may raise ShimError."""
    try:
        path = _safe_folder() / name
        if _is_safe_file(path):
            try:
                return ctypes.CDLL(str(path))
            except OSError:
                pass  # truncated by a crash, or built for another machine: rebuild
        _build(path, build)
        return ctypes.CDLL(str(path))
    except (OSError, RuntimeError) as error:
        raise ShimError(str(error)) from error


def _safe_folder() -> Path:
    """The folder, created if necessary. Raises ShimError if another user could change its contents."""
    folder = cache_folder()
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder = folder.parent.resolve() / folder.name
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode):
        raise ShimError(f"{folder} is a link or a file, and must be a folder")
    if found.st_uid != os.geteuid():
        raise ShimError(f"{folder} belongs to user {found.st_uid}, and this process is user {os.geteuid()}'s: {_HINT}")
    if found.st_mode & _WRITABLE_BY_OTHERS:
        raise ShimError(f"{folder} can be written by others (mode {stat.S_IMODE(found.st_mode):o}): {_HINT}")
    for parent in folder.parents:
        found = parent.stat()
        is_shared = found.st_mode & _WRITABLE_BY_OTHERS and not found.st_mode & stat.S_ISVTX
        if is_shared or found.st_uid not in (0, os.geteuid()):
            raise ShimError(f"{parent} lets others replace {folder.name} in it: {_HINT}")
    return folder


_HINT = "set XDG_CACHE_HOME to a folder of your own"


def _is_safe_file(path: Path) -> bool:
    try:
        found = path.lstat()
    except FileNotFoundError:
        return False
    is_own = stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid()
    return is_own and not found.st_mode & _WRITABLE_BY_OTHERS


def _build(path: Path, build: Callable[[Path], object]) -> None:
    """Processes that start together each build it; the last one to rename wins, and all results are the same. A file
    with the final name is complete, even after a crash."""
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        built = Path(folder) / path.name
        build(built)
        built.chmod(0o700)
        _sync(built)
        built.replace(path)
    _sync(path.parent)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
