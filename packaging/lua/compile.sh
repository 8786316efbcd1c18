#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Fills the folder rock in the sources that luarocks has unpacked, for gpupool.rockspec: compile.sh. Does nothing if it
# is filled already.
set -euo pipefail
[ ! -d rock ] || exit 0
build=$PWD/build/rock
cmake -S . -B "$build" -G "Unix Makefiles" -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_LIBDIR=lib \
  -DGPUPOOL_BUILD_TESTS=OFF -DGPUPOOL_BUILD_CLI=OFF -DGPUPOOL_BUILD_EXAMPLES=OFF
cmake --build "$build" --parallel
cmake --install "$build" --prefix "$build/prefix"
make -C bindings/swig BUILD="$build" GPUPOOL_PREFIX="$build/prefix" lua
mkdir rock
cp "$build/lua/gpupool/core.so" "$build/lua/gpupool.lua" rock
for library in "$build"/prefix/lib/libgpupool.so.*; do
  if [ -L "$library" ]; then cp -L "$library" rock; fi
done
