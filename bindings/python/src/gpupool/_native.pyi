# SPDX-License-Identifier: Apache-2.0
"""The extension module that cffi makes: every function of gpupool.h and of native/*.h in `lib`."""

from typing import Any

ffi: Any
lib: Any
