# SPDX-License-Identifier: Apache-2.0
# Flags for our own targets only: a project that uses add_subdirectory on us keeps its own.
include(CheckLinkerFlag)

# Language, warnings, visibility and sanitizers of a target.
function(gpupool_own_target target)
  target_compile_features(${target} PRIVATE cxx_std_20)
  set_target_properties(${target} PROPERTIES C_STANDARD 11 C_EXTENSIONS ON CXX_EXTENSIONS OFF)
  target_compile_options(${target} PRIVATE
    -Wall -Wextra -Wpedantic -Wshadow -Wconversion
    -fvisibility=hidden $<$<COMPILE_LANGUAGE:CXX>:-fvisibility-inlines-hidden>)
  if(GPUPOOL_IS_LINUX)
    target_compile_options(${target} PRIVATE -fno-semantic-interposition)
  elseif(WIN32)  # MinGW takes formats to be for Microsoft's printf, and uses its own
    target_compile_options(${target} PRIVATE -Wno-format)
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 12)
    # Release 11 wrongly takes the length of an inlined std::string_view::find to exceed all objects.
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Wno-stringop-overread>)
  endif()
  if(CMAKE_COMPILE_WARNING_AS_ERROR AND CMAKE_VERSION VERSION_LESS 3.24)  # they do not know the variable
    target_compile_options(${target} PRIVATE -Werror)
  endif()
  if(GPUPOOL_UNITY)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 10)
  endif()
  if(GPUPOOL_SANITIZE)
    target_compile_options(${target} PRIVATE
      -fsanitize=${GPUPOOL_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
    target_link_options(${target} PRIVATE -fsanitize=${GPUPOOL_SANITIZE})
  endif()
endfunction()

# For targets around the library whose own speed does not matter: ten sources at a time, and with sanitizers without
# optimisation, they compile in half the time.
function(gpupool_compile_fast target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 10)
  if(GPUPOOL_SANITIZE)
    target_compile_options(${target} PRIVATE -O0)
  endif()
endfunction()

# How the shared library is linked: an explicit list of exports, everything bound at load time, calls
# within the library bound to itself (two copies in one process must not mix), never unloaded.
function(gpupool_link_shared target version_script)
  if(WIN32)  # what is declared with dllexport is exported, and the compiler's own libraries are linked in
    target_link_options(${target} PRIVATE -static)
    return()
  elseif(APPLE)  # what is visible is exported
    return()
  endif()
  target_link_options(${target} PRIVATE
    -Wl,--version-script=${version_script} -Wl,-z,now -Wl,-z,relro -Wl,-z,nodelete -Wl,-z,noexecstack)
  # zig's linker, which links the wheels, knows neither of these two. Its version script hides the symbols of linked
  # libraries, and it binds data too.
  check_linker_flag(CXX -Wl,--exclude-libs,ALL GPUPOOL_HAS_EXCLUDE_LIBS)
  if(GPUPOOL_HAS_EXCLUDE_LIBS)
    target_link_options(${target} PRIVATE -Wl,--exclude-libs,ALL)
  endif()
  check_linker_flag(CXX -Wl,-Bsymbolic-functions GPUPOOL_HAS_SYMBOLIC_FUNCTIONS)
  target_link_options(${target} PRIVATE
    $<IF:$<BOOL:${GPUPOOL_HAS_SYMBOLIC_FUNCTIONS}>,-Wl$<COMMA>-Bsymbolic-functions,-Wl$<COMMA>-Bsymbolic>)
  set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS "${version_script}")
  # clang leaves the sanitizers' own symbols to the program.
  if(NOT (GPUPOOL_SANITIZE AND CMAKE_CXX_COMPILER_ID MATCHES Clang))
    target_link_options(${target} PRIVATE -Wl,-z,defs)
  endif()
endfunction()
