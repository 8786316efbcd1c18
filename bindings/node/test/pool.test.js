// SPDX-License-Identifier: Apache-2.0
// Tests of the Node binding on the simulated device. Run with --expose-gc.
"use strict";

const assert = require("node:assert/strict");
const { test } = require("node:test");
const { setTimeout: sleep } = require("node:timers/promises");
const { Worker } = require("node:worker_threads");
const gpupool = require("..");

const { Pool, Block } = gpupool;
const MIB = 2 ** 20;
const live = (pool) => pool.stats().all.allocatedBlocks.current;

test("the library", () => {
  assert.ok(gpupool.version() >= 200);
  assert.equal(gpupool.deviceCount(gpupool.Backend.SIM), 8);
  assert.equal(gpupool.deviceInfo(gpupool.Backend.SIM, 1).totalBytes, 150754820096);
  assert.equal(gpupool.statusName(gpupool.Status.OVER_LIMIT), "GPUPOOL_ERROR_OVER_LIMIT");
  assert.ok(gpupool.features() & gpupool.Feature.SIM);
  assert.equal(gpupool.parseSize("1.5 GiB"), 1610612736);
  assert.deepEqual(gpupool.parseDevice("sim:3"), { backend: gpupool.Backend.SIM, device: 3 });
  assert.throws(() => gpupool.deviceInfo(gpupool.Backend.SIM, 8), gpupool.InvalidArgumentError);
  assert.throws(() => gpupool.parseSize(8), { name: "TypeError", message: "text is 8: a string is wanted" });
});

test("every status has a class", () => {
  for (const [name, status] of Object.entries(gpupool.Status)) {
    if (name === "SUCCESS") continue;
    const camel = name.toLowerCase().replace(/(^|_)(.)/g, (_, __, letter) => letter.toUpperCase());
    const error = new gpupool[`${camel}Error`]("words", status, 7);
    assert.ok(error instanceof gpupool.GpuPoolError);
    assert.deepEqual([error.name, error.message, error.driverCode], [`${camel}Error`, "words", 7]);
  }
  assert.ok(new gpupool.OverLimitError() instanceof gpupool.OutOfMemoryError);
});

test("addresses", () => {
  const pool = new Pool();
  const address = pool.malloc(1000);
  const info = pool.blockInfo(address + 999);
  assert.deepEqual([info.address, info.requestedBytes, info.state], [address, 1000, gpupool.BlockState.LIVE]);
  pool.free(BigInt(address));
  assert.equal(pool.malloc(0), 0);
  pool.free(0);
  const aligned = pool.mallocAligned(512, 2 * MIB);
  assert.equal(aligned % (2 * MIB), 0);
  pool.fill(aligned, 1, 512);
  pool.copy(aligned, aligned + 256, 256);
  pool.recordStream(aligned, 0);
  pool.free(aligned, gpupool.STREAM_UNKNOWN);
  assert.equal(live(pool), 0);
  const failure = { name: "UnknownPointerError", status: gpupool.Status.UNKNOWN_POINTER, driverCode: 0 };
  assert.throws(() => pool.free(aligned), failure);
  assert.throws(() => pool.malloc(-1), { message: "size is -1: it must not be negative" });
  for (const size of [2 ** 46, 2 ** 53 - 1, 2n ** 62n]) {
    assert.throws(() => pool.malloc(size), gpupool.OutOfMemoryError);
  }
  for (const [size, found] of [[1.5, "1.5"], ["1", "1"], [null, "null"], [{}, "an object"], [NaN, "NaN"],
    [2n ** 64n, "18446744073709551616"], [Symbol("s"), "a Symbol"]]) {
    assert.throws(() => pool.malloc(size), (error) => error instanceof TypeError && error.message.includes(found));
  }
  assert.equal(live(pool), 0);
  pool.close();
});

test("blocks and bytes", () => {
  const pool = new Pool("sim", "64MiB");
  const block = pool.allocate(100);
  block.fill(1);
  block.write(new Float32Array([1.5, 2.5]), 4);
  block.write(new DataView(new Uint8Array([7, 8]).buffer), 12);
  block.write(new Uint8Array([9]).buffer, 14);
  assert.deepEqual([...block.readInto(new Float32Array(2), 4)], [1.5, 2.5]);
  assert.deepEqual([...block.read(11, 5)], [64, 7, 8, 9, 1]);
  assert.equal(block.read().length, 100);
  assert.equal(block.read(99).length, 1);
  for (const call of [() => block.read(99, 2), () => block.write(Buffer.alloc(101)), () => block.fill(300)]) {
    assert.throws(call, gpupool.InvalidArgumentError);
  }
  assert.throws(() => block.write("text"),
    { message: "data is text: a Buffer, a typed array or an ArrayBuffer is wanted" });
  block.free();
  assert.ok(block.freed);
  block.close();
  for (const call of [() => block.free(), () => block.address, () => block.read(), () => block.slice(0, 1)]) {
    assert.throws(call, gpupool.UnknownPointerError);
  }
  const given = pool.allocate(10);
  pool.free(given.release());
  assert.equal(live(pool), 0);
  assert.throws(() => new Block({}).address, TypeError);
  assert.throws(() => Pool.prototype.stats.call({}), { message: "this is no object of gpupool" });
});

test("slices keep their block", () => {
  const pool = new Pool();
  const block = pool.allocate(100);
  block.fill(0);
  const middle = block.slice(10, 20);
  const inner = middle.slice(5);
  assert.deepEqual([middle.address, middle.size, inner.offset, inner.size], [block.address + 10, 20, 15, 15]);
  inner.write(Buffer.from("ab"));
  assert.equal(String(block.read(15, 2)), "ab");
  assert.throws(() => middle.slice(15, 6), { message: "6 bytes at offset 15 are not inside a block of 20 bytes" });
  block.free();
  middle.close();
  assert.ok(middle.closed);
  assert.throws(() => middle.read(), { message: "the slice is closed" });
  assert.deepEqual([live(pool), String(inner.read(0, 2))], [1, "ab"]);
  inner[Symbol.dispose ?? Symbol.for("Symbol.dispose")]();
  assert.equal(live(pool), 0);
});

test("asynchronous copies keep what they need", async () => {
  const pool = new Pool();
  const stream = pool.createStream();
  const block = pool.allocate(1000, stream);
  const bytes = Buffer.from("bytes");
  const sent = block.writeAsync(bytes, 500);
  bytes.fill(0);
  const got = block.readAsync(501, 3);
  block.free();
  assert.equal(String(await got), "yte");
  await sent;
  assert.equal(live(pool), 0);
  const [one, other] = [pool.allocate(8, stream), new Pool({ kind: "pinned" }).allocate(8)];
  one.fill(3);
  await stream.synchronize();
  other.fill(0);
  await other.copyFrom(one.slice(0, 2), 4);
  assert.deepEqual([...other.read()], [0, 0, 0, 0, 3, 3, 0, 0]);
  await assert.rejects(other.copyFrom(one, 1), gpupool.InvalidArgumentError);
  await assert.rejects(other.copyFrom({}), TypeError);
  await assert.rejects(one.readAsync(9, 1), gpupool.InvalidArgumentError);
  pool.close();
  await assert.rejects(pool.synchronize(), { message: "the pool is closed" });
  // On a live block of a closed pool.
  assert.equal((await one.readAsync(0, 2)).length, 2);
});

test("streams", async () => {
  const pool = new Pool();
  const stream = pool.createStream();
  const address = pool.malloc(100, stream);
  assert.equal(pool.blockInfo(address).stream, stream.id);
  pool.free(address, stream.id);
  pool.parkStream(stream);
  pool.releaseStream(stream);
  pool.synchronizeStreamSync(stream);
  pool.synchronizeSync();
  await pool.synchronize();
  assert.equal(pool.captureId(stream), 0);
  for (const wrong of [{}, null, "1", pool]) {
    assert.throws(() => pool.malloc(1, wrong), { name: "TypeError" });
  }
  stream.close();
  assert.ok(stream.closed);
  assert.throws(() => stream.id, { message: "the stream is closed" });
  assert.throws(() => pool.malloc(1, stream), { message: "the stream is closed" });
  const closedWithPool = pool.createStream();
  pool.close();
  assert.ok(closedWithPool.closed);
  assert.throws(() => pool.stats(), { message: "the pool is closed" });
  assert.equal(String(pool), "pool: closed");
});

test("a handler or a hook that returns a promise is refused", async () => {
  const pool = new Pool({ limit: "64MiB" });
  let asked = 0;
  // A program in which this fails asks again and again.
  pool.setOomHandler(async () => ++asked < 100);
  const refused = (what) => ({ name: "TypeError", message: new RegExp(`^the ${what} returned a promise`) });
  assert.throws(() => pool.malloc(65 * MIB), refused("out-of-memory handler"));
  assert.throws(() => pool.allocate(65 * MIB), refused("out-of-memory handler"));
  assert.equal(asked, 2);
  pool.setSleepHooks(async () => true);
  assert.throws(() => pool.sleepSync(), refused("hook beforeRelease"));
  await assert.rejects(pool.sleep(), refused("hook beforeRelease"));
  pool.setSleepHooks(null, async () => true);
  pool.sleepSync();
  assert.throws(() => pool.wakeSync(), refused("hook afterMap"));
  pool.setOomHandler(null);
  pool.close();
});

test("a thread whose handler always says yes can be ended", async () => {
  const worker = new Worker(`
    const { Pool } = require(${JSON.stringify(require.resolve(".."))});
    const { parentPort } = require("node:worker_threads");
    const pool = new Pool("sim", "64MiB");
    pool.setOomHandler((size, attempt) => {
      if (attempt === 1) parentPort.postMessage("asked");
      return true;
    });
    pool.malloc(2 ** 40);`, { eval: true });
  assert.equal(await new Promise((got) => worker.once("message", got)), "asked");
  assert.equal(await worker.terminate(), 1);
});

test("limits and handlers", () => {
  const pool = new Pool({ limit: "64MiB" });
  const asked = [];
  pool.setOomHandler((size, attempt) => {
    asked.push([size, attempt]);
    return attempt < 2;
  });
  assert.throws(() => pool.malloc(65 * MIB), gpupool.OverLimitError);
  assert.deepEqual(asked, [[65 * MIB, 1], [65 * MIB, 2]]);
  for (const thrown of [new RangeError("mine"), "a string"]) {
    pool.setOomHandler(() => {
      throw thrown;
    });
    assert.throws(() => pool.malloc(65 * MIB), (error) => error === thrown);
  }
  const room = pool.allocate(60 * MIB);
  pool.setOomHandler(() => room.close() === undefined);
  pool.allocate(60 * MIB).close();
  pool.setOomHandler(null);
  assert.throws(() => pool.setOomHandler(5), { message: "handler is 5: a function or null is wanted" });
  pool.setLimit("32MiB");
  assert.equal(pool.stats().limitBytes, 32 * MIB);
  pool.setLimit(64 * MIB);
  pool.reserve(32 * MIB);
  assert.ok(pool.trim(8 * MIB) > 0);
  pool.empty();
  pool.setFraction(0.5);
  assert.match(pool.report(), /Device 0/);
  pool.resetPeaks();
  pool.validate();
});

test("snapshots", () => {
  const pool = new Pool();
  const block = pool.allocate(1000);
  const { segments, blocks } = pool.snapshot();
  assert.equal(blocks.filter((each) => each.state === gpupool.BlockState.LIVE)[0].address, block.address);
  assert.ok(segments[0].sizeBytes >= 2 * MIB);
});

test("options", () => {
  assert.throws(() => new Pool({ limits: 1 }), { message: "unknown option limits" });
  assert.throws(() => new Pool({ mode: "fast" }),
    { message: 'mode is "fast": one of "auto", "vmm", "driver", "upstream" is wanted' });
  assert.throws(() => new Pool({ fraction: "1" }), { message: "fraction is 1: a number is wanted" });
  assert.throws(() => new Pool("sim:99"), gpupool.GpuPoolError);
  for (const other of [5, true, null, [], [1], new Map()]) {
    assert.throws(() => new Pool(other), { name: "TypeError", message: /^options is .*: an object, or a device/ });
  }
  assert.throws(() => new Pool({ device: 1 }, "8GiB"),
    { message: "limit stands beside an object of options, which has its own" });
  assert.equal(new Pool(undefined, "8GiB").stats().limitBytes, 2 ** 33);
  const pool = new Pool({ device: "sim:1", limit: "40%", mode: "driver", peers: [2], captureAware: true, slack: 0.1 });
  assert.match(String(pool), /^pool on sim:1: 0 bytes of /);
  const address = Pool.shared().malloc(10);
  Pool.shared().free(address);
});

test("the simulated device", () => {
  gpupool.sim.configure(6, { capacityBytes: 2 ** 30 });
  const pool = new Pool("sim:6");
  gpupool.sim.script(6, "create:1=out_of_memory");
  gpupool.sim.script(6, "");
  const [one, two] = [pool.createStream(), pool.createStream()];
  const block = pool.allocate(1000, one);
  gpupool.sim.work(6, one, block.address, 1000, 1e6);
  assert.throws(() => pool.fill(block.address, 1, 1000, two), gpupool.DriverError);
  assert.equal(gpupool.sim.faults(6), 1);
  assert.match(gpupool.sim.lastFault(6), /^race/);
  gpupool.sim.advance(6, 1e9);
  const aware = new Pool({ device: "sim:6", captureAware: true });
  const stream = aware.createStream();
  gpupool.sim.capture(6, stream, true);
  const capture = aware.captureId(stream);
  assert.ok(capture > 0);
  gpupool.sim.capture(6, stream, false);
  gpupool.sim.launch(6, capture, stream);
  aware.releaseCapture(capture);
  aware.announceCapture(true);
  aware.announceCapture(false);
  assert.throws(() => aware.announceCapture(false), gpupool.InvalidArgumentError);
  assert.throws(() => gpupool.sim.configure(6, { capacity: 1 }), { message: "unknown option capacity" });
});

test("the log", async () => {
  const lines = [];
  gpupool.setLog(gpupool.LogLevel.INFO, (level, message) => lines.push(`${level} ${message}`));
  const pool = new Pool("sim", "64MiB");
  assert.throws(() => pool.malloc(65 * MIB));
  const said = (words) => lines.some((line) => words.test(line));
  const failed = /^2 GPUPOOL_ERROR_OVER_LIMIT: malloc of 68157440 bytes/;
  for (let i = 0; i < 500 && !said(failed); ++i) await sleep(10);
  assert.ok(said(failed) && said(/^3 pool /), lines.join("\n"));
  gpupool.setLog(gpupool.LogLevel.OFF);
});

test("what is forgotten is freed", async () => {
  const pool = new Pool();
  (() => {
    for (let i = 0; i < 100; ++i) pool.allocate(1000).slice(0, 1);
    new Pool().createStream();
    pool.allocate(10).readAsync();
  })();
  for (let i = 0; i < 10 && live(pool) > 0; ++i) {
    global.gc();
    await sleep(10);
  }
  assert.equal(live(pool), 0);
});

// As README.md says: a malloc cannot wait for the collector, but an asynchronous function can.
test("what is forgotten makes room after a turn of the event loop", async () => {
  const pool = new Pool("sim", "64MiB");
  (() => {
    for (let i = 0; i < 64; ++i) pool.allocate(MIB);
  })();
  await new Promise(setImmediate);
  assert.throws(() => pool.malloc(48 * MIB), gpupool.OverLimitError);
  global.gc();
  await new Promise(setImmediate);
  pool.free(pool.malloc(48 * MIB));
});

test("workers have pools of their own", async () => {
  const code = `
    const { parentPort, workerData } = require("node:worker_threads");
    const gpupool = require(workerData);
    const pool = new gpupool.Pool("sim", "64MiB");
    pool.setOomHandler(() => { throw new Error("of the worker"); });
    let said;
    try { pool.malloc(2 ** 30); } catch (error) { said = error.message; }
    gpupool.Pool.shared(0).setOomHandler(() => true);
    parentPort.postMessage(said);`;
  for (let i = 0; i < 3; ++i) {
    const worker = new Worker(code, { eval: true, workerData: require.resolve("..") });
    // A worker may end in the same turn in which its message comes.
    const exited = new Promise((resolve) => worker.once("exit", resolve));
    const said = await new Promise((resolve, reject) => worker.once("message", resolve).once("error", reject));
    assert.equal(said, "of the worker");
    await exited;
  }
  // The handler of a worker that has ended is asked no more.
  const shared = Pool.shared(0);
  assert.throws(() => shared.malloc(2 ** 50), gpupool.OutOfMemoryError);
});

process.on("exit", () => assert.equal(gpupool.sim.faults(0), 0));
