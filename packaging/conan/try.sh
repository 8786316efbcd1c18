#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs conan create in a CONAN_HOME of its own, shared and static, from the archive in the folder instead of the network.
# The archive's checksum must be the recipe's.
#
#     try.sh FOLDER
set -euo pipefail
. "$(dirname "$0")/../clean.sh"

conan=$(command -v conan || echo "$here/../../build/venv/bin/conan")
[ -x "$conan" ] || { echo "conan: not there, skipped"; exit 0; }
archive=$(package 'libgpupool-*[0-9].tar.gz')
tar xzf "$(package 'libgpupool-*-conan.tar.gz')"
recipe=$(echo "$home"/gpupool-*-conan)
sed -i "s|^\( *url: \).*|\1\"file://$archive\"|" "$recipe/conandata.yml"
version=$(sed -n 's/^  "\(.*\)":$/\1/p' "$recipe/conandata.yml")
caching=()
if command -v ccache >/dev/null; then
  caching=(CCACHE_DIR="$(ccache -k cache_dir)" CCACHE_BASEDIR="$home" CCACHE_NOHASHDIR=1
    CMAKE_CXX_COMPILER_LAUNCHER=ccache CMAKE_C_COMPILER_LAUNCHER=ccache)
fi
clean "$conan" profile detect >log 2>&1
# The options of this project's preset, so that a compiler cache has what the release build has compiled.
cat >preset.cmake <<'EOF'
set(CMAKE_COMPILE_WARNING_AS_ERROR ON)
set(CMAKE_CXX_FLAGS "" CACHE STRING "")
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG" CACHE STRING "")
EOF
cat >>"$home/.conan2/profiles/default" <<EOF
[conf]
tools.cmake.cmaketoolchain:generator=Ninja
tools.cmake.cmaketoolchain:user_toolchain=["$home/preset.cmake"]
EOF
for shared in True False; do
  clean "${caching[@]}" "$conan" create "$recipe" --version "$version" --no-remote -o "gpupool/*:shared=$shared" >log 2>&1 ||
    { tail -n 40 log; exit 1; }
done
