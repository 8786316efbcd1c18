#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The port for vcpkg as an overlay: unpack it and say `vcpkg install gpupool --overlay-ports=gpupool-VERSION-vcpkg`.
#
#     build.sh OUTPUT_FOLDER
set -euo pipefail
. "$(dirname "$0")/../tools.sh"

write_source "$work"
port=$work/files/gpupool
rm -rf "$work/files"
mkdir -p "$port"
sum=$(sha512sum "$work/libgpupool-$version.tar.gz" | cut -d ' ' -f 1)
for file in vcpkg.json portfile.cmake usage; do
  fill "packaging/vcpkg/port/$file" "$port/$file" SHA512="$sum"
done
packaging/archive.py "$output/libgpupool-$version-vcpkg.tar.gz" "$work/files" "gpupool-$version-vcpkg"
