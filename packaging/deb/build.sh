#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds Debian's packages with Debian's own tools: the library, the development files, and the command.
#
#     build.sh OUTPUT_FOLDER
set -euo pipefail
. "$(dirname "$0")/../tools.sh"

for tool in dpkg-buildpackage dh; do
  command -v $tool >/dev/null || { echo "deb: $tool is not there, nothing is built" >&2; exit 0; }
done
write_source "$work"
tree=$work/gpupool-$version
rm -rf "$tree" "$work"/*.{deb,ddeb,dsc,changes,buildinfo,tar.xz}
mv "$work/libgpupool-$version.tar.gz" "$work/gpupool_$version.orig.tar.gz"
tar xzf "$work/gpupool_$version.orig.tar.gz" -C "$work"

# debian/ with the version in names and contents.
soversion=${soname#libgpupool.so.}
(cd packaging/deb && find debian -type f) | while read -r file; do
  target=$tree/${file//@SOVERSION@/$soversion}
  mkdir -p "$(dirname "$target")"
  fill "packaging/deb/$file" "$target" SOVERSION="$soversion" DATE="$(date -u -R -d "@$SOURCE_DATE_EPOCH")"
done
chmod +x "$tree/debian/rules"

# debhelper gives the build a home of its own, so the compiler would not find its cache.
if command -v ccache >/dev/null; then
  CCACHE_DIR=$(ccache -k cache_dir)
  export CCACHE_DIR CMAKE_CXX_COMPILER_LAUNCHER=ccache CMAKE_C_COMPILER_LAUNCHER=ccache
fi
# Users do not install symbols for debuggers, and to compile them takes a quarter of the time.
export DEB_BUILD_OPTIONS=noautodbgsym DEB_CFLAGS_STRIP=-g DEB_CXXFLAGS_STRIP=-g
(cd "$tree" && env -u CXX -u CC -u LD_LIBRARY_PATH -u GPUPOOL_BACKEND dpkg-buildpackage -us -uc "-j$(nproc)") \
  >"$work/build.log" 2>&1 || { tail -n 40 "$work/build.log" >&2; exit 1; }
cp "$work"/*.deb "$output"
rm -rf "$tree"
if command -v lintian >/dev/null; then
  # Nobody has asked Debian for the package, so there is no bug to close. third_party has uPlot as its author publishes
  # it for browsers; the report contains it in this form.
  lintian --allow-root --fail-on error,warning --suppress-tags initial-upload-closes-no-bugs,source-is-missing \
    "$work"/*.changes
fi
