# SPDX-License-Identifier: Apache-2.0
# To be sourced by packaging/*/build.sh, after `set -euo pipefail`. Takes the folder that packages go to as its
# argument and sets
#
#   root      the repository
#   version   of the library
#   output    where packages go
#   work      a folder for what is made on the way, kept from one build to the next
#   prefix    the installed library: GPUPOOL_PREFIX, else build/release is installed to build/prefix
#   soname    the name that the loader knows it by
#   swig      where bindings/swig/Makefile builds: GPUPOOL_SWIG_BUILD, else where its tests build
#   platform  linux-x86_64 or the like
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
ecosystem=$(basename "$(dirname "$(realpath "$0")")")
output=$(realpath -m "${1:?say where the packages go}")
version=$(sed -n 's/^#define GPUPOOL_VERSION_[A-Z]* \([0-9]*\)$/\1/p' "$root/include/gpupool/gpupool.h" | paste -sd .)
platform=$(uname -s | tr '[:upper:]' '[:lower:]')-$(uname -m)
work=$root/build/packaging/$ecosystem
mkdir -p "$output" "$work"
cd "$root"

# alone COMMAND...: what several ecosystems share is made by one of them at a time.
alone() { flock "$root/build/packaging" "$@"; }

prefix=${GPUPOOL_PREFIX:-}
if [ -z "$prefix" ]; then
  prefix=$root/build/prefix
  alone cmake --install build/release --prefix "$prefix" >/dev/null
fi
soname=$(readelf -d "$prefix/lib/libgpupool.so" | sed -n 's/.*(SONAME).*\[\(.*\)\].*/\1/p')
swig=${GPUPOOL_SWIG_BUILD:-$root/build/bindings/swig/swig}

# Two builds of one commit give the same packages: files have the commit's date, and tools that know this variable use
# it.
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH

# make_swig FILE...: builds files with bindings/swig/Makefile.
make_swig() {
  alone make --no-print-directory -C bindings/swig BUILD="$swig" GPUPOOL_PREFIX="$prefix" "${@/#/$swig/}"
}

# carry FOLDER FILE...: copies the files, and the library beside them, without what only debuggers need.
carry() {
  local library file
  library=$(realpath "$prefix/lib/libgpupool.so")
  mkdir -p "$1"
  install -m 0755 "${@:2}" "$1"
  install -m 0755 "$library" "$1/$soname"
  for file in "${@:2}" "$soname"; do strip --strip-unneeded "$1/$(basename "$file")"; done
}

# fill TEMPLATE FILE [NAME=VALUE...]: writes the template with @VERSION@, @SONAME@ and the given names replaced.
fill() {
  local pair command=("-e" "s|@VERSION@|$version|g" "-e" "s|@SONAME@|$soname|g")
  for pair in "${@:3}"; do command+=("-e" "s|@${pair%%=*}@|${pair#*=}|g"); done
  sed "${command[@]}" "$1" >"$2"
}

# write_source FOLDER: writes the sources as libgpupool-VERSION.tar.gz: what git tracks here, with changes since.
# Packages for C and C++ are built from it.
write_source() {
  local files=$work/source-files
  rm -rf "$files"
  mkdir -p "$files" "$1"
  git ls-files -co --exclude-standard -z | while IFS= read -r -d '' file; do
    if [ -e "$file" ] || [ -L "$file" ]; then printf '%s\0' "$file"; fi
  done | tar -c --null -T - | tar -x -C "$files"
  packaging/archive.py "$1/libgpupool-$version.tar.gz" "$files" "gpupool-$version"
}
