#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs the example: check.sh FOLDER installs what it needs in FOLDER (absolute). Expects the library to be installed
# where GPUPOOL_PREFIX says, and LD_LIBRARY_PATH to lead to it.
set -euo pipefail
cd "$(dirname "$0")"
: "${GPUPOOL_PREFIX:?}" "${LD_LIBRARY_PATH:?}"
export GPUPOOL_BACKEND=sim
header=$GPUPOOL_PREFIX/include/gpupool/gpupool.h

if ! command -v node >/dev/null || ! command -v npm >/dev/null; then
  echo "== node: not there, skipped"
  exit 0
fi
mkdir -p "$1"
if [ ! -d "$1/node_modules/koffi" ] || ! cmp -s package.json "$1/package.json"; then
  echo "== node: npm install"
  cp package.json "$1"
  # koffi brings its code built; its install script would only look for another.
  (cd "$1" && npm install --ignore-scripts --no-package-lock --no-audit --no-fund --silent)
fi
cp dlopen.js "$1"
echo "== node: dlopen"
node "$1/dlopen.js" "$header" >"$1/output.txt"

echo "== node: bad input"
# refused WORDS ARGUMENTS...: the example ends with a failure of one line that has these words.
refused() {
  if node "$1/dlopen.js" "${@:3}" >"$1/output.txt" 2>&1; then
    echo "dlopen.js ${*:3} succeeds" >&2
    exit 1
  fi
  if ! grep -q "$2" "$1/output.txt" || [ "$(wc -l <"$1/output.txt")" != 1 ]; then
    echo "dlopen.js ${*:3} does not say $2 in one line:" >&2
    cat "$1/output.txt" >&2
    exit 1
  fi
}
refused "$1" "usage: "
refused "$1" "no such file" /nowhere.h
refused "$1" "is no gpupool.h" package.json
refused "$1" "cannot open shared object" "$header" libnowhere.so
