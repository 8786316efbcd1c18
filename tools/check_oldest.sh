#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds, installs and uses the library with the oldest supported tools: CMake 3.22 from PyPI, and g++ 11 if the system
# has it (`g++-11`; Ubuntu 22.04's own), else the system's compiler, which the output names. CXX chooses another one.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$PWD/build/oldest
cmake=3.22.6
mkdir -p "$work"

if [ "$(cat "$work/venv/installed" 2>/dev/null)" != $cmake ]; then
  if ! { python3 -m venv --clear "$work/venv" && "$work/venv/bin/pip" -q --retries 1 install cmake==$cmake; } \
    >"$work/setup.log" 2>&1; then
    echo "== oldest tools: PyPI has no CMake $cmake for us, skipped"
    exit 0
  fi
  echo $cmake >"$work/venv/installed"
fi
export PATH=$work/venv/bin:$PATH
if [ -z "${CXX:-}" ] && command -v g++-11 >/dev/null && command -v gcc-11 >/dev/null; then
  export CC=gcc-11 CXX=g++-11
fi
echo "== oldest tools: $(cmake --version | head -n 1), $(${CXX:-g++} --version | head -n 1)"

cmake --preset release -B "$work" -DGPUPOOL_BUILD_TESTS=OFF -DGPUPOOL_BUILD_EXAMPLES=OFF \
  -DGPUPOOL_BUILD_STATIC=ON --log-level=WARNING >"$work/configure.log" || { cat "$work/configure.log"; exit 1; }
cmake --build "$work" --parallel 2 >"$work/build.log" || { tail -n 40 "$work/build.log"; exit 1; }
for way in find_package pkg_config add_subdirectory; do
  CMAKE_GENERATOR=Ninja tests/install/consume.sh $way "$work" "$PWD" "$work/$way"
done
"$work/gpupool" replay --json tests/data/lm_serve.trace.gz >"$work/replay.json"
