#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds every package into dist/, with SHA256SUMS and what is in them (SPDX): dist.sh [FOLDER]
#
# The native code in them is built by zig where build/venv has it (tools/setup.sh dist), for glibc 2.28 and with the C++
# runtime in it, so that it runs on every Linux of these years; else by g++ for this system, with a word.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
dist=$(realpath -m "${1:-dist}")
rm -rf "$dist"
mkdir -p "$dist" build/dist

say() { echo "dist: $*"; }

zig=$root/build/venv/bin/python-zig
if [ -x "$zig" ]; then
  say "native code by zig, for glibc 2.28"
  wrapper=$root/build/dist/c++
  printf '#!/bin/sh\nexec "%s" c++ -target %s-linux-gnu.2.28 "$@"\n' "$zig" "$(uname -m)" >"$wrapper"
  chmod +x "$wrapper"
  export CXX=$wrapper
  cmake_compiler=(-DCMAKE_CXX_COMPILER="$wrapper")
else
  say "zig is not there: the native code is for systems as new as this one"
  cmake_compiler=()
fi
cmake -S . -B build/dist/library -G Ninja -DCMAKE_BUILD_TYPE=Release -DGPUPOOL_BUILD_TESTS=OFF -DGPUPOOL_BUILD_EXAMPLES=OFF \
  -DGPUPOOL_BUILD_CLI=OFF -DCMAKE_INSTALL_LIBDIR=lib "${cmake_compiler[@]}" --log-level=WARNING
cmake --build build/dist/library
cmake --install build/dist/library --prefix build/dist/prefix >/dev/null
export GPUPOOL_PREFIX=$root/build/dist/prefix
export GPUPOOL_SWIG_BUILD=$root/build/dist/swig
export GPUPOOL_NODE_BUILD=$root/build/dist/node

for build in packaging/*/build.sh; do
  say "$(basename "$(dirname "$build")")"
  "$build" "$dist"
done

version=$(sed -n 's/^#define GPUPOOL_VERSION_[A-Z]* \([0-9]*\)$/\1/p' include/gpupool/gpupool.h | paste -sd .)
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
packaging/sbom.py "$dist" "$version" "$dist/gpupool-$version.spdx.json"
if [ -x build/venv/bin/pyspdxtools ]; then build/venv/bin/pyspdxtools -i "$dist/gpupool-$version.spdx.json"; fi
(cd "$dist" && find . -type f ! -name SHA256SUMS -printf '%P\n' | LC_ALL=C sort | xargs sha256sum >SHA256SUMS)
say "$(find "$dist" -type f | wc -l) files in $dist"
