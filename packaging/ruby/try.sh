#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs the gem into a GEM_HOME of its own and runs a program.
#
#     try.sh FOLDER
set -euo pipefail
. "$(dirname "$0")/../clean.sh"

gem=$(package 'gpupool-*.gem')
clean GEM_HOME="$home/gems" gem install --local --no-document --quiet "$gem" >install.log 2>&1 ||
  { cat install.log >&2; exit 1; }
cat >try.rb <<'EOF'
require "gpupool"
GpuPool::Pool.open("sim", limit: "64MiB") do |pool|
  pool.allocate(1 << 20) do |block|
    block.write("there and back")
    puts block.read(0, 14)
  end
  pool.allocate(1 << 30)
rescue GpuPool::OverLimitError => e
  puts e.status_name
end
EOF
clean GEM_HOME="$home/gems" ruby -w try.rb >output
[ "$(cat output)" = $'there and back\nGPUPOOL_ERROR_OVER_LIMIT' ] || { cat output; exit 1; }
clean GEM_HOME="$home/gems" gem contents gpupool >contents
[ "$(grep -c "^$home/gems/" contents)" = 5 ] || { cat contents; exit 1; }
