#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs every checker that needs no build, and names those that found something: lint.sh
set -euo pipefail
cd "$(dirname "$0")/.."
failed=()
run() { "$@" || failed+=("${*/python3 /}"); }

echo "== generated files, bindings, layers, circles, locks, words, pages, kernels, messages and commits"
run python3 tools/apigen.py --check
run python3 tools/python_reference.py --check
run python3 tools/matrix.py --check
run python3 tools/runs_table.py --check
run python3 packaging/go/amalgamate.py --check
for checker in coverage layers circles locks words pages kernels tracked messages commits; do
  run python3 "tools/check_$checker.py"
done
if [ -x build/checkers/ruff ]; then
  echo "== ruff"
  run build/checkers/ruff check tools tests packaging
else
  echo "== ruff: not installed, skipped"
fi
for each in "${failed[@]+"${failed[@]}"}"; do echo "failed: $each" >&2; done
[ ${#failed[@]} -eq 0 ]
