# SPDX-License-Identifier: Apache-2.0
# Flags for our own targets only: a project that takes us in with add_subdirectory keeps its own.

# Language, warnings, visibility and sanitizers of a target.
function(gpupool_own_target target)
  target_compile_features(${target} PRIVATE cxx_std_20)
  set_target_properties(${target} PROPERTIES C_STANDARD 11 C_EXTENSIONS ON CXX_EXTENSIONS OFF)
  target_compile_options(${target} PRIVATE
    -Wall -Wextra -Wpedantic -Wshadow -Wconversion
    -fvisibility=hidden $<$<COMPILE_LANGUAGE:CXX>:-fvisibility-inlines-hidden> -fno-semantic-interposition)
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 12)
    # Release 11 takes the length of an inlined std::string_view::find for one beyond all objects.
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Wno-stringop-overread>)
  endif()
  if(CMAKE_COMPILE_WARNING_AS_ERROR AND CMAKE_VERSION VERSION_LESS 3.24)  # which do not know the variable
    target_compile_options(${target} PRIVATE -Werror)
  endif()
  if(GPUPOOL_SANITIZE)
    target_compile_options(${target} PRIVATE
      -fsanitize=${GPUPOOL_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
    target_link_options(${target} PRIVATE -fsanitize=${GPUPOOL_SANITIZE})
  endif()
endfunction()

# For targets around the library, whose own speed does not matter: with sanitizers, they compile in less than
# half the time without optimisation.
function(gpupool_compile_fast target)
  if(GPUPOOL_SANITIZE)
    target_compile_options(${target} PRIVATE -O0)
  endif()
endfunction()

# How the shared library is linked: an explicit list of exports, everything bound at load time, calls
# within the library bound to itself (two copies in one process must not mix), never unloaded.
function(gpupool_link_shared target version_script)
  target_link_options(${target} PRIVATE
    -Wl,--version-script=${version_script} -Wl,-z,now -Wl,-z,relro -Wl,-z,nodelete -Wl,-z,noexecstack
    -Wl,--exclude-libs,ALL -Wl,-Bsymbolic-functions)
  set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS "${version_script}")
  # clang leaves the sanitizers' own symbols to the program.
  if(NOT (GPUPOOL_SANITIZE AND CMAKE_CXX_COMPILER_ID MATCHES Clang))
    target_link_options(${target} PRIVATE -Wl,-z,defs)
  endif()
endfunction()
