#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tries the wheel in FOLDER that fits this machine, as a newcomer would: a new environment, no installed library.
#
#   try.sh FOLDER [PYTHON...]    with each of these interpreters; by default python3
set -euo pipefail
wheels=$(realpath "${1:?usage: try.sh FOLDER [PYTHON...]}")
shift
pythons=("$@")
[ ${#pythons[@]} -gt 0 ] || pythons=(python3)
cd "$(dirname "$0")/../.."
work=$PWD/build/packaging/try_python
rm -rf "$work"
mkdir -p "$work/elsewhere"
cp examples/python/basic.py examples/python/service.py "$work/elsewhere"
cd "$work/elsewhere"
# The interpreter, pip's own settings, and nothing else of this environment.
clean=(env -i PATH=/usr/local/bin:/usr/bin:/bin HOME="$work" GPUPOOL_BACKEND=sim)
while IFS= read -r setting; do clean+=("$setting"); done < <(env | grep '^PIP_' || true)

# shims FOLDER: that package's allocators for PyTorch: three, or its own word why it has none.
shims() {
  local found
  mapfile -t found < <(compgen -G "$1/shims/*")
  [[ ${found[*]##*/} =~ ^(torch-[^ ]+\.so( |$)){3}$|^none\.txt$ ]] && return 0
  echo "try.sh: the wheel has ${#found[@]} allocators for PyTorch, not three, and does not say why: ${found[*]##*/}" >&2
  return 1
}

for python in "${pythons[@]}"; do
  echo "== python: a program with the wheel"
  "$python" -m venv --clear "$work/venv"
  "${clean[@]}" "$work/venv/bin/pip" -q --disable-pip-version-check install cffi pytest
  "${clean[@]}" "$work/venv/bin/pip" -q --disable-pip-version-check install --no-index --find-links "$wheels" gpupool
  installed=$("${clean[@]}" "$work/venv/bin/python" -c "import gpupool; print(gpupool.version(), gpupool.__file__)")
  [[ $installed == *" $work/venv/"* ]] || { echo "try.sh: it is not the wheel's: $installed" >&2; exit 1; }
  shims "$(dirname "${installed#* }")"
  "${clean[@]}" "$work/venv/bin/python" basic.py >/dev/null
  "${clean[@]}" "$work/venv/bin/python" service.py >/dev/null
  said=$("${clean[@]}" "$work/venv/bin/gpupool" info --json)
  [[ $said == *'"sim"'* ]] || { echo "try.sh: gpupool info says: $said" >&2; exit 1; }
  "${clean[@]}" "$work/venv/bin/gpupool" --version >/dev/null
  echo '#include <gpupool/plug.hpp>' |
    c++ -std=c++17 -fsyntax-only -I "$(dirname "${installed#* }")/include" -x c++ -
done

echo "== python: the workflow of docs/ci.md"
page=../../../../docs/ci.md
# block LANGUAGE [N]: the page's Nth block of a language.
block() {
  awk -v fence="\`\`\`$1" -v wanted="${2:-1}" \
    '$0 == fence {inside = ++count == wanted; next} /^```/ {inside = 0} inside' "$page"
}
block python >test_memory.py
block python 2 >test_marks.py
mapfile -t settings < <(block yaml | sed -n 's/^ *\(GPUPOOL_[A-Z]*\): \(.*\)$/\1=\2/p')
mapfile -t steps < <(block yaml | sed -n 's/^ *- run: //p')
[ ${#settings[@]} = 2 ] && [ ${#steps[@]} = 2 ] || { echo "try.sh: docs/ci.md has no such workflow" >&2; exit 1; }
for step in "${steps[@]}"; do
  "${clean[@]}" "${settings[@]}" PATH="$work/venv/bin:/usr/bin:/bin" PYTHONDONTWRITEBYTECODE=1 bash -euc "$step" >step.log 2>&1 ||
    { cat step.log >&2; exit 1; }
done
grep -q "8 passed" step.log
