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

test("what was saved can be read while it sleeps", async () => {
  const pool = new Pool({ device: "sim", maxChunkBytes: 2 * MIB });
  const [kept, lost] = [pool.allocate(4 * MIB), pool.allocate(4 * MIB)];
  const bytes = Buffer.alloc(4 * MIB, "0123456789abcde");
  const { address } = kept;
  kept.write(bytes);
  assert.throws(() => pool.readBackupSync(address), gpupool.UnavailableError);
  await assert.rejects(pool.readBackup(address), gpupool.UnavailableError);
  pool.setKeep(address, true);
  assert.throws(() => pool.setKeep(address + 512, true), gpupool.UnknownPointerError);
  assert.throws(() => pool.prepareBackup(-1), { message: "bytes is -1: it must not be negative" });
  assert.throws(() => pool.prepareBackup(2n ** 60n), { name: "HostOutOfMemoryError" });
  pool.sleepSync("drop");
  assert.deepEqual(pool.readBackupSync(address), bytes);
  const copy = await pool.readBackup(BigInt(address) + 100n, 10);
  assert.deepEqual(copy, bytes.subarray(100, 110));
  assert.equal(pool.readBackupSync(address, 0).length, 0);
  assert.throws(() => pool.readBackupSync(address + 1, 4 * MIB), gpupool.InvalidArgumentError);
  await assert.rejects(pool.readBackup(address, 2 ** 52), gpupool.InvalidArgumentError);
  assert.throws(() => pool.readBackupSync(address, -1), { message: "length is -1: it must not be negative" });
  assert.throws(() => pool.readBackupSync("here"), { name: "TypeError" });
  assert.throws(() => pool.readBackupSync(lost.address), gpupool.UnavailableError);
  assert.throws(() => pool.readBackupSync(4096), gpupool.UnknownPointerError);
  pool.wakeSync();
  assert.deepEqual(copy, bytes.subarray(100, 110));  // it is a copy
  assert.throws(() => pool.readBackupSync(address), gpupool.UnavailableError);
  pool.close();
  await assert.rejects(pool.readBackup(address), { message: "the pool is closed" });
});

test("a pool that may sleeps when another one is short", () => {
  gpupool.sim.configure(6, { capacityBytes: 64 * MIB });
  const [idle, busy] = [new Pool("sim:6"), new Pool("sim:6")];
  const block = idle.allocate(40 * MIB);
  block.write(Buffer.from("kept"));
  assert.throws(() => busy.malloc(40 * MIB), gpupool.OutOfMemoryError);
  assert.throws(() => idle.allowSleep("deep"), { name: "TypeError" });
  assert.throws(() => idle.allowSleep("save", 1 << 30), gpupool.InvalidArgumentError);
  assert.throws(() => busy.malloc(40 * MIB), gpupool.OutOfMemoryError);
  idle.allowSleep();
  idle.setSleepHooks(() => {
    throw new Error("from the hook");
  });
  assert.throws(() => busy.malloc(40 * MIB), { message: "from the hook" });
  assert.equal(idle.sleepState, SleepState.AWAKE);
  idle.setSleepHooks();
  const taken = busy.malloc(40 * MIB);
  assert.equal(idle.sleepState, SleepState.ASLEEP);
  busy.free(taken);
  idle.wakeSync();
  assert.equal(String(block.read(0, 4)), "kept");
  assert.equal(busy.stats().all.allocatedBytes.current, 0);
  block.free();
  idle.close();
  busy.close();
});

test("a hook that throws, though there is memory elsewhere, leaves no block behind", () => {
  gpupool.sim.configure(6, { capacityBytes: 64 * MIB });
  const [stubborn, idle, busy] = [1, 2, 3].map(() => new Pool("sim:6"));
  const blocks = [stubborn, idle].map((pool) => pool.allocate(20 * MIB));
  stubborn.setSleepHooks(() => {
    throw new Error("from the hook");
  });
  stubborn.allowSleep();
  idle.allowSleep();
  assert.throws(() => busy.malloc(30 * MIB), { message: "from the hook" });
  idle.wakeSync();
  idle.allowSleep();
  assert.throws(() => busy.allocate(30 * MIB), { message: "from the hook" });
  assert.equal(idle.sleepState, SleepState.ASLEEP);
  assert.equal(busy.stats().all.allocatedBytes.current, 0);
  for (const block of blocks) block.free();
  for (const pool of [stubborn, idle, busy]) pool.close();
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

test("a target takes the idlest blocks", async () => {
  const pool = new Pool({ device: "sim", maxChunkBytes: 2 * MIB });
  const blocks = [1, 2, 3].map((value) => {
    const block = pool.allocate(4 * MIB);
    block.write(Buffer.from([value]));
    return block;
  });
  pool.name = "some";
  const slept = await pool.sleep("save", 0, 5 * MIB);
  assert.deepEqual([slept.pools, slept.releasedBytes, slept.savedBytes], [0, 8 * MIB, 8 * MIB]);
  assert.equal(pool.sleepState, SleepState.AWAKE);
  const { ASLEEP, LIVE } = gpupool.BlockState;
  assert.deepEqual(blocks.map((block) => pool.blockInfo(block.address).state), [ASLEEP, ASLEEP, LIVE]);
  assert.equal(gpupool.sleepTagSync("some", "drop", 0, 2 ** 40).droppedBytes, 4 * MIB);
  assert.equal((await gpupool.sleepTag("some", "save", 0, 1n)).releasedBytes, 0);
  assert.equal(pool.wakeSync().savedBytes, 8 * MIB);
  assert.deepEqual([...blocks[0].read(0, 1), ...blocks[1].read(0, 1)], [1, 2]);
  assert.throws(() => pool.sleepSync("save", 0, -1), { message: "target is -1: it must not be negative" });
  await assert.rejects(pool.sleep("save", 0, "much"), { name: "TypeError" });
});

/** A pool with one block, and what its hooks were called with. */
function hooked(answers = {}) {
  const pool = new Pool({ device: "sim", maxChunkBytes: 2 * MIB });
  const block = pool.malloc(4 * MIB);
  const calls = [];
  const hook = (name) => (address) => {
    calls.push(`${name} ${address === block ? "block" : address}`);
    pool.free(pool.malloc(MIB));
    if (answers[name] instanceof Error) throw answers[name];
    return answers[name] ?? true;
  };
  pool.setSleepHooks(hook("before"), hook("after"));
  return { pool, block, calls };
}

test("hooks are called around a sleep", async () => {
  const { pool, block, calls } = hooked();
  pool.sleepSync();
  pool.wakeSync();
  await pool.sleep();
  await pool.wake();
  assert.deepEqual(calls.splice(0), ["before 0", "after 0", "before 0", "after 0"]);
  await pool.sleepBlock(block);
  pool.wakeBlockSync(block);
  assert.deepEqual(calls.splice(0), ["before block", "after block"]);
  pool.setSleepHooks(null, (address) => calls.push(`another ${address}`) > 0);
  await pool.sleep();
  await pool.wake();
  assert.deepEqual(calls.splice(0), ["another 0"]);
  pool.setSleepHooks();
  await pool.sleep();
  await pool.wake();
  assert.deepEqual(calls, []);
  assert.throws(() => pool.setSleepHooks(5), { message: "beforeRelease is 5: a function or null is wanted" });
});

test("a hook refuses, and the sleep has no effect", async () => {
  const answers = { before: false };
  const { pool, calls } = hooked(answers);
  assert.throws(() => pool.sleepSync(), gpupool.UnavailableError);
  await assert.rejects(pool.sleep(), gpupool.UnavailableError);
  assert.equal((await pool.sleep("save", 0, 8 * MIB)).savedBytes, 0);
  assert.equal(pool.sleepState, SleepState.AWAKE);
  assert.deepEqual(calls.splice(0), ["before 0", "before 0", "before block"]);
  Object.assign(answers, { before: true, after: false });
  await pool.sleep();
  await assert.rejects(pool.wake(), gpupool.UnavailableError);
  answers.after = true;
  await pool.wake();
  assert.deepEqual(calls, ["before 0", "after 0", "after 0"]);
});

test("what a hook throws is the call's", async () => {
  const answers = { before: new Error("from the hook") };
  const { pool } = hooked(answers);
  const thrown = { message: "from the hook" };
  assert.throws(() => pool.sleepSync(), thrown);
  await assert.rejects(pool.sleep(), thrown);
  // Even if the call succeeds without the block.
  assert.throws(() => pool.sleepSync("save", 0, 8 * MIB), thrown);
  await assert.rejects(pool.sleep("save", 0, 8 * MIB), thrown);
  assert.equal(pool.sleepState, SleepState.AWAKE);
  Object.assign(answers, { before: true, after: new Error("from the hook") });
  await pool.sleep();
  await assert.rejects(pool.wake(), thrown);
  answers.after = true;
  pool.wakeSync();
});

test("nobody waits for a thread that waits for a sleep", async () => {
  const { pool, calls } = hooked();
  const other = new Pool("sim");
  // The hook cannot run while this thread waits for the sleep that asks it.
  const sleeping = pool.sleep();
  pool.wakeSync();
  const outcome = await sleeping.then(() => "asleep", (error) => error.name);
  assert.ok(["asleep", "UnavailableError"].includes(outcome), outcome);
  await pool.wake();
  calls.splice(0);
  // Nor may a hook of a sleep elsewhere wait for one.
  let refusal;
  pool.setSleepHooks(() => {
    try {
      other.sleepSync();
    } catch (error) {
      refusal = error;
    }
    return true;
  });
  await pool.sleep();
  assert.equal(refusal?.name, "UnavailableError");
  await pool.wake();
  // On its own thread it may use another pool.
  refusal = undefined;
  pool.sleepSync();
  assert.equal(refusal, undefined);
  assert.equal(other.sleepState, SleepState.ASLEEP);
  pool.wakeSync();
});

test("a pool is closed with its hooks, and inside one", async () => {
  const { pool } = hooked();
  pool.close();
  const closing = new Pool("sim");
  closing.setSleepHooks(() => closing.close() === undefined);
  await closing.sleep();
  assert.throws(() => closing.setSleepHooks(), { message: "the pool is closed" });
});

test("hooks of a thread that has ended refuse", async () => {
  const { Worker } = require("node:worker_threads");
  const code = `
    const gpupool = require(${JSON.stringify(require.resolve(".."))});
    gpupool.setLog(gpupool.LogLevel.WARNING, () => {});
    gpupool.Pool.shared(0).setSleepHooks(() => true, () => true);`;
  await new Promise((resolve) => new Worker(code, { eval: true }).on("exit", resolve));
  const pool = Pool.shared(0);
  await assert.rejects(pool.sleep(), gpupool.UnavailableError);
  pool.setSleepHooks();
  await pool.sleep();
  await pool.wake();
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
  assert.equal(gpupool.wakeTagSync("nobody's").pools, 0);
  assert.throws(() => gpupool.wakeTagSync("cache", -1), { message: "timeout is -1: it must not be negative" });
  assert.throws(() => gpupool.wakeTagSync("cache", 0, 1 << 30), gpupool.InvalidArgumentError);
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
