# SPDX-License-Identifier: Apache-2.0
"""Memory borrowed by the CUDA array interface."""

from types import SimpleNamespace
from typing import Any

import pytest

import gpupool


def array(**changes: Any) -> Any:
    interface = {"shape": (3, 5), "typestr": "<f4", "data": (0x7000, True), "version": 3, **changes}
    return SimpleNamespace(__cuda_array_interface__=interface)


def test_what_it_tells() -> None:
    source = array(stream=1)
    borrowed = gpupool.from_cuda_array(source)
    assert (borrowed.address, borrowed.nbytes, borrowed.shape, borrowed.dtype) == (0x7000, 60, (3, 5), "<f4")
    assert (borrowed.is_read_only, borrowed.strides, borrowed.stream) == (True, None, 0)
    assert gpupool.from_cuda_array(array(stream=0x50, strides=(40, 4))).stream == 0x50
    assert gpupool.from_cuda_array(array()).stream is None
    assert "<f4 (3, 5) at 0x7000" in repr(borrowed)


def test_what_is_refused() -> None:
    with pytest.raises(TypeError, match="'int' has no __cuda_array_interface__"):
        gpupool.from_cuda_array(3)
    for changes in ({"version": 1}, {"mask": array()}):
        with pytest.raises(gpupool.InvalidArgumentError, match="or a mask"):
            gpupool.from_cuda_array(array(**changes))
