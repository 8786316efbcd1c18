# SPDX-License-Identifier: Apache-2.0
"""The shim with a PyTorch that is newer than it: the stand-in's headers, with functions added."""

import re
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from gpupool.frameworks import _torch_build, _torch_cache, _torch_newer, _torch_shim, torch
from gpupool.frameworks._torch_newer import virtual_functions

ROOT = Path(__file__).resolve().parents[3]
STAND_IN = ROOT / "tests/torch_shim/pytorch"
HEADERS = ("-I", str(ROOT / "include"), "-I", str(ROOT / "src/frameworks/torch/include"))


@pytest.fixture
def include(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the stand-in, which has all classes in one header."""
    classes = tuple((name, "types.hpp") for name, _ in _torch_newer.CLASSES)
    monkeypatch.setattr(_torch_newer, "CLASSES", classes)
    shutil.copytree(STAND_IN, tmp_path / "include")
    return tmp_path / "include"


def add(include: Path, *changes: tuple[str, str]) -> None:
    path = include / "types.hpp"
    text = path.read_text()
    for before, after in changes:
        assert text.count(before) == 1
        text = text.replace(before, after)
    path.write_text(text)


def compile_with(include: Path, newer: _torch_newer.Newer | None) -> str:
    """What the compiler says."""
    if newer is not None:
        (include / "newer.hpp").write_text(newer.header("2.99"))
    command = ["g++", "-std=c++20", "-fsyntax-only", "-w", f"-I{_torch_build.SOURCES}", f"-I{include}", *HEADERS]
    allocator = str(_torch_build.SOURCES / "allocator.cpp")
    return subprocess.run([*command, allocator], capture_output=True, text=True, check=False).stderr


LAST = "  virtual std::string name() = 0;\n"
NEW = """  virtual std::pair<size_t, void*> frobnicate(const SnapshotInfo& one,
                                              std::function<void(int, bool)> two = {}) const = 0;
  virtual void attachNoiseObserver(OutOfMemoryObserver observer) = 0;
  virtual MempoolId_t quiet(int) noexcept = 0;
  virtual int withDefault(int x = 3) { return x; }
"""


def test_the_stand_in_has_nothing_that_is_not_known(include: Path) -> None:
    newer = _torch_build.unknown(include)
    assert not newer and newer.words() == ""


@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++")
def test_functions_that_are_new_get_overrides(include: Path) -> None:
    add(
        include,
        (LAST, LAST + NEW),
        (
            "bool clear, const std::vector<std::string>& skipped) = 0;",
            "bool clear, const std::vector<std::string>& skipped, std::string more, bool = true) = 0;",
        ),
    )
    assert "error" in compile_with(include, None)
    newer = _torch_build.unknown(include)
    assert newer.words() == (
        "frobnicate (refused); attachNoiseObserver, quiet (ignored); recordHistory (served without its new "
        "arguments); withDefault (left to PyTorch's default)"
    )
    assert compile_with(include, newer) == ""


@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++")
def test_a_parameter_of_another_type_is_a_refusal(include: Path) -> None:
    add(
        include, ("virtual ShareableHandle shareIpcHandle(void* ptr) = 0;", "virtual int shareIpcHandle(long ptr) = 0;")
    )
    newer = _torch_build.unknown(include)
    assert newer.words() == "shareIpcHandle (refused)"
    assert [each.name for each in newer.gone] == ["shareIpcHandle"]
    assert compile_with(include, newer) == ""


@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++")
def test_what_is_no_longer_asked_for_does_no_harm(include: Path) -> None:
    add(include, ("  virtual void markCaptureBegin(DeviceIndex) {}\n", ""))
    assert "error" in compile_with(include, None)
    newer = _torch_build.unknown(include)
    assert newer and newer.words() == ""
    assert compile_with(include, newer) == ""


@pytest.mark.parametrize(
    ("version", "is_served"), [("2.5.1+cu124", False), ("2.6.0", True), ("2.10.0a0+git1", True), ("3.0", True)]
)
def test_what_is_older_than_2_6_is_refused(monkeypatch: pytest.MonkeyPatch, version: str, is_served: bool) -> None:
    module = SimpleNamespace(__version__=version, version=SimpleNamespace(cuda="12.4"))
    monkeypatch.setattr("gpupool.frameworks.torch.importlib.import_module", lambda _: module)
    if is_served:
        assert torch._import_torch() is module
        return
    with pytest.raises(RuntimeError, match=re.escape(f"PyTorch {version} is too old: gpupool serves 2.6 and later")):
        torch._import_torch()


def test_declarations_are_read() -> None:
    text = """
    // class Thing { virtual void not_this() = 0; };
    class Other;
    #define X \\
      class Thing {}
    class C10_API Thing final : public Base<int>, Another {
     public:
      Thing() : a_(1) {}
      virtual ~Thing() = default;
      /* virtual void nor_this() = 0; */
      virtual void pure(const std::map<int, std::string>& by, unsigned long count = 3 << 2) = 0;
      C10_DEPRECATED_MESSAGE("virtual void old() = 0;")
      virtual inline const char* named(const c10::DataPtr&, int, void* = nullptr) const { return "}"; }
      void ours(std::function<bool(int, int)> filter) override {
        if (filter) { return; }
      }
      struct Inner { virtual void inside() = 0; };
      static int count(int);
      int plain(int);
      DataPtr& operator=(DataPtr&&) = default;
    #if defined(SOMETHING)
      virtual std::pair<size_t, size_t> conditional() noexcept = 0;
    #endif
      int a_;
    };
    class After { virtual void no() = 0; };
    """
    found = virtual_functions(text, "Thing")
    assert [each.signature for each in found] == [
        "pure(constmap<int,string>&,unsignedlong)",
        "named(constDataPtr&,int,void*) const",
        "ours(function<bool(int,int)>)",
        "conditional()",
    ]
    assert [each.is_pure for each in found] == [True, False, False, True]
    assert [each.result for each in found] == ["void", "const char*", "void", "std::pair<size_t, size_t>"]
    assert virtual_functions(text, "Missing") == []


def test_an_unknown_function_is_told_when_the_shim_is_loaded(include: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add(include, (LAST, LAST + NEW))
    module = SimpleNamespace(
        __version__="2.99.0",
        __file__=str(include.parent / "__init__.py"),
        version=SimpleNamespace(git_version="0", cuda="99.0"),
    )
    monkeypatch.setattr(_torch_cache, "load", lambda *_: None)
    with pytest.warns(RuntimeWarning, match=re.escape("does not know: frobnicate (refused)")) as told:
        _torch_shim.load(module)
    assert len(told) == 1
