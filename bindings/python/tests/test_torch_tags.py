# SPDX-License-Identifier: Apache-2.0
"""gpupool.torch.tag_modules, with modules that call hooks as PyTorch documents it."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import gpupool
from gpupool.torch import tag_modules

MIB = 1 << 20


class Hook:
    def __init__(self, hooks: dict[int, Any], number: int) -> None:
        self.hooks = hooks
        self.number = number

    def remove(self) -> None:
        self.hooks.pop(self.number, None)


class Module:
    """Calls its hooks as torch.nn.Module does: those before in order, prepended ones first; those behind also after an
    Exception if they are always called, once each; none after an interrupt."""

    numbers = itertools.count()

    def __init__(self, work: Callable[[], Any], **children: Module) -> None:
        self.work = work
        self.children = children
        self.before: dict[int, Any] = {}
        self.behind: dict[int, Any] = {}

    def named_modules(self, prefix: str = "") -> Iterator[tuple[str, Module]]:
        yield prefix, self
        for name, child in self.children.items():
            yield from child.named_modules(f"{prefix}.{name}" if prefix else name)

    def register_forward_pre_hook(self, hook: Any, *, prepend: bool = False) -> Hook:
        number = next(self.numbers)
        self.before = {number: hook, **self.before} if prepend else {**self.before, number: hook}
        return Hook(self.before, number)

    def register_forward_hook(self, hook: Any, *, always_call: bool = False) -> Hook:
        assert always_call
        number = next(self.numbers)
        self.behind[number] = hook
        return Hook(self.behind, number)

    def __call__(self) -> Any:
        try:
            for hook in list(self.before.values()):
                hook(self, ())
            result = self.work()
        except Exception:
            for hook in list(self.behind.values()):
                hook(self, (), None)
            raise
        for hook in list(self.behind.values()):
            hook(self, (), result)
        return result


class Net(Module):
    pass


def tag_of(buffer: gpupool.Buffer, pool: gpupool.Pool) -> str:
    with buffer:
        return pool.holders()[0].tag


@pytest.fixture(autouse=True)
def _samples() -> None:
    gpupool.set_sampling(MIB)


def model_of(work: Callable[[], Any]) -> Net:
    inner = Module(work)
    layer = Module(inner, attention=inner)
    return Net(layer, layer=layer)


@pytest.mark.parametrize(("depth", "tag"), [(0, "Net"), (1, "layer"), (2, "layer.attention"), (9, "layer.attention")])
def test_the_innermost_name_counts(pool: gpupool.Pool, depth: int, tag: str) -> None:
    model = model_of(lambda: tag_of(pool.alloc(64 * MIB), pool))
    tags = tag_modules(model, depth)
    assert [model(), model()] == [tag, tag]
    assert tag_of(pool.alloc(64 * MIB), pool) == ""
    with gpupool.tag("outside"):
        assert model() == tag
        assert tag_of(pool.alloc(64 * MIB), pool) == "outside"
    tags.remove()
    assert model() == ""


def test_failures_and_interrupts_leave_no_tag(pool: gpupool.Pool) -> None:
    failing: list[BaseException] = [RuntimeError("wrong"), KeyboardInterrupt()]

    def work() -> str:
        if failing:
            raise failing.pop(0)
        return tag_of(pool.alloc(64 * MIB), pool)

    model = model_of(work)
    with tag_modules(model):
        with pytest.raises(RuntimeError):
            model()
        assert tag_of(pool.alloc(64 * MIB), pool) == ""
        with pytest.raises(KeyboardInterrupt):
            model()
        # PyTorch says nothing of an interrupt: the next forward cleans up.
        assert model() == "layer.attention"
        assert tag_of(pool.alloc(64 * MIB), pool) == ""


def test_threads_have_tags_of_their_own(pool: gpupool.Pool) -> None:
    inside, go_on = threading.Event(), threading.Event()

    def work() -> None:
        inside.set()
        assert go_on.wait(60)

    model = model_of(work)
    with tag_modules(model):
        thread = threading.Thread(target=model)
        thread.start()
        assert inside.wait(60)
        assert tag_of(pool.alloc(64 * MIB), pool) == ""
        go_on.set()
        thread.join()


def test_long_names_are_cut_and_mistakes_refused(pool: gpupool.Pool) -> None:
    inner = Module(lambda: tag_of(pool.alloc(64 * MIB), pool))
    model = Module(inner, **{"x" * 90: inner})
    with tag_modules(model):
        assert model() == "x" * 63
    with pytest.raises(TypeError, match="not a torch"):
        tag_modules(object())
    with pytest.raises(ValueError, match="depth is -1"):
        tag_modules(model, -1)
