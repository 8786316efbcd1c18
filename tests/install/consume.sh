#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# consume.sh WAY BUILD SOURCE WORK: builds and runs a program that gets gpupool in one of these ways:
# find_package or pkg_config (from what BUILD installs), fetch_content (from SOURCE); add_subdirectory is only configured.
set -euo pipefail
way=$1 build=$2 source=$3 work=$4
here=$(cd "$(dirname "$0")" && pwd)
rm -rf "$work"
mkdir -p "$work"

install_and_move() {
  # Installed in one place and used in another, so that nothing may remember the prefix.
  cmake --install "$build" --prefix "$work/first" >"$work/install.log"
  mv "$work/first" "$work/prefix"
  local file
  for file in include/gpupool/gpupool.h share/doc/gpupool/LICENSE; do
    test -f "$work/prefix/$file" || { echo "not installed: $file"; exit 1; }
  done
  for file in "$source"/include/gpupool/*; do
    cmp -s "$file" "$work/prefix/include/gpupool/${file##*/}" || { echo "not installed: ${file##*/}"; exit 1; }
  done
  if [ -x "$build/gpupool" ]; then
    "$work/prefix/bin/gpupool" info >"$work/info.log" || { echo "the installed command does not run"; exit 1; }
    for file in man/man1/gpupool.1 man/man1/gpupool-replay.1 bash-completion/completions/gpupool \
      zsh/site-functions/_gpupool fish/vendor_completions.d/gpupool.fish; do
      test -s "$work/prefix/share/$file" || { echo "not installed: share/$file"; exit 1; }
    done
  fi
}

configure() {
  local unity
  unity=$(sed -n 's/^GPUPOOL_UNITY:BOOL=//p' "$build/CMakeCache.txt")
  cmake -S "$here/$way" -B "$work/build" -DCMAKE_BUILD_TYPE=Release -DCMAKE_COMPILE_WARNING_AS_ERROR=ON \
    -DCMAKE_C_FLAGS_RELEASE="-O2 -DNDEBUG" -DCMAKE_CXX_FLAGS_RELEASE="-O2 -DNDEBUG" -DGPUPOOL_UNITY="$unity" "$@" \
    >"$work/configure.log"
}

with_cmake() {
  configure "$@"
  cmake --build "$work/build" --parallel 2 >"$work/build.log" || { cat "$work/build.log"; exit 1; }
  local program
  for program in "$work"/build/consumer*; do "$program"; done
}

case $way in
  find_package)
    install_and_move
    with_cmake -DCMAKE_PREFIX_PATH="$work/prefix"
    ;;
  pkg_config)
    install_and_move
    pc=$(find "$work/prefix" -name gpupool.pc)
    export PKG_CONFIG_PATH=${pc%/*}
    # shellcheck disable=SC2046
    "${CC:-cc}" "$here/consumer.c" $(pkg-config --cflags --libs gpupool) -o "$work/consumer"
    LD_LIBRARY_PATH=$(pkg-config --variable=libdir gpupool) "$work/consumer"
    "$here/headers.sh" "$work/prefix/include" "$source/tests/hosts/stand_ins" "$source/build/hosts"
    ;;
  add_subdirectory)
    # FetchContent adds it in the same way, and to compile the library once more takes minutes.
    configure -DGPUPOOL_SOURCE="$source"
    ;;
  fetch_content)
    with_cmake -DFETCHCONTENT_SOURCE_DIR_GPUPOOL="$source"
    ;;
  *)
    echo "no such way: $way"
    exit 2
    ;;
esac
