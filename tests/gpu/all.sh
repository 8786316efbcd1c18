#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Everything that needs a GPU, with a short summary at the end:
#
#   tests/gpu/all.sh [FOLDER]     FOLDER (default build/gpu): logs, the wheel, what is compiled
#
# PYTHON is the Python with PyTorch in it (default python3). The script builds the package gpupool into its own folder
# and installs nothing. If PYTORCH_TESTS names PyTorch's test folder, those tests run too. GPUPOOL_WHEEL names a wheel
# built earlier; JOBS sets how many processes compile (default 8). With GPUPOOL_DEBUG=poison,canary every pool has these
# modes, and a step in whose log the pool tells of damage fails; the tests of debug modes themselves are left out.
set -uo pipefail
cd "$(dirname "$0")/../.."
root=$PWD
python=${PYTHON:-python3}
folder=$(mkdir -p "${1:-build/gpu}" && cd "${1:-build/gpu}" && pwd)
export XDG_CACHE_HOME=$folder/cache CMAKE_BUILD_PARALLEL_LEVEL=${JOBS:-8} PYTHONUNBUFFERED=1
mkdir -p "$XDG_CACHE_HOME" && chmod 700 "$XDG_CACHE_HOME"
summary=()
failures=0

# step NAME COMMAND...: runs it, with its output in a log, and notes what came of it.
step() {
  local name=$1 start=$SECONDS result last
  shift
  "$@" >"$folder/$name.log" 2>&1
  result=$?
  if [ -n "${GPUPOOL_DEBUG:-}" ] && grep -qE 'written (beyond the end|after the free) of' "$folder/$name.log"; then
    result=1
  fi
  last=$(grep -v '^[[:space:]]*$' "$folder/$name.log" | tail -1)
  [ $result -eq 0 ] || failures=$((failures + 1))
  summary+=("$(printf '%-14s %-6s %4d s  %s' "$name" "$([ $result -eq 0 ] && echo ok || echo FAILED)" \
    $((SECONDS - start)) "${last:0:110}")")
  echo "${summary[-1]}"
}

wheel() {
  local found=${GPUPOOL_WHEEL:-}
  if [ -z "$found" ]; then
    local isolation=()  # without a network, what builds it has to be there
    "$python" -c "import scikit_build_core, cffi" && isolation=(--no-build-isolation)
    "$python" -m pip wheel -q bindings/python --no-deps "${isolation[@]}" -w "$folder/wheels" || return 1
    found=$(ls -t "$folder"/wheels/gpupool-*.whl | head -1)
  fi
  rm -rf "$folder/site"
  "$python" -m pip install -q --no-deps --target "$folder/site" "$found" || return 1
  # Makes of it a folder whose .pth files are heeded, as site-packages is: GPUPOOL_INSTALL works by one.
  echo "import site; site.addsitedir('$folder/site')" >"$folder/site/sitecustomize.py"
  echo "$found"
}

shim() {
  "$python" -c "import torch, gpupool.torch; print(gpupool.torch.install(), 'for PyTorch', torch.__version__)" |
    grep '^shim'
}

# All releases of PyTorch, without the GPU; nothing where their files cannot be fetched.
releases() {
  "$python" tools/torch_matrix.py --libraries "$folder/site/gpupool" || [ $? = 77 ]
}

tests() {
  (cd tests/gpu && "$python" -m pytest -q -rfE -p no:cacheprovider --tb=short "$@")
}

step wheel wheel
export PYTHONPATH=$folder/site${PYTHONPATH:+:$PYTHONPATH}
GPUPOOL_LIBRARY=$(find "$folder/site" -name 'libgpupool.so.*' | head -1)
export GPUPOOL_LIBRARY
step graphs "$python" tests/gpu/graphs_fuzz.py
step contexts "$python" tests/gpu/contexts_fuzz.py
step shim shim
step releases releases
step torch tests test_torch.py
step ipc tests -s test_ipc.py
step multi_gpu tests -rs test_multi_gpu.py
step others tests test_others.py
step top tests -rs test_top.py
if [ -z "${GPUPOOL_DEBUG:-}" ]; then
  step debug tests test_debug.py
  step sanitizer tests test_sanitizer.py
fi
step sleep tests test_sleep.py
step run "$python" tests/gpu/run_cases.py --record "$folder/run.json"
if [ -n "${PYTORCH_TESTS:-}" ]; then
  step pytorch "$python" tests/gpu/run_pytorch_tests.py --native-results "$folder/native.json" "$PYTORCH_TESTS"
fi

echo "== summary ($(nvidia-smi --query-gpu=name --format=csv,noheader | sort | uniq -c | xargs), logs in ${folder#"$root"/})"
printf '%s\n' "${summary[@]}"
for log in "$folder"/{torch,ipc,multi_gpu,others,top,debug,sanitizer,sleep,run,pytorch}.log; do
  [ -f "$log" ] && grep -hE '^(FAILED|ERROR)|^ +NEW:' "$log" | cut -c1-160
done
exit $((failures > 0))
