# SPDX-License-Identifier: Apache-2.0
# Builds for macOS on Linux with zig, which has macOS's headers and a list of what its libraries export:
# ZIG=/path/to/zig cmake -DCMAKE_TOOLCHAIN_FILE=cmake/zig.cmake -DZIG_TARGET=aarch64-macos.11.0
set(ZIG_TARGET aarch64-macos.11.0 CACHE STRING "What to build for, as zig calls it")
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES ZIG_TARGET)
set(CMAKE_SYSTEM_NAME Darwin)
string(REGEX MATCH "^[^-]+" CMAKE_SYSTEM_PROCESSOR ${ZIG_TARGET})

# A compiler of CMake's is one file.
set(zig_tools ${CMAKE_CURRENT_LIST_DIR}/../build/zig/${ZIG_TARGET})
foreach(tool IN ITEMS cc c++ ar ranlib)
  set(words "exec \"$ENV{ZIG}\" ${tool}")
  if(tool MATCHES "^c")
    string(APPEND words " -target ${ZIG_TARGET}")
  endif()
  if(NOT EXISTS ${zig_tools}/${tool})
    file(WRITE ${zig_tools}/${tool} "#!/bin/sh\n${words} \"$@\"\n")
    file(CHMOD ${zig_tools}/${tool} PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE)
  endif()
endforeach()
set(CMAKE_C_COMPILER ${zig_tools}/cc)
set(CMAKE_CXX_COMPILER ${zig_tools}/c++)
set(CMAKE_AR ${zig_tools}/ar CACHE FILEPATH "")
set(CMAKE_RANLIB ${zig_tools}/ranlib CACHE FILEPATH "")
set(CMAKE_INSTALL_NAME_TOOL /bin/true CACHE FILEPATH "")
set(CMAKE_FIND_ROOT_PATH /nowhere)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
