#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what building and testing need, on Debian 12 and 13 and their like. Says what it installs, and
# nothing when all is there.
#
#   tools/setup.sh         compilers and libraries, from Debian; the checkers; ruff and cuda.h from PyPI
#   tools/setup.sh build   only what a build needs
#
# ruff, and clang-format where Debian's is not version 14, go to build/venv; cuda.h goes to
# build/cuda-headers. Where those two can not be had, their checks are skipped with a word.
set -euo pipefail
cd "$(dirname "$0")/.."
what=${1:-all}

say() { echo "setup: $*"; }
die() { say "$*" >&2; exit 1; }

# One line for each need: how to see that it is there, and Debian's package for it. Files are looked for in
# every directory that compilers search on this machine.
has_command() { command -v "$1" >/dev/null; }
has_file() {
  local directory
  for directory in /usr/include /usr/local/include /usr/lib "/usr/lib/$(uname -m)-linux-gnu" /usr/share; do
    compgen -G "$directory/$1" >/dev/null && return 0
  done
  return 1
}

missing=()
need() { # need PACKAGE command|file NAME
  "has_$2" "$3" || missing+=("$1")
}

need g++ command g++
need cmake command cmake
need ninja-build command ninja
need make command make
need pkg-config command pkg-config
need python3 command python3
need libgtest-dev file gtest/gtest.h
need libcli11-dev file CLI/CLI.hpp
need nlohmann-json3-dev file nlohmann/json.hpp
need libfmt-dev file fmt/format.h
need zlib1g-dev file zlib.h
if [ "$what" = all ]; then
  need binutils command readelf
  need clang command clang++
  need clang-format command clang-format
  need clang-tidy command clang-tidy
  need python3-venv file python3*/ensurepip/__init__.py
  need python3-pip command pip3
  if has_command clang; then
    release=$(clang -dumpversion)
    need "libclang-rt-${release%%.*}-dev" file "llvm-${release%%.*}/lib/clang/*/lib/*/libclang_rt.fuzzer*"
  else
    missing+=(libclang-rt-dev)
  fi
fi

as_root() {
  if [ "$(id -u)" = 0 ]; then
    "$@"
  elif has_command sudo; then
    sudo "$@"
  else
    die "neither root nor sudo: please install ${missing[*]}"
  fi
}

install_missing() {
  has_command apt-get || die "no apt-get on this system: please install ${missing[*]} or their like"
  say "installing ${missing[*]}"
  as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq update || die "apt-get update failed"
  # The runtime of clang's sanitizers is named after the release that clang comes from.
  local package packages=()
  for package in "${missing[@]}"; do
    if [ "$package" = libclang-rt-dev ]; then
      package=$(apt-cache depends clang | sed -n 's/.*Depends: clang-\([0-9]*\)$/libclang-rt-\1-dev/p')
    fi
    packages+=("$package")
  done
  as_root env DEBIAN_FRONTEND=noninteractive \
    apt-get -qq install --no-install-recommends -y "${packages[@]}" >build/setup.log 2>&1 ||
    { tail -n 20 build/setup.log; die "apt-get could not install ${packages[*]}"; }
}

# The Python tools, in an environment of their own.
install_venv() {
  local wanted=(ruff==0.14.5)
  # Versions of clang-format differ in what they find beautiful.
  clang-format --version | grep -q 'version 14\.' || wanted+=(clang-format==14.0.6)
  local stamp=build/venv/installed
  [ "$(cat "$stamp" 2>/dev/null)" = "${wanted[*]}" ] && return 0
  say "installing ${wanted[*]} in build/venv"
  if python3 -m venv build/venv && build/venv/bin/pip -q --retries 1 install "${wanted[@]}" >build/setup.log 2>&1; then
    echo "${wanted[*]}" >"$stamp"
  else
    say "PyPI can not be reached: the checks of ${wanted[*]} will be skipped"
  fi
}

# The driver's header, without a toolkit: 2 MB of a wheel.
install_cuda_header() {
  local folder=build/cuda-headers
  [ -f $folder/nvidia/cu13/include/cuda.h ] && return 0
  say "fetching cuda.h to $folder"
  local wheels
  wheels=$(mktemp -d)
  if python3 -m pip -q --retries 1 download --no-deps --only-binary :all: -d "$wheels" 'nvidia-cuda-runtime==13.0.*' \
    >build/setup.log 2>&1; then
    python3 -m zipfile -e "$wheels"/*.whl "$folder"
  else
    say "PyPI can not be reached: our declarations of the driver will not be checked against cuda.h"
  fi
  rm -rf "$wheels"
}

mkdir -p build
[ ${#missing[@]} -eq 0 ] || install_missing
if [ "$what" = all ]; then
  install_venv
  install_cuda_header
fi
