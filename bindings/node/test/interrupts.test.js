// SPDX-License-Identifier: Apache-2.0
// Tests of waits: the main thread is not held, since what ends the wait may have to come from there.
"use strict";

const assert = require("node:assert/strict");
const { test } = require("node:test");
const { Worker } = require("node:worker_threads");
const gpupool = require("..");

const { Pool, SleepFlag, SleepMode, SleepState } = gpupool;
const MIB = 2 ** 20;

test("the main thread does not wait for a wake", async () => {
  const pool = new Pool("sim");
  const block = pool.allocate(4 * MIB);
  await pool.sleep(SleepMode.SAVE, SleepFlag.HOLD_MALLOCS);
  const refused = { name: "AsleepError", status: gpupool.Status.ASLEEP, message: /main thread does not wait/ };
  assert.throws(() => pool.malloc(MIB), refused);
  assert.throws(() => pool.allocate(MIB), refused);
  assert.throws(() => pool.reserve(64 * MIB), refused);
  assert.equal(pool.sleepState, SleepState.ASLEEP);
  // The next failure is its own.
  assert.throws(() => pool.free(77), { name: "UnknownPointerError" });
  // A timer may wake it, as it could not if the thread waited.
  await new Promise((done) => setTimeout(() => done(pool.wake()), 10));
  pool.allocate(MIB).close();
  block.close();
  pool.close();
});

test("a worker waits until the main thread wakes the pool", async () => {
  const pool = Pool.shared(4);
  const block = pool.allocate(4 * MIB);
  await pool.sleep(SleepMode.SAVE, SleepFlag.HOLD_MALLOCS);
  const code = `
    const { parentPort, workerData } = require("node:worker_threads");
    const { Pool } = require(workerData);
    const pool = Pool.shared(4);
    parentPort.postMessage("waits");
    const address = pool.malloc(${MIB});
    pool.free(address);
    parentPort.postMessage(String(pool.sleepState));`;
  const worker = new Worker(code, { eval: true, workerData: require.resolve("..") });
  const messages = [];
  const ended = new Promise((done, failed) => worker.on("exit", done).on("error", failed));
  worker.on("message", (message) => messages.push(message));
  while (messages.length === 0) await new Promise((done) => setTimeout(done, 10));
  await new Promise((done) => setTimeout(done, 300));
  assert.deepEqual(messages, ["waits"]);
  await pool.wake();
  await ended;
  assert.deepEqual(messages, ["waits", String(SleepState.AWAKE)]);
  block.close();
  pool.close();
});
