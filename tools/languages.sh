# SPDX-License-Identifier: Apache-2.0
# Source this in the repository's root: it installs the release build to build/prefix and sets the variables with which
# the bindings find it, and the toolchains and checkers that tools/setup.sh put in build/venv.
root=$PWD
cmake --install build/release --prefix build/prefix >/dev/null

export GPUPOOL_PREFIX=$root/build/prefix
export PKG_CONFIG_PATH=$GPUPOOL_PREFIX/lib/pkgconfig${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}
export LD_LIBRARY_PATH=$GPUPOOL_PREFIX/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export PATH=$GPUPOOL_PREFIX/bin:$PATH
PATH=$root/build/checkers:$PATH
for folder in build/venv/lib/python3*/site-packages/go/bin; do
  [ ! -x "$folder/go" ] || PATH=$root/$folder:$PATH
done
. "$root/tools/toolchains.sh"
