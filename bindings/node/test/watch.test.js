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

/** What each tag holds, in quarters of a GiB. */
const held = (pool) =>
  Object.fromEntries(pool.holders().map(({ tag, liveBytes }) => [tag, Math.round(liveBytes / (256 * MIB))]));
const turn = () => new Promise(setImmediate);

test("a tag follows the work through awaits, and no other work", async () => {
  gpupool.setSampling(MIB);
  const pool = new gpupool.Pool("sim");
  const blocks = [];
  const load = (tag, quarters) => gpupool.tag(tag, async () => {
    for (let i = 0; i < quarters; ++i) {
      await turn();
      blocks.push(pool.allocate(256 * MIB));
    }
    return tag;
  });
  const loaded = await Promise.all([load("one", 1), load("two", 2), load("four", 4)]);
  assert.deepEqual(loaded, ["one", "two", "four"]);
  pool.malloc(768 * MIB);
  assert.deepEqual(held(pool), { four: 4, "": 3, two: 2, one: 1 });
  pool.close();
  for (const block of blocks) block.free();
});

test("tags nest, and end by an exception", () => {
  const pool = new gpupool.Pool("sim");
  const address = gpupool.tag("outer", () => {
    gpupool.tag("inner", () => pool.free(pool.malloc(MIB)));
    assert.throws(() => gpupool.tag("inner", () => { throw new RangeError("thrown inside"); }), RangeError);
    return pool.malloc(256 * MIB);
  });
  assert.deepEqual(held(pool), { outer: 1 });
  pool.free(address);
  const dispose = Symbol.dispose ?? Symbol.for("Symbol.dispose");
  const scope = gpupool.tag("scope");
  const scoped = pool.mallocAligned(256 * MIB, 4096);
  scope[dispose]();
  scope[dispose]();
  assert.deepEqual(held(pool), { scope: 1 });
  pool.free(scoped);
  assert.throws(() => gpupool.tagPop(), { name: "InvalidArgumentError" });
  assert.throws(() => gpupool.tag("", () => 1), { name: "InvalidArgumentError" });
  assert.throws(() => gpupool.tag(5, () => 1), TypeError);
  assert.throws(() => gpupool.tagPop(), { name: "InvalidArgumentError" });
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
