#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the package for npm, with the native code for this platform.
#
#     build.sh OUTPUT_FOLDER
set -euo pipefail
. "$(dirname "$0")/../tools.sh"

addon=${GPUPOOL_NODE_BUILD:-$root/build/bindings/node}
make --no-print-directory -C bindings/node BUILD="$addon" GPUPOOL_PREFIX="$prefix"
rm -rf "$work"
mkdir -p "$work"
cp bindings/node/{package.json,README.md,index.js,index.mjs,names.js,support.js,index.d.ts,names.d.ts} LICENSE "$work"
carry "$work/prebuilds/$(node -p 'process.platform + "-" + process.arch')" "$addon/gpupool.node"
# npm gives files a date of its own, so two builds are the same.
npm pack --silent --ignore-scripts --pack-destination "$output" "$work" >/dev/null
