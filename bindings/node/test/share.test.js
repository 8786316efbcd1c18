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

test("a group is seen and set from outside", () => {
  const pool = new Pool({ device: "sim", share: "seen", guaranteedBytes: 2 ** 33 });
  const { share, members: [member, ...others] } = gpupool.shareInfo("seen", "sim");
  assert.deepEqual([share.members, share.limboBytes, others], [1, 0, []]);
  assert.equal(share.usedBytes, 2 ** 33);
  assert.deepEqual([member.state, member.pid, member.guaranteedBytes],
    [gpupool.ShareMemberState.LIVE, process.pid, 2 ** 33]);
  gpupool.shareSet("member_priority", -3, member.slot, "seen", "sim");
  gpupool.shareSet(gpupool.ShareFigure.MEMBER_LIMIT, 2n ** 35n, member.slot, "seen", "sim:0");
  const [set] = gpupool.shareInfo("seen", "sim").members;
  assert.deepEqual([set.priority, set.limitBytes], [-3, 2 ** 35]);
  assert.equal(gpupool.shareRepair("seen", "sim"), 0);
  assert.throws(() => gpupool.shareSet("member_priority", 9, member.slot, "seen", "sim"),
    { name: "InvalidArgumentError" });
  assert.throws(() => gpupool.shareSet("price", 9), TypeError);
  for (const amount of [1.5, 2n ** 63n, "9"]) {
    assert.throws(() => gpupool.shareSet("limit", amount, 0, "seen", "sim"), TypeError);
  }
  assert.throws(() => gpupool.shareInfo("nobody's", "sim"), { name: "InvalidArgumentError" });
  assert.throws(() => gpupool.shareInfo("nobodys", "sim"), { name: "UnavailableError" });
  process.env.GPUPOOL_SHARE = "seen";
  assert.equal(gpupool.shareInfo("", "sim").members.length, 1);
  delete process.env.GPUPOOL_SHARE;
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
