#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The recipe for Conan: unpack it and say `conan create gpupool-VERSION-conan --version VERSION`.
#
#     build.sh OUTPUT_FOLDER
set -euo pipefail
. "$(dirname "$0")/../tools.sh"

write_source "$work"
rm -rf "$work/files"
mkdir -p "$work/files/test_package"
cp packaging/conan/conanfile.py "$work/files"
cp packaging/conan/test_package/* tests/install/consumer.c "$work/files/test_package"
fill packaging/conan/conandata.yml "$work/files/conandata.yml" \
  SHA256="$(sha256sum "$work/libgpupool-$version.tar.gz" | cut -d ' ' -f 1)"
packaging/archive.py "$output/libgpupool-$version-conan.tar.gz" "$work/files" "gpupool-$version-conan"
