# SPDX-License-Identifier: Apache-2.0
# zig as a cross compiler: its own libc++, linked statically, and a glibc as old as the target says. build.sh sets the
# variables that this file reads in the environment, because CMake reads the file again for each of its own trials.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR $ENV{GPUPOOL_WHEEL_MACHINE})
set(CMAKE_C_COMPILER $ENV{GPUPOOL_WHEEL_TOOLS}/cc)
set(CMAKE_CXX_COMPILER $ENV{GPUPOOL_WHEEL_TOOLS}/c++)
foreach(language C CXX)
  set(CMAKE_${language}_FLAGS_INIT "-isystem $ENV{GPUPOOL_WHEEL_TOOLS}/python")
endforeach()
# Links nothing of this machine, and uses only those of its headers that build.sh chose.
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY NEVER)
set(CMAKE_PREFIX_PATH ${CMAKE_CURRENT_LIST_DIR})
set(ZLIB_INCLUDE_DIR $ENV{GPUPOOL_WHEEL_TOOLS}/include)
set(ZLIB_LIBRARY $ENV{GPUPOOL_WHEEL_TOOLS}/libz.so)
