# SPDX-License-Identifier: Apache-2.0
# The headers only, where build.sh put them. The system's own file would lead to all system headers.
if(NOT TARGET CLI11::CLI11)
  add_library(CLI11::CLI11 INTERFACE IMPORTED)
  target_include_directories(CLI11::CLI11 SYSTEM INTERFACE $ENV{GPUPOOL_WHEEL_TOOLS}/include)
endif()
