#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds every package from the release build, for this machine, and tries it in a clean environment: check_packages.sh
# [ECOSYSTEM...]. Compiled files stay in build/packaging for the next run.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/languages.sh
if [ -d build/venv/bin ]; then PATH=$PATH:$root/build/venv/bin; fi
# The packages must not find the library by accident.
unset GPUPOOL_PREFIX LD_LIBRARY_PATH PKG_CONFIG_PATH

ecosystems=("$@")
if [ ${#ecosystems[@]} -eq 0 ]; then
  for script in packaging/*/try.sh; do ecosystems+=("$(basename "$(dirname "$script")")"); done
fi
folder=$root/build/packages
rm -rf "$folder"
packaging/source/build.sh "$folder"
for each in "${ecosystems[@]}"; do
  start=$SECONDS
  if [ "$each" = rust ] && ! fits Rust; then
    echo "== package: rust: $(lacks Rust); skipped"
    continue
  fi
  machine=()
  [ "$each" != python ] || machine=("$(uname -m)")
  [ "$each" = source ] || "packaging/$each/build.sh" "$folder" "${machine[@]}"
  "packaging/$each/try.sh" "$folder"
  echo "== package: $each, $((SECONDS - start)) s"
done

packaging/sbom.py "$folder" 0.0.0 build/packages.spdx.json
validator=build/venv/bin/pyspdxtools
if [ -x $validator ]; then $validator -i build/packages.spdx.json; else echo "spdx-tools: not installed, skipped"; fi
