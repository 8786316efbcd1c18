# SPDX-License-Identifier: Apache-2.0
# Headers only, where build.sh put them: the system's own description leads to all of its headers.
if(NOT TARGET nlohmann_json::nlohmann_json)
  add_library(nlohmann_json::nlohmann_json INTERFACE IMPORTED)
  target_include_directories(nlohmann_json::nlohmann_json SYSTEM INTERFACE $ENV{GPUPOOL_WHEEL_TOOLS}/include)
endif()
