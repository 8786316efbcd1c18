# SPDX-License-Identifier: Apache-2.0
# The headers only, where build.sh put them. The system's own file would lead to all system headers.
if(NOT TARGET fmt::fmt-header-only)
  add_library(fmt::fmt-header-only INTERFACE IMPORTED)
  target_include_directories(fmt::fmt-header-only SYSTEM INTERFACE $ENV{GPUPOOL_WHEEL_TOOLS}/include)
  # An empty FMT_CONSTEVAL: zig's clang refuses the consteval functions of fmt 10, which then check formats at run time.
  target_compile_definitions(fmt::fmt-header-only INTERFACE FMT_HEADER_ONLY=1 FMT_CONSTEVAL=)
endif()
