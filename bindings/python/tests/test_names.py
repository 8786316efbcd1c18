# SPDX-License-Identifier: Apache-2.0
"""What people see of the package: names, in dir() and in tracebacks."""

import inspect
import pickle

import gpupool


def test_f8_dir_is_complete() -> None:
    names = dir(gpupool)
    assert set(gpupool.__all__) <= set(names)
    assert {"install", "from_dlpack", "from_cuda_array", "torch", "cupy", "__version__"} <= set(names)
    assert {"Any", "TYPE_CHECKING", "_os"}.isdisjoint(names)


def test_f8_public_classes_are_of_the_package() -> None:
    classes = [thing for name in gpupool.__all__ if inspect.isclass(thing := getattr(gpupool, name))]
    assert len(classes) > 25
    assert {each.__module__ for each in classes} == {"gpupool"}
    for each in (gpupool.Backend.SIM, gpupool.default_pool().stats()):
        assert pickle.loads(pickle.dumps(each)) == each
