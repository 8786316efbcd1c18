-- SPDX-License-Identifier: Apache-2.0
rockspec_format = "3.0"
package = "gpupool"
version = "@VERSION@-1"
source = {
  url = "https://github.com/gpupool/gpupool/releases/download/v@VERSION@/libgpupool-@VERSION@.tar.gz",
  dir = "gpupool-@VERSION@",
}
description = {
  summary = "A pool of GPU memory",
  detailed = "A pool of GPU memory that hardly fragments, with exact limits, and a simulated device for machines without a GPU.",
  homepage = "https://github.com/gpupool/gpupool",
  license = "Apache-2.0",
  labels = { "gpu", "cuda", "memory" },
}
supported_platforms = { "linux" }
dependencies = { "lua >= 5.4, < 5.5" }
build = {
  type = "command",
  -- From the sources it needs SWIG 4.1, CMake and a compiler for C++20.
  build_command = "packaging/lua/compile.sh",
  install = {
    lua = { gpupool = "rock/gpupool.lua" },
    lib = { ["gpupool.core"] = "rock/core.so", ["gpupool.library"] = "rock/@SONAME@" },
  },
}
