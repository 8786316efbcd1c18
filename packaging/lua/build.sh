#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the rockspec, and the rock with the native code for this platform.
#
#     build.sh OUTPUT_FOLDER
set -euo pipefail
. "$(dirname "$0")/../tools.sh"

if ! command -v luarocks >/dev/null; then
  echo "lua: luarocks is not there, no rock is built" >&2
  exit 0
fi
make_swig lua/gpupool/core.so lua/gpupool.lua
rm -rf "$work"
mkdir -p "$work/packaging/lua"
cp packaging/lua/compile.sh "$work/packaging/lua"
carry "$work/rock" "$swig/lua/gpupool/core.so"
install -m 0644 "$swig/lua/gpupool.lua" "$work/rock"
fill packaging/lua/gpupool.rockspec "$work/gpupool-$version-1.rockspec"
cd "$work"
luarocks --lua-version 5.4 lint "gpupool-$version-1.rockspec"
luarocks --lua-version 5.4 --tree "$work/tree" make --pack-binary-rock "gpupool-$version-1.rockspec" >"$work/luarocks.log" 2>&1 ||
  { cat "$work/luarocks.log" >&2; exit 1; }
mv ./*.rock "gpupool-$version-1.rockspec" "$output"
