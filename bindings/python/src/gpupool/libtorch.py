# SPDX-License-Identifier: Apache-2.0
"""gpupool in programs that use libtorch without Python, in C++, Rust, Go or any other language.

    python -m gpupool.libtorch /opt/libtorch -o libgpupool_libtorch.so

writes a library for that libtorch, or compiles it. The program links it and calls int gpupool_torch_install(void)
before PyTorch allocates on a GPU: 0 means that gpupool is PyTorch's allocator from now on, 1 that another one is in
use.
"""

import argparse
import sys
from pathlib import Path

from .frameworks import _libtorch, _torch_shim
from .frameworks._torch_cache import ShimError

__all__ = ["main"]


def main(arguments: list[str] | None = None) -> int:
    """What the command does with these arguments; returns its exit status. Since 0.2."""
    parser = argparse.ArgumentParser(prog="python -m gpupool.libtorch", description=__doc__.partition("\n")[0])
    parser.add_argument("libtorch", type=Path, help="its folder, with include and lib")
    parser.add_argument("-o", "--output", type=Path, default=Path("libgpupool_libtorch.so"))
    parser.add_argument("--cuda", type=Path, help="the folder with cuda_runtime_api.h, if it is not found")
    given = parser.parse_args(arguments)
    folders = [given.cuda] if given.cuda is not None else _torch_shim.cuda_folders()
    libraries = [_torch_shim.torch_library_path(), _torch_shim.library_path()]
    try:
        is_compiled = _libtorch.build(
            given.libtorch.resolve(),
            given.output,
            prebuilt=_torch_shim.PREBUILT,
            compiler=_torch_shim.find_compiler(),
            cuda=next((folder for folder in folders if (folder / "cuda_runtime_api.h").exists()), None),
            headers=_torch_shim.HEADERS,
            libraries=libraries,
        )
    except (OSError, ShimError) as error:
        print(f"gpupool.libtorch: {error}", file=sys.stderr)
        return 1
    if not is_compiled:
        print(f"it is loaded with {libraries[1].parent} and {given.libtorch}/lib on the library path")
    return 0


if __name__ == "__main__":
    sys.exit(main())
