// SPDX-License-Identifier: Apache-2.0
// Tests of blocks between processes; here both are this one.
"use strict";

const assert = require("node:assert/strict");
const { test } = require("node:test");
const gpupool = require("..");

const MIB = 2 ** 20;

test("a block is exported and imported", { skip: process.platform !== "linux" }, () => {
  const pool = new gpupool.Pool({ device: "sim" });
  const other = new gpupool.Pool({ device: "sim" });
  const address = pool.malloc(3 * MIB);
  const handle = pool.exportBlock(address);
  const block = other.importBlock(handle);
  assert.equal(block.allocatedBytes, 3 * MIB);
  pool.free(address);
  assert.equal(pool.stats().all.activeBytes.current, 3 * MIB);
  other.closeImport(block.address);
  assert.equal(pool.stats().all.activeBytes.current, 0);
  assert.throws(() => other.closeImport(block.address), { name: "UnknownPointerError" });
  assert.throws(() => other.importBlock(handle), { name: "UnavailableError" });
  assert.throws(() => other.importBlock("gpupool"), { name: "InvalidArgumentError" });
  other.close();
  pool.close();
});
