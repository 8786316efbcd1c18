#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Configures the sources in the archive. The packages for C and C++ show that they build.
#
#     try.sh FOLDER
set -euo pipefail
. "$(dirname "$0")/../clean.sh"
archive=$(package 'libgpupool-*[0-9].tar.gz')
tar xzf "$archive"
name=$(basename "$archive" .tar.gz | sed s/^lib//)
clean cmake -S "$name" -B build -DGPUPOOL_BUILD_TESTS=OFF -DGPUPOOL_BUILD_CLI=OFF -DGPUPOOL_BUILD_EXAMPLES=OFF >log
[ -f "$name/LICENSE" ]
[ "gpupool-$(sed -n 's/^CMAKE_PROJECT_VERSION:STATIC=//p' build/CMakeCache.txt)" = "$name" ]
# Links of the bindings lead to files that are there.
[ -z "$(find "$name" -xtype l)" ] || { find "$name" -xtype l; exit 1; }
