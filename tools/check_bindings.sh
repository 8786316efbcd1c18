#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks every binding, and that all of them see the same pool: check_bindings.sh [FOLDER...], by default all folders
# that have a check.sh, the code blocks in README.md, and every package. Expects a release build.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/languages.sh

folders=("$@")
[ ${#folders[@]} -gt 0 ] || folders=(bindings/*/ examples/node/)
for folder in "${folders[@]}"; do
  name=$(basename "$folder")
  case $folder in examples/*) name=example-$name ;; esac
  if [ "$name" = rust ] && ! fits Rust; then
    echo "== rust: $(lacks Rust); skipped"
    continue
  fi
  mkdir -p "build/bindings/$name"
  "$folder/check.sh" "$root/build/bindings/$name"
done
if [ $# -eq 0 ]; then
  echo "== README.md"
  without=()
  fits Rust || without=(--without rust)
  python3 -B tools/run_readme.py "${without[@]}" build/readme
  tools/check_packages.sh
fi
