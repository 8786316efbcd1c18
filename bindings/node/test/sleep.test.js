// SPDX-License-Identifier: Apache-2.0
// Tests of sleep, names and children of pools on the simulated device.
"use strict";

const assert = require("node:assert/strict");
const { test } = require("node:test");
const gpupool = require("..");

const { Pool, SleepFlag, SleepMode, SleepState } = gpupool;
const MIB = 2 ** 20;

test("what sleeps comes back with its contents", async () => {
  const pool = new Pool("sim");
  const block = pool.allocate(4 * MIB);
  block.write(Buffer.from("kept"));
  assert.equal(pool.sleepState, SleepState.AWAKE);
  const slept = await pool.sleep();
  assert.deepEqual([slept.pools, slept.savedBytes, slept.droppedBytes], [1, 4 * MIB, 0]);
  assert.ok(slept.releasedBytes >= 4 * MIB);
  assert.equal(pool.sleepState, SleepState.ASLEEP);
  assert.ok(pool.stats().asleepBytes >= 4 * MIB);
  assert.equal(pool.blockInfo(block.address).state, gpupool.BlockState.ASLEEP);
  assert.throws(() => pool.malloc(1), { name: "AsleepError", status: gpupool.Status.ASLEEP });
  const woken = await pool.wake();
  assert.ok(woken.createdBytes >= 4 * MIB);
  assert.equal(String(block.read(0, 4)), "kept");
  assert.equal(pool.sleepSync("save").savedBytes, 4 * MIB);
  assert.equal(pool.wakeSync(1000).savedBytes, 4 * MIB);
  assert.equal(pool.stats().wakes, 2);
  block.free();
  pool.close();
  await assert.rejects(pool.sleep(), { message: "the pool is closed" });
});

test("what is dropped is filled, but for what is to be kept", async () => {
  const pool = new Pool("sim");
  const [kept, lost] = [pool.allocate(MIB), pool.allocate(MIB)];
  kept.write(Buffer.from("kept"));
  lost.write(Buffer.from("lost"));
  pool.setKeep(kept.address, true);
  pool.prepareBackup(2 * MIB);
  assert.ok(pool.stats().backupBytes >= 2 * MIB);
  const slept = await pool.sleep("drop");
  assert.deepEqual([slept.savedBytes, slept.droppedBytes], [MIB, MIB]);
  await pool.wake(0, SleepFlag.FILL, 0x41);
  assert.deepEqual([String(kept.read(0, 4)), String(lost.read(0, 4))], ["kept", "AAAA"]);
  pool.setKeep(kept.address, false);
  assert.equal(pool.sleepSync(SleepMode.DROP).savedBytes, 0);
  pool.wakeSync();
  pool.prepareBackup(0);
  assert.equal(pool.stats().backupBytes, 0);
});

test("blocks wake ahead of their pool", async () => {
  const pool = new Pool("sim");
  const blocks = ["first", "second", "third"].map((text) => {
    const block = pool.allocate(4 * MIB);
    block.write(Buffer.from(text));
    return block;
  });
  await pool.sleep();
  const woken = await pool.wakeBlock(blocks[1].address);
  assert.deepEqual([woken.pools, woken.savedBytes], [0, 4 * MIB]);
  assert.equal(pool.wakeBlockSync(blocks[2].address, 1000).savedBytes, 4 * MIB);
  assert.equal(String(blocks[1].read(0, 6)), "second");
  assert.equal(pool.sleepState, SleepState.ASLEEP);
  await assert.rejects(pool.sleep(), gpupool.UnavailableError);
  assert.throws(() => pool.wakeBlockSync(4096), gpupool.UnknownPointerError);
  assert.equal((await pool.wake()).savedBytes, 4 * MIB);
  assert.deepEqual(blocks.map((block) => String(block.read(0, 5))), ["first", "secon", "third"]);
});

test("one block sleeps alone", async () => {
  const pool = new Pool({ device: "sim", maxChunkBytes: 2 * MIB });
  const block = pool.allocate(4 * MIB);
  assert.equal((await pool.sleepBlock(block.address)).releasedBytes, 4 * MIB);
  assert.equal(pool.sleepState, SleepState.AWAKE);
  assert.equal(pool.sleepBlockSync(block.address, "drop").releasedBytes, 0);
  assert.equal(pool.wakeBlockSync(block.address).createdBytes, 4 * MIB);
  assert.throws(() => pool.sleepBlockSync(4096), gpupool.UnknownPointerError);
});

test("sleep refuses what it does not know", async () => {
  const pool = new Pool("sim");
  await assert.rejects(pool.sleep("deep"), {
    name: "TypeError", message: 'mode is "deep": one of "save", "drop" is wanted',
  });
  assert.throws(() => pool.sleepSync(9), gpupool.InvalidArgumentError);
  assert.throws(() => pool.sleepSync("save", 1 << 20), gpupool.InvalidArgumentError);
  assert.throws(() => pool.wakeSync(-1), { message: "timeout is -1: it must not be negative" });
  assert.throws(() => pool.wakeSync(0, SleepFlag.FILL, 256), gpupool.InvalidArgumentError);
  assert.throws(() => pool.setKeep(pool.malloc(10), 1), { message: "keep is 1: true or false is wanted" });
  assert.equal(pool.sleepState, SleepState.AWAKE);
});

test("pools sleep by their names", async () => {
  const pools = ["weights", "weights", "cache"].map((name) => {
    const pool = new Pool("sim");
    pool.name = name;
    return pool;
  });
  assert.equal(pools[0].name, "weights");
  assert.throws(() => (pools[0].name = "x".repeat(64)), gpupool.InvalidArgumentError);
  const states = () => pools.map((pool) => pool.sleepState);
  assert.equal((await gpupool.sleepTag("weights", "drop")).pools, 2);
  assert.deepEqual(states(), [SleepState.ASLEEP, SleepState.ASLEEP, SleepState.AWAKE]);
  assert.equal((await gpupool.wakeTag("weights")).pools, 2);
  assert.equal(gpupool.sleepTagSync("cache").pools, 1);
  assert.deepEqual(states(), [SleepState.AWAKE, SleepState.AWAKE, SleepState.ASLEEP]);
  assert.equal(gpupool.wakeTagSync("cache").pools, 1);
  await assert.rejects(gpupool.sleepTag(5), { name: "TypeError", message: "tag is 5: a string is wanted" });
});

test("memory that others hold", async () => {
  gpupool.sim.configure(5, { capacityBytes: 64 * MIB, hostBytes: 256 * MIB });
  const pool = new Pool("sim:5");
  const block = pool.allocate(62 * MIB);
  gpupool.sim.hold(5, block.address);
  // What is mapped at the address is one chunk of the block, and enough for the rest not to fit.
  assert.ok((await pool.sleep()).retainedBytes > 2 * MIB);
  await assert.rejects(pool.wake(), gpupool.OutOfMemoryError);
  assert.equal(pool.sleepState, SleepState.ASLEEP);
  gpupool.sim.hold(5, 0);
  await pool.wake();
  block.free();
});

test("a child keeps what it mapped", () => {
  const pool = new Pool("sim", "64MiB");
  const child = pool.createChild();
  const address = child.malloc(12 * MIB);
  assert.ok(child.stats().all.reservedBytes.current >= 12 * MIB);
  assert.throws(() => child.createChild(), gpupool.InvalidArgumentError);
  assert.throws(() => pool.malloc(60 * MIB), gpupool.OverLimitError);
  child.free(address);
  child.close();
  pool.malloc(60 * MIB);
});
