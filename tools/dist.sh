#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds every package into dist/, with SHA256SUMS and a list of their contents (SPDX): dist.sh
#
# Expects a release build, whose library the packages contain: they need a system at least as new as this one.
set -euo pipefail
cd "$(dirname "$0")/.."
dist=$PWD/dist
rm -rf "$dist"
mkdir -p "$dist"

say() { echo "dist: $*"; }

for build in packaging/*/build.sh; do
  say "$(basename "$(dirname "$build")")"
  "$build" "$dist"
done

version=$(sed -n 's/^#define GPUPOOL_VERSION_[A-Z]* \([0-9]*\)$/\1/p' include/gpupool/gpupool.h | paste -sd .)
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
packaging/sbom.py "$dist" "$version" "$dist/gpupool-$version.spdx.json"
if [ -x build/venv/bin/pyspdxtools ]; then build/venv/bin/pyspdxtools -i "$dist/gpupool-$version.spdx.json"; fi
(cd "$dist" && find . -type f ! -name SHA256SUMS -printf '%P\n' | LC_ALL=C sort | xargs sha256sum >SHA256SUMS)
say "$(find "$dist" -type f | wc -l) files in $dist"
