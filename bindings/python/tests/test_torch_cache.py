# SPDX-License-Identifier: Apache-2.0
"""Where the shim for PyTorch is kept, and what is loaded from there."""

import ctypes
import fnmatch
import os
import shutil
import stat
from pathlib import Path

import pytest

from gpupool import frameworks
from gpupool.frameworks import _torch_cache, _torch_plain, _torch_shim
from gpupool.frameworks._torch_cache import ShimError

NAME = "torch-2.0-0123.so"


def test_what_pytorch_calls_is_in_a_library_of_its_own() -> None:
    library = ctypes.CDLL(str(_torch_shim.torch_library_path()))
    for name in (*_torch_plain._HOOKS.values(), "gpupool_torch_alloc", "gpupool_torch_free", "gpupool_torch_explain"):
        assert hasattr(library, name)
    assert not hasattr(ctypes.CDLL(str(_torch_shim.library_path())), "gpupool_torch_alloc")


@pytest.mark.parametrize(
    ("system", "file"),
    [("linux", "libgpupool.so.0.2"), ("darwin", "libgpupool.0.2.dylib"), ("win32", "gpupool.dll")],
)
def test_each_system_has_its_own_name_for_a_library(system: str, file: str) -> None:
    assert fnmatch.fnmatch(file, _torch_shim.names_of("gpupool", system))


LIBRARY = _torch_shim.library_path()


class Builder:
    """Makes a library that can be loaded, and counts how often."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, path: Path) -> None:
        self.count += 1
        shutil.copy(LIBRARY, path)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    base = tmp_path / "home"
    base.mkdir(mode=0o755)
    monkeypatch.setenv("XDG_CACHE_HOME", str(base))
    return base / "gpupool"


def load(build: Builder) -> ctypes.CDLL:
    return _torch_cache.load(NAME, build)


def test_it_is_built_once_for_its_user_alone(folder: Path) -> None:
    before = os.umask(0)
    try:
        build = Builder()
        assert load(build).gpupool_version() > 0
        load(build)
    finally:
        os.umask(before)
    assert build.count == 1
    assert [path.name for path in folder.iterdir()] == [NAME]
    for path in (folder, folder / NAME):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700


@pytest.mark.parametrize("content", [b"", b"\x7fELF", b"no library at all" * 1000])
def test_what_cannot_be_loaded_is_built_anew(folder: Path, content: bytes) -> None:
    folder.mkdir(mode=0o700)
    (folder / NAME).write_bytes(content)
    build = Builder()
    load(build)
    assert build.count == 1


def test_a_file_that_others_can_write_is_not_loaded(folder: Path) -> None:
    load(Builder())
    (folder / NAME).chmod(0o722)
    build = Builder()
    load(build)
    assert build.count == 1
    assert stat.S_IMODE((folder / NAME).stat().st_mode) == 0o700


def test_a_link_is_not_followed(folder: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere.so"
    shutil.copy(LIBRARY, elsewhere)
    folder.mkdir(mode=0o700)
    (folder / NAME).symlink_to(elsewhere)
    build = Builder()
    load(build)
    assert build.count == 1
    assert not (folder / NAME).is_symlink()
    assert elsewhere.exists()


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702])
def test_a_folder_that_others_can_write_is_refused(folder: Path, mode: int) -> None:
    folder.mkdir()
    folder.chmod(mode)
    build = Builder()
    with pytest.raises(ShimError, match=f"can be written by others .mode {mode:o}.: set XDG_CACHE_HOME"):
        load(build)
    assert build.count == 0


def test_a_folder_that_is_a_link_is_refused(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    folder.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ShimError, match="is a link or a file"):
        load(Builder())


def test_a_folder_that_others_can_replace_is_refused(folder: Path) -> None:
    folder.parent.chmod(0o777)
    with pytest.raises(ShimError, match="lets others replace gpupool in it"):
        load(Builder())
    folder.parent.chmod(0o1777)
    load(Builder())


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_what_belongs_to_another_user_is_not_loaded(folder: Path) -> None:
    load(Builder())
    os.chown(folder / NAME, 65534, 65534)
    build = Builder()
    load(build)
    assert build.count == 1 and (folder / NAME).stat().st_uid == 0
    os.chown(folder, 65534, 65534)
    with pytest.raises(ShimError, match="belongs to user 65534, and this process is user 0's"):
        load(build)


def test_a_relative_folder_is_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "cache")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert _torch_cache.cache_folder() == tmp_path / ".cache" / "gpupool"


def test_a_build_that_fails_leaves_nothing(folder: Path) -> None:
    def build(path: Path) -> None:
        path.write_bytes(b"half")
        raise ShimError("the compiler failed")

    with pytest.raises(ShimError, match="the compiler failed"):
        _torch_cache.load(NAME, build)
    assert list(folder.iterdir()) == []


def test_the_name_stands_for_all_that_it_was_made_of(monkeypatch: pytest.MonkeyPatch) -> None:
    class Version:
        git_version = "1"

    class Torch:
        version = Version()

    first = _torch_shim._key(Torch, "cc")
    assert first == _torch_shim._key(Torch, "cc")
    assert first != _torch_shim._key(Torch, None)
    with monkeypatch.context() as patch:
        patch.setattr("platform.machine", lambda: "other")
        assert first != _torch_shim._key(Torch, "cc")
    with monkeypatch.context() as patch:
        patch.setattr("platform.libc_ver", lambda: ("glibc", "9"))
        assert first != _torch_shim._key(Torch, "cc")
    Version.git_version = "2"
    assert first != _torch_shim._key(Torch, "cc")
    with pytest.raises(ShimError, match="cannot be run"):
        _torch_shim._key(Torch, "/no/such/compiler")
    assert frameworks.installed() == ()
