# SPDX-License-Identifier: Apache-2.0
"""A6: trying again after what frameworks raise, with stand-ins for their modules, and in coroutines."""

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator
from types import ModuleType

import pytest

import gpupool


class ApiError(RuntimeError):
    """As Numba's."""

    def __init__(self, code: int) -> None:
        super().__init__(code, "the driver's words")
        self.code = code


class Shortage(RuntimeError):
    """As PyTorch's, CuPy's and JAX's."""


RAISED: dict[str, tuple[str, str, Exception, int]] = {
    "torch": ("torch", "OutOfMemoryError", Shortage("CUDA out of memory"), 3),
    "torch.cuda": ("torch.cuda", "OutOfMemoryError", Shortage("CUDA out of memory"), 3),
    "cupy": ("cupy.cuda.memory", "OutOfMemoryError", Shortage("Out of memory allocating 5 bytes"), 3),
    "numba": ("numba.cuda.cudadrv.driver", "CudaAPIError", ApiError(2), 3),
    "numba, something else": ("numba.cuda.cudadrv.driver", "CudaAPIError", ApiError(700), 1),
    "jax": ("jax.errors", "JaxRuntimeError", Shortage("RESOURCE_EXHAUSTED: Out of memory"), 3),
    "jax, something else": ("jax.errors", "JaxRuntimeError", Shortage("INTERNAL: RESOURCE_EXHAUSTED"), 1),
    "jaxlib": ("jaxlib.xla_extension", "XlaRuntimeError", Shortage("RESOURCE_EXHAUSTED: Out of memory"), 3),
    "rmm, or Python itself": ("rmm", "none", MemoryError("std::bad_alloc: out_of_memory"), 3),
    "the pool": ("gpupool", "OutOfMemoryError", gpupool.OutOfMemoryError("no"), 3),
    "something else": ("torch", "OutOfMemoryError", KeyError("x"), 1),
    "a framework that is not there": ("nothing.of.this.name", "OutOfMemoryError", Shortage("no"), 1),
}


@pytest.mark.parametrize("what", RAISED)
def test_a6_what_frameworks_raise(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, kind, error, expected = RAISED[what]
    if not name.startswith("gpupool"):
        module = ModuleType(name)
        setattr(module, kind, type(error) if not isinstance(error, KeyError) else Shortage)
        monkeypatch.setitem(sys.modules, name, module)
    before = set(sys.modules)
    calls = []

    @gpupool.retry_on_oom
    def step() -> None:
        calls.append(1)
        raise error

    with pytest.raises(type(error)):
        step()
    assert len(calls) == expected
    assert {each.partition(".")[0] for each in set(sys.modules) - before}.isdisjoint({"torch", "cupy", "numba", "jax"})


def test_a6_a_module_that_is_being_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", ModuleType("torch"))
    monkeypatch.setitem(sys.modules, "torch.cuda", None)

    @gpupool.retry_on_oom
    def step() -> None:
        raise Shortage("no")

    with pytest.raises(Shortage):
        step()


def test_a6_a_coroutine_is_awaited_again() -> None:
    calls: list[int] = []
    seen: list[object] = []

    @gpupool.retry_on_oom(stages=[seen.append, seen.append])
    async def step(size: int) -> int:
        """A step."""
        calls.append(size)
        await asyncio.sleep(0)
        if len(calls) < 3:
            raise gpupool.OutOfMemoryError("no")
        return size

    assert step.__doc__ == "A step."
    assert asyncio.iscoroutinefunction(step)
    assert asyncio.run(step(7)) == 7
    assert calls == [7] * 3
    assert [type(error) for error in seen] == [gpupool.OutOfMemoryError] * 2

    class Step:
        async def __call__(self) -> None:
            calls.append(0)
            raise MemoryError

    calls.clear()
    with pytest.raises(MemoryError):
        asyncio.run(gpupool.retry_on_oom(Step())())
    assert len(calls) == 3


def test_a6_a_coroutine_that_fails_otherwise() -> None:
    calls = []

    @gpupool.retry_on_oom
    async def step() -> None:
        calls.append(1)
        raise KeyError

    with pytest.raises(KeyError):
        asyncio.run(step())
    assert len(calls) == 1


def test_a6_generators_are_refused() -> None:
    def steps() -> Iterator[int]:
        yield 1

    async def asynchronous_steps() -> AsyncIterator[int]:
        yield 1

    for each in (steps, asynchronous_steps):
        with pytest.raises(TypeError, match=rf"retry_on_oom cannot try .*{each.__name__}.* again: it is a generator"):
            gpupool.retry_on_oom(each)
    with pytest.raises(TypeError, match="function is 5, which cannot be called"):
        gpupool.retry_on_oom(5)  # type: ignore[call-overload]
