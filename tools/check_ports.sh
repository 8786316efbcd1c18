#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the library and the command for Windows and macOS on Linux, with the compilers that are here, and runs what
# wine can run:
#
#     tools/check_ports.sh [windows|macos]...
#
# Windows: Debian's g++-mingw-w64-x86-64-posix, with libz-mingw-w64-dev for the command, and wine64. macOS: zig (pip
# install ziglang, or ZIG=/path/to/zig); nothing here can run that. What is missing is named, and left out.
set -euo pipefail
cd "$(dirname "$0")/.."
ports=build/ports
source=$PWD
[ $# -gt 0 ] || set -- windows macos

left_out() {
  echo "== $1: left out: $2"
}

# The header-only libraries of this machine as packages for another: without its own headers beside them.
make_packages() {
  mkdir -p "$ports/packages/include"
  local name target define
  for name in CLI nlohmann fmt; do
    [ -d "/usr/include/$name" ] || return 1
    ln -sfn "/usr/include/$name" "$ports/packages/include/$name"
  done
  while read -r name target define; do
    cat > "$ports/packages/${name}Config.cmake" <<END
add_library($target INTERFACE IMPORTED)
target_include_directories($target INTERFACE "$source/$ports/packages/include")
target_compile_definitions($target INTERFACE $define)
END
  done <<END
CLI11 CLI11::CLI11
nlohmann_json nlohmann_json::nlohmann_json
fmt fmt::fmt-header-only FMT_HEADER_ONLY=1
END
}

# configure FOLDER TOOLCHAIN [OPTION...]
configure() {
  local folder=$ports/$1 toolchain=$2 packages=$source/$ports/packages
  cmake -S . -B "$folder" -G Ninja -DCMAKE_TOOLCHAIN_FILE="cmake/$toolchain.cmake" -DCMAKE_BUILD_TYPE=Release \
    -DGPUPOOL_BUILD_TESTS=OFF -DGPUPOOL_BUILD_EXAMPLES=OFF -DGPUPOOL_UNITY=ON --log-level=WARNING \
    -DCLI11_DIR="$packages" -Dnlohmann_json_DIR="$packages" -Dfmt_DIR="$packages" "${@:3}"
}

check_windows() {
  local compiler=x86_64-w64-mingw32
  if ! command -v $compiler-g++-posix > /dev/null; then
    left_out Windows "no $compiler-g++-posix (g++-mingw-w64-x86-64-posix)"
    return
  fi
  local zlib=/usr/$compiler/lib/libz.a folder=$ports/windows command=ON
  if [ ! -f "$zlib" ] || ! make_packages; then
    left_out "the command for Windows" "no libz-mingw-w64-dev, or no header-only libraries"
    command=OFF
  fi
  configure windows mingw -DGPUPOOL_BUILD_CLI=$command -DZLIB_LIBRARY="$zlib"
  cmake --build "$folder"
  $compiler-gcc-posix -Wall -Wextra -Iinclude tests/ports/smoke.c -o "$folder/smoke.exe" "$folder/libgpupool.dll.a"
  $compiler-g++-posix -std=c++20 -Wall -Wextra -Iinclude -static tests/ports/threads.cpp -o "$folder/threads.exe" \
    "$folder/libgpupool.dll.a"
  local wine
  wine=$(command -v wine64 || ls /usr/lib/wine/wine64 2> /dev/null || true)
  if [ -z "$wine" ]; then
    left_out "running what was built for Windows" "no wine64"
    return
  fi
  export WINEPREFIX=$source/$ports/wine WINEDEBUG=-all GPUPOOL_SIM=data=0  # there is no data on Windows
  (cd "$folder" && "$wine" ./smoke.exe && "$wine" ./threads.exe)
  [ $command = OFF ] || (cd "$folder" && "$wine" ./gpupool.exe info &&
    "$wine" ./gpupool.exe replay --device sim --passes 1 "$source/tests/data/lm_serve.trace.gz")
}

# What a linker needs of macOS's zlib: the names that the command uses.
write_zlib() {
  cat > "$ports/packages/libz.tbd" <<END
--- !tapi-tbd
tbd-version: 4
targets: [ x86_64-macos, arm64-macos ]
install-name: '/usr/lib/libz.1.dylib'
exports:
  - targets: [ x86_64-macos, arm64-macos ]
    symbols: [ _crc32, _deflate, _deflateBound, _deflateEnd, _deflateInit2_, _deflateSetHeader, _gzclose, _gzdopen,
               _gzopen, _gzread, _gzwrite, _inflate, _inflateEnd, _inflateGetHeader, _inflateInit2_, _inflateReset,
               _inflateReset2, _zError ]
...
END
}

check_macos() {
  local zig=${ZIG:-} target
  [ -n "$zig" ] || zig=$(python3 -c 'import os, ziglang; print(os.path.dirname(ziglang.__file__) + "/zig")' \
    2> /dev/null || command -v zig || true)
  if [ -z "$zig" ]; then
    left_out macOS "no zig (pip install ziglang)"
    return
  fi
  export ZIG=$zig
  local command=ON
  if make_packages; then
    write_zlib
  else
    left_out "the command for macOS" "no header-only libraries"
    command=OFF
  fi
  for target in aarch64-macos.11.0 x86_64-macos.11.0; do
    configure "$target" zig -DZIG_TARGET="$target" -DGPUPOOL_BUILD_CLI=$command \
      -DZLIB_LIBRARY="$source/$ports/packages/libz.tbd" -DZLIB_INCLUDE_DIR="$source/$ports/packages"
    cmake --build "$ports/$target"
    "$zig" cc -target "$target" -Iinclude tests/ports/smoke.c -o "$ports/$target/smoke" -L"$ports/$target" -lgpupool
  done
  left_out "running what was built for macOS" "no Mac"
}

for system in "$@"; do
  echo "== $system"
  "check_$system"
done
