#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# headers.sh INCLUDE STAND_INS [FETCHED]: compiles each installed header for C++ by itself, as g++ and clang++ see it.
# INCLUDE: where gpupool/ is installed. Those for other libraries need theirs: the system's, a stand-in of STAND_INS
# (tests/hosts/stand_ins), or what tests/hosts has fetched into FETCHED (build/hosts); without, one is named as skipped.
set -euo pipefail
include=$1 stand_ins=$2 fetched=${3:-}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# What a header needs of others' that are not the standard library's. The first is included before ours.
needs() { # needs HEADER
  case $1 in
    cuda_mr) echo cuda/memory_resource cuda_runtime.h crt/host_defines.h ;;
    ggml) echo ggml-backend-impl.h ggml.h ;;
    nccl) echo nccl.h cuda_runtime.h crt/host_defines.h nv/target ;;
    onnxruntime) echo onnxruntime_c_api.h ;;
    opencv) echo opencv2/core/cuda.hpp ;;
    tensorrt) echo NvInferRuntime.h ;;
    umf) echo umf/memory_provider_ops.h ;;
    umpire) echo umpire/ResourceManager.hpp ;;
  esac
}

folder_of() { # folder_of FILE: where a compiler finds it
  local place found
  for place in /usr/include /usr/include/opencv4 /usr/local/cuda/include ${GPUPOOL_UMPIRE:+"$GPUPOOL_UMPIRE/include"}; do
    if [ -f "$place/$1" ]; then echo "$place"; return; fi
  done
  for place in "$stand_ins" "$fetched"; do
    [ -d "$place" ] || continue
    # The newest, where several were fetched; not what tests have made of them.
    found=$(find -L "$place" -path "$place/work" -prune -o -path "*/$1" -print 2>/dev/null | sort -V | tail -n 1)
    if [ -n "$found" ]; then echo "${found%"/$1"}"; return; fi
  done
  return 1
}

compilers=("${CXX:-c++}")
if command -v clang++ >/dev/null; then compilers+=(clang++); else echo "clang++: not installed, skipped"; fi
for header in "$include"/gpupool/*.hpp; do
  name=$(basename "$header" .hpp)
  read -ra needed <<<"$(needs "$name")"
  options=(-I "$include")
  for file in "${needed[@]}"; do
    folder=$(folder_of "$file") || { echo "gpupool/$name.hpp: $file is not here, skipped"; continue 2; }
    [ "$folder" = /usr/include ] || options+=(-isystem "$folder")
  done
  case $name in gpupool | debug | share | sim) standard=c++20 ;; *) standard=c++17 ;; esac
  printf '#include <%s>\n' ${needed[0]:+"${needed[0]}"} "gpupool/$name.hpp" >"$work/$name.cpp"
  for compiler in "${compilers[@]}"; do
    "$compiler" "-std=$standard" -Wall -Wextra -Werror -fsyntax-only "${options[@]}" "$work/$name.cpp" ||
      { echo "gpupool/$name.hpp does not compile with $compiler"; exit 1; }
  done
  echo "gpupool/$name.hpp: compiled"
done
