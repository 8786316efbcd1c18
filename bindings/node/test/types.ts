// SPDX-License-Identifier: Apache-2.0
// What strict TypeScript must take, and what it must refuse.
import {
  Backend, Block, OverLimitError, Pool, Slice, STREAM_UNKNOWN, type Stats, setLog, shareInfo, shareSet, sim, tag,
} from "gpupool";

export async function use(): Promise<number> {
  using pool = new Pool({ device: "cuda:1", limit: "40%", mode: "vmm", peers: [2] });
  using stream = pool.createStream();
  const block: Block = pool.allocate(1000n, stream);
  await block.writeAsync(new Float64Array(2), 8);
  const floats: Float32Array = block.readInto(new Float32Array(4));
  const part: Slice = block.slice(4);
  await part.copyFrom(block.slice(0, 4));
  pool.setOomHandler((size, attempt) => size > attempt);
  // @ts-expect-error: nobody can wait for it
  pool.setOomHandler(async () => true);
  // @ts-expect-error: neither here
  pool.setSleepHooks(async () => true);
  pool.setSleepHooks((address) => address === 0, null);
  setLog(3, (level, message) => console.log(level, message.length));
  pool.free(pool.malloc(10), STREAM_UNKNOWN);
  const woken: number = (await pool.sleep("drop")).pools + pool.wakeSync(10n).pools;
  const tagged: Block = tag("kv cache", () => pool.allocate(10));
  const later: Promise<Block> = tag("kv cache", async () => pool.allocate(10));
  {
    using scope = tag("weights");
    tagged.read(10n);
  }
  (await later).free();
  shareSet("member_limit", 2n ** 33n, shareInfo("team", "sim").members[0]?.slot);
  // @ts-expect-error: there is no such mode
  await pool.sleep("deep");
  const stats: Stats = pool.stats();
  // @ts-expect-error: there is no such mode
  new Pool({ mode: "fast" });
  // @ts-expect-error: text is no bytes
  block.write("text");
  // @ts-expect-error: only a pool makes streams
  pool.malloc(10, {});
  // @ts-expect-error: figures are read
  stats.hits = 0;
  try {
    pool.malloc(2 ** 50);
  } catch (error) {
    if (error instanceof OverLimitError) return error.driverCode + sim.faults(0) + Backend.SIM;
  }
  return floats.length + woken;
}
