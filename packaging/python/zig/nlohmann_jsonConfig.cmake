# SPDX-License-Identifier: Apache-2.0
# The headers only, where build.sh put them. The system's own file would lead to all system headers.
if(NOT TARGET nlohmann_json::nlohmann_json)
  add_library(nlohmann_json::nlohmann_json INTERFACE IMPORTED)
  target_include_directories(nlohmann_json::nlohmann_json SYSTEM INTERFACE $ENV{GPUPOOL_WHEEL_TOOLS}/include)
endif()
