#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs the rock for one user, as luarocks does without a network, and runs a program.
#
#     try.sh FOLDER
set -euo pipefail
. "$(dirname "$0")/../clean.sh"

if ! command -v luarocks >/dev/null; then
  echo "lua: luarocks is not there, skipped"
  exit 0
fi
rock=$(package 'gpupool-*.rock')
clean luarocks --lua-version 5.4 --local install --deps-mode none --no-doc "$rock" >install.log 2>&1 ||
  { cat install.log >&2; exit 1; }
lua_path=$(clean luarocks --lua-version 5.4 --local path --lr-path)
lua_cpath=$(clean luarocks --lua-version 5.4 --local path --lr-cpath)
cat >try.lua <<'EOF'
local gpupool = require "gpupool"
local pool <close> = gpupool.open("sim", "64MiB")
local block <close> = pool:allocate(1 << 20)
block:write("there and back")
print(block:read(0, 14))
print(select(2, pcall(pool.allocate, pool, 1 << 30)).status)
EOF
clean LUA_PATH="$lua_path" LUA_CPATH="$lua_cpath" lua5.4 try.lua >output
[ "$(cat output)" = $'there and back\nGPUPOOL_ERROR_OVER_LIMIT' ] || { cat output; exit 1; }
clean luarocks --lua-version 5.4 --local remove gpupool >/dev/null
[ -z "$(find "$home/.luarocks" -name '*gpupool*.so*')" ]
