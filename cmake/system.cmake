# SPDX-License-Identifier: Apache-2.0
# Which sources are for which system: the end of a source's name says it. `posix` is Linux and macOS, `elsewhere` is all
# but Linux. packaging/go/amalgamate.py has the same table.
set(GPUPOOL_IS_LINUX OFF)
set(GPUPOOL_SYSTEM_LIBRARIES)  # that the library is linked with
if(WIN32)
  set(other_systems linux|macos|posix)
elseif(APPLE)
  set(other_systems linux|windows)
else()
  set(GPUPOOL_IS_LINUX ON)
  set(GPUPOOL_SYSTEM_LIBRARIES dl m pthread)
  set(other_systems macos|windows|elsewhere)
endif()

# Leaves out of a list of sources those for other systems.
macro(gpupool_keep_sources_for_system sources)
  list(FILTER ${sources} EXCLUDE REGEX "(^|/|_)(${other_systems})\\.cpp$")
endmacro()
