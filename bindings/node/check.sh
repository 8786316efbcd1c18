#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds and tests the binding for Node: check.sh BUILD_FOLDER. Needs GPUPOOL_PREFIX, or PKG_CONFIG_PATH and
# LD_LIBRARY_PATH that lead to the library.
set -euo pipefail
build=${1:?say where to build}
cd "$(dirname "$0")/../.."
here=bindings/node
export GPUPOOL_BACKEND=sim
mkdir -p "$build"

if ! command -v node >/dev/null; then
  echo "== node: not there, skipped"
  exit 0
fi
echo "== node: format"
if command -v clang-format >/dev/null; then clang-format --dry-run --Werror $here/src/*.{cpp,hpp}; fi
if grep -nE $'\t| $|^.{121}' $here/*.{js,mjs} $here/index.d.ts $here/test/*; then
  echo "tabs, spaces at the end, or lines of more than 120 characters" >&2
  exit 1
fi

echo "== node: build"
make --no-print-directory -C $here BUILD="$build"
export GPUPOOL_NODE_ADDON=$build/gpupool.node

echo "== node: tests"
if ! node --expose-gc --test $here/test/*.test.js >"$build/tests.log" 2>&1; then
  cat "$build/tests.log"
  exit 1
fi
grep -E '^# (tests|pass)' "$build/tests.log"

$here/readme.py >"$build/readme.mjs"
node "$build/readme.mjs" >"$build/readme.log"
grep -q '^bytes 2097152$' "$build/readme.log" || { cat "$build/readme.log"; exit 1; }

node $here/test/run_scenarios.js tests/scenario/*.json >"$build/scenarios"
SCENARIO_RUNNER=$here/test/run_scenarios.js python3 -B tests/scenario/test_runner.py -q
# The figures of C++, where its runner has been built.
runner=build/release/tests/scenario/scenario_runner
if [ -x $runner ]; then
  $runner tests/scenario/*.json >"$build/scenarios.cpp"
  cmp "$build/scenarios.cpp" "$build/scenarios"
  echo "$(wc -l <"$build/scenarios") scenarios: the same in C++ and Node"
fi

# The types, by TypeScript's compiler, where it can be had.
types=$build/types
mkdir -p "$types"
cp $here/test/types.ts $here/test/tsconfig.json "$types"
echo '{"private": true, "dependencies": {"typescript": "5.9.3", "@types/node": "20.19.25"}}' >"$types/package.json"
if [ -d "$types/node_modules/typescript" ] ||
  (cd "$types" && npm install --ignore-scripts --no-package-lock --no-audit --no-fund --silent >npm.log 2>&1); then
  mkdir -p "$types/node_modules/gpupool"
  cp $here/{package.json,index.js,index.mjs,names.js,support.js,*.d.ts} "$types/node_modules/gpupool"
  (cd "$types" && node_modules/.bin/tsc -p .)
  echo "types: strict TypeScript takes them"
else
  echo "TypeScript cannot be fetched: types are not checked"
fi
