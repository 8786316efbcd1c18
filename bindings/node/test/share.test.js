// SPDX-License-Identifier: Apache-2.0
// Tests of pools that share a device with other processes.
"use strict";

const assert = require("node:assert/strict");
const { mkdtempSync, rmSync } = require("node:fs");
const os = require("node:os");
const path = require("node:path");
const { after, before, test } = require("node:test");
const gpupool = require("..");

const { Pool, ShareState } = gpupool;
let folder;

before(() => {
  folder = mkdtempSync(path.join(os.tmpdir(), "gpupool-node-"));
  process.env.GPUPOOL_SHARE_DIR = folder;
});
after(() => rmSync(folder, { recursive: true }));

test("a pool of a group", () => {
  const pool = new Pool({ device: "sim", share: "team", guaranteedBytes: 2 ** 30, shareWaitNs: 1000, priority: 2 });
  assert.equal(pool.stats().shareState, ShareState.SHARED);
  pool.shareRequest(2 ** 20);
  pool.allowSleep("drop");
  assert.equal(pool.wakeSync().pools, 0);
  assert.throws(() => pool.shareRequest(2 ** 50, 1000), { name: "OverLimitError" });
  pool.close();
});

test("sharing is refused in words", () => {
  assert.throws(() => new Pool({ device: "sim", share: "a/b" }), { name: "InvalidArgumentError" });
  assert.throws(() => new Pool({ device: "sim", share: "team", priority: 9 }), /priority is 9/);
});

test("an empty group is none, whatever the environment says", () => {
  process.env.GPUPOOL_SHARE = "team";
  const pool = new Pool({ device: "sim", share: "" });
  delete process.env.GPUPOOL_SHARE;
  assert.equal(pool.stats().shareState, ShareState.OFF);
  assert.throws(() => pool.shareRequest(1), { name: "UnavailableError" });
  pool.close();
});
