#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds every package from the release build, for this machine, and tries it in a clean environment: check_packages.sh
# [ECOSYSTEM...]. Two at a time. Compiled files stay in build/packaging for the next run.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/languages.sh
if [ -d build/venv/bin ]; then PATH=$PATH:$root/build/venv/bin; fi
# The packages must not find the library by accident.
unset GPUPOOL_PREFIX LD_LIBRARY_PATH PKG_CONFIG_PATH

ecosystems=("$@")
if [ ${#ecosystems[@]} -eq 0 ]; then
  ecosystems=(python rust go)  # first, since they take longest
  for script in packaging/*/try.sh; do
    each=$(basename "$(dirname "$script")")
    [[ " ${ecosystems[*]} " == *" $each "* ]] || ecosystems+=("$each")
  done
fi
folder=$root/build/packages
rm -rf "$folder"
packaging/source/build.sh "$folder"

check() { # check ECOSYSTEM
  local machine=()
  if [ "$1" = rust ] && ! fits Rust; then
    echo "$(lacks Rust); skipped"
    return
  fi
  [ "$1" != python ] || machine=("$(uname -m)")
  [ "$1" = source ] || "packaging/$1/build.sh" "$folder" "${machine[@]}"
  "packaging/$1/try.sh" "$folder"
}

logs=$root/build/packaging/logs
lanes=2
. tools/progress.sh
rm -rf "$logs"
echo "== packages"
for each in "${ecosystems[@]}"; do begin "$each" check "$each"; done
finish || exit 1
# What was left out, and why.
grep -HE 'skipped|not tried|nothing is built|no rock|has no allocators' "$logs"/*.log | sed 's|.*/\(.*\)\.log:|   \1: |' || true

packaging/sbom.py "$folder" 0.0.0 build/packages.spdx.json
validator=build/venv/bin/pyspdxtools
if [ -x $validator ]; then $validator -i build/packages.spdx.json; else echo "spdx-tools: not installed, skipped"; fi
