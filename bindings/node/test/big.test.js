// SPDX-License-Identifier: Apache-2.0
// Sizes of more than 32 bits. Memory that nobody touches takes none of the host's.
"use strict";

const assert = require("node:assert/strict");
const { constants } = require("node:buffer");
const { test } = require("node:test");
const gpupool = require("..");

const GIB = 2 ** 30;
const SIZE = 4 * GIB + 5;

test("sizes, offsets and parts beyond 4 GiB", async () => {
  const pool = new gpupool.Pool("sim");
  const block = pool.allocate(SIZE);
  assert.equal(block.size, SIZE);
  assert.equal(pool.blockInfo(block.address + SIZE - 1).requestedBytes, SIZE);
  assert.equal(pool.stats().all.requestedBytes.current, SIZE);
  for (const last of [SIZE - 3, BigInt(SIZE - 3)]) {
    assert.equal(block.read(last).length, 3);
    assert.equal((await block.readAsync(last)).length, 3);
    assert.equal(block.slice(last).size, 3);
    block.write(Buffer.from("end"), last);
    await block.writeAsync(Buffer.from("END"), last);
    assert.equal(String(block.readInto(Buffer.alloc(3), last)), "END");
  }
  const tail = block.slice(5, 4 * GIB);
  assert.deepEqual([tail.size, tail.slice(4 * GIB - 2).offset], [4 * GIB, 4 * GIB + 3]);
  assert.equal(String(tail.read(4 * GIB - 3)), "END");
  pool.fill(block.address + 4 * GIB, 7, 4);
  assert.deepEqual([...block.read(4 * GIB)], [7, 7, 7, 7, 68]);
  const other = pool.allocate(SIZE);
  await assert.rejects(other.copyFrom(block, 1),
    { message: "4294967301 bytes at offset 1 are not inside a block of 4294967301 bytes" });
  assert.throws(() => block.read(SIZE - 2, 3),
    { message: "3 bytes at offset 4294967299 are not inside a block of 4294967301 bytes" });
  pool.close();
});

test("more than a Buffer holds is refused in words", async () => {
  const pool = new gpupool.Pool("sim");
  const size = constants.MAX_LENGTH + 5;
  // From Node 22 on a Buffer holds more than any device has.
  if (size > pool.stats().totalBytes) return;
  const block = pool.allocate(size);
  const refused = (length) => ({
    name: "InvalidArgumentError",
    message: `${length} bytes are more than a Buffer holds, ${constants.MAX_LENGTH}: ` +
      "read them in parts, by offset and length",
  });
  assert.throws(() => block.read(), refused(size));
  assert.throws(() => block.slice(1).read(), refused(size - 1));
  await assert.rejects(block.readAsync(2), refused(size - 2));
  await assert.rejects(block.slice(3).readAsync(), refused(size - 3));
  // The size comes first, asleep or not.
  assert.throws(() => pool.readBackupSync(block.address), refused(size));
  await assert.rejects(pool.readBackup(block.address), refused(size));
  pool.close();
});
