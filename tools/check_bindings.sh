#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks every binding, and that all of them see the same pool: check_bindings.sh [FOLDER...], by default all folders
# that have a check.sh, the code blocks in README.md and docs, and every package. Expects a release build. Two run at a time.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/languages.sh

check() { # check FOLDER NAME
  if [ "$2" = rust ] && ! fits Rust; then
    echo "== rust: $(lacks Rust); skipped"
    return
  fi
  mkdir -p "build/bindings/$2"
  "$1/check.sh" "$root/build/bindings/$2"
}
if [ $# -eq 1 ]; then  # whoever names one wants to see what it says
  check "$1" "$(basename "$1")"
  exit
fi

check_pages() {
  local without=()
  fits Rust || without=(--without rust)
  # bindings/python/check.sh runs those in Python.
  python3 -B tools/run_pages.py --without python "${without[@]}" build/pages
}

logs=$root/build/bindings/logs
lanes=2
. tools/progress.sh
rm -rf "$logs"
echo "== bindings"
folders=("$@")
if [ $# -eq 0 ]; then
  folders=(bindings/python bindings/swig)  # first, since they take longest
  for script in bindings/*/check.sh examples/*/check.sh; do
    folder=$(dirname "$script")
    [[ " ${folders[*]} " == *" $folder "* ]] || folders+=("$folder")
  done
fi
for folder in "${folders[@]}"; do
  name=$(basename "$folder")
  case $folder in examples/*) name=example-$name ;; esac
  begin "$name" check "$folder" "$name"
done
[ $# -gt 0 ] || begin pages check_pages
finish || exit 1
grep -h skipped "$logs"/*.log | grep -v passed || true
[ $# -gt 0 ] || tools/check_packages.sh
