#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs the package without a network into a program's folder, and runs it both ways.
#
#     try.sh FOLDER
set -euo pipefail
. "$(dirname "$0")/../clean.sh"

tgz=$(package 'gpupool-*.tgz')
mkdir program && cd program
echo '{"name": "program", "private": true}' >package.json
clean npm install --offline --no-audit --no-fund --silent "$tgz"
cat >try.mjs <<'EOF'
import { OverLimitError, Pool } from "gpupool";

const pool = new Pool("sim", "64MiB");
const block = pool.allocate(2 ** 20);
await block.writeAsync(Buffer.from("there and back"));
console.log(String(await block.readAsync(0, 14)));
try {
  pool.allocate(2 ** 30);
} catch (error) {
  console.log(error instanceof OverLimitError);
}
pool[Symbol.dispose ?? Symbol.for("Symbol.dispose")]();
console.log(String(pool));
EOF
clean node try.mjs >output
[ "$(cat output)" = $'there and back\ntrue\npool: closed' ] || { cat output; exit 1; }
clean node -e 'console.log(require("gpupool").versionString())' >output
[ "$(cat output)" = "$(node -p 'require("./node_modules/gpupool/package.json").version')" ]
[ "$(find node_modules/gpupool -name '*.d.ts' | wc -l)" = 2 ]
