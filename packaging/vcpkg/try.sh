#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs the port's steps with a stand-in for vcpkg's functions (vcpkg.cmake), and builds a program with the result.
#
#     try.sh FOLDER
set -euo pipefail
. "$(dirname "$0")/../clean.sh"

archive=$(package 'libgpupool-*[0-9].tar.gz')
tar xzf "$(package 'libgpupool-*-vcpkg.tar.gz')"
port=$(echo "$home"/gpupool-*-vcpkg/gpupool)
version=$(python3 - "$port/vcpkg.json" <<"EOF"
import json, re, sys
port = json.load(open(sys.argv[1]))
assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", port["name"]), port["name"]
assert re.fullmatch(r"\d+\.\d+\.\d+", port["version"]), port["version"]
known = {"name", "version", "description", "homepage", "license", "supports", "dependencies", "features"}
assert set(port) <= known, set(port) - known
print(port["version"])
EOF
)
caching=()
if command -v ccache >/dev/null; then
  caching=(CCACHE_DIR="$(ccache -k cache_dir)" CCACHE_BASEDIR="$home" CCACHE_NOHASHDIR=1
    CMAKE_CXX_COMPILER_LAUNCHER=ccache CMAKE_C_COMPILER_LAUNCHER=ccache)
fi
clean "${caching[@]}" cmake -DPORTFILE="$port/portfile.cmake" -DARCHIVE_FILE="$archive" -DWORK="$home/work" \
  -DVERSION="$version" -P "$here/vcpkg.cmake"

cp "$here/../../tests/install/consumer.c" "$here/../../tests/install/find_package/CMakeLists.txt" .
sed -i 's|\.\./consumer.c|consumer.c|' CMakeLists.txt
clean cmake -S . -B program -DCMAKE_PREFIX_PATH="$home/work/packages/gpupool" >log
clean cmake --build program >>log || { cat log; exit 1; }
clean program/consumer
