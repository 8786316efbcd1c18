// SPDX-License-Identifier: Apache-2.0
// Tests of tags, holders and recordings on the simulated device.
"use strict";

const assert = require("node:assert/strict");
const { mkdtempSync, readFileSync, rmSync, statSync } = require("node:fs");
const { tmpdir } = require("node:os");
const path = require("node:path");
const { test } = require("node:test");
const gpupool = require("..");

const MIB = 2 ** 20;

test("holders are told by tag", () => {
  const pool = new gpupool.Pool("sim");
  gpupool.tagPush("kv cache");
  const block = pool.malloc(512 * MIB);
  gpupool.tagPop();
  const [first] = pool.holders();
  assert.equal(first.tag, "kv cache");
  assert.ok(first.liveBytes > 400 * MIB && first.liveBytes < 600 * MIB);
  pool.free(block);
  assert.deepEqual(pool.holders(), []);
  pool.close();
});

test("without samples nobody holds anything", () => {
  gpupool.setSampling(0);
  const pool = new gpupool.Pool("sim");
  const block = pool.malloc(512 * MIB);
  assert.deepEqual(pool.holders(), []);
  pool.free(block);
  pool.close();
  gpupool.setSampling(MIB);
});

test("a tag that was never pushed cannot be popped", () => {
  assert.throws(() => gpupool.tagPop(), { name: "InvalidArgumentError" });
});

test("a recording is written, for its owner only, and not over a file", () => {
  const folder = mkdtempSync(path.join(tmpdir(), "gpupool-"));
  const file = path.join(folder, "node.gpt");
  gpupool.recordStart(file);
  const pool = new gpupool.Pool("sim");
  gpupool.mark("step 12");
  pool.free(pool.malloc(MIB));
  gpupool.recordStop();
  pool.close();
  assert.equal(statSync(file).mode & 0o777, 0o600);
  assert.ok(readFileSync(file).includes("step 12"));
  assert.throws(() => gpupool.recordStart(file), gpupool.GpuPoolError);
  rmSync(folder, { recursive: true });
});
