#!/usr/bin/env node
// SPDX-License-Identifier: Apache-2.0
// Runs tests/scenario files: run_scenarios.js FILE... Every language's runner prints the same.
"use strict";

const { readFileSync } = require("node:fs");
const gpupool = require("..");

const SIM_DEVICE = 7;
const ADDRESSES_ONLY = 2;
const OPTIONS = ["fraction", "limit_bytes", "slack", "max_chunk_bytes", "mode", "kind"];
const product = (...lists) =>
  lists.reduce((all, list) => all.flatMap((head) => list.map((each) => [...head, each])), [[]]);
const words = (text) => text.split(/\s+/);
const PATHS = [
  ...product(
    ["all", "large", "small"],
    words("requested_bytes allocated_bytes active_bytes reserved_bytes allocated_blocks active_blocks chunks"),
    words("current peak total_allocated total_freed"),
  ),
  ...words("create release map set_access unmap address malloc free event_record query stream_wait host_wait").map(
    (call) => ["driver", call, "count"],
  ),
  ...words(`limit_bytes cached_bytes releasable_bytes slack_bytes hits misses steals stream_steals retries
    oom_handler_calls failed_mallocs streams`).map((field) => [field]),
].map((parts) => parts.join(".")).sort();

const EXPECTATIONS = words("status message_contains stats same_address other_address address_zero");

const camel = (name) => name.replace(/_(.)/g, (_, letter) => letter.toUpperCase());
const camelKeys = (object) => Object.fromEntries(Object.entries(object).map(([key, value]) => [camel(key), value]));

/** JSON whose integers may be larger than numbers are exact. */
function parse(text) {
  const quoted = text.replace(/(?<=[:[,]\s*)\d{16,}(?=\s*[,}\]])/g, '"$&n"');
  return JSON.parse(quoted, (_, value) => (/^\d+n$/.test(value) ? BigInt(value.slice(0, -1)) : value));
}
const written = (step) => JSON.stringify(step, (_, value) => (typeof value === "bigint" ? String(value) : value));

/** A step that did not come out as expected. */
class Unexpected extends Error {
  constructor(what, expected, found) {
    super(`${what}: expected ${expected}, found ${found}`);
  }
}

class Scenario {
  pools = {};
  streams = {};
  blocks = {}; // [address, stream] by name
  saved = {};

  constructor(scenario) {
    this.scenario = scenario;
    this.sim = scenario.sim;
    if (this.sim) gpupool.sim.configure(SIM_DEVICE, { data: ADDRESSES_ONLY, ...camelKeys(this.sim) });
  }

  /** Tells each step's number, from 1, and the step, before it is done. */
  run(tell) {
    this.scenario.steps.forEach((step, index) => {
      tell(index + 1, step);
      this.doStep(step);
    });
    const pools = {};
    for (const name of Object.keys(this.pools).sort()) {
      pools[name] = Object.fromEntries(PATHS.map((path) => [path, this.statistic(this.pools[name], path)]));
    }
    console.log(JSON.stringify({ name: this.scenario.name, pools }));
  }

  close() {
    for (const each of [...Object.values(this.streams), ...Object.values(this.pools)]) each.close();
  }

  doStep(step) {
    const { status: wanted = "GPUPOOL_SUCCESS" } = step.expect ?? {};
    const [from, to, by] = step.for ?? [0, 1, 1];
    let message;
    let block;
    for (let i = from; i < to; i += by) {
      let status;
      block = step.block?.replaceAll("#", i);
      [status, message] = this.statusOf(() => this.perform(step, block));
      if (status !== wanted) throw new Unexpected("status", wanted, `${status} ${message}`);
    }
    this.check(step, step.expect ?? {}, block, message);
    for (const [name, path] of Object.entries(step.save ?? {})) {
      this.saved[name] = this.statistic(this.pools[step.pool], path);
    }
  }

  statusOf(call) {
    try {
      call();
      return ["GPUPOOL_SUCCESS", ""];
    } catch (error) {
      if (!(error instanceof gpupool.GpuPoolError)) throw error;
      return [gpupool.statusName(error.status), error.message];
    }
  }

  perform(step, block) {
    const pool = this.pools[step.pool];
    const close = (objects, name) => {
      const object = objects[name];
      delete objects[name];
      object.close();
    };
    const operations = {
      create: () => (this.pools[step.pool] = this.create(step)),
      destroy: () => close(this.pools, step.pool),
      stream: () => (this.streams[step.stream] = pool.createStream()),
      destroy_stream: () => close(this.streams, step.stream),
      malloc: () => this.malloc(pool, step, block),
      free: () => this.free(pool, step, block),
      record_stream: () => pool.recordStream(this.blocks[block][0], this.stream(step, 0)),
      release_stream: () => pool.releaseStream(this.stream(step, 0)),
      synchronize: () => pool.synchronizeSync(),
      empty: () => pool.empty(),
      reset_peaks: () => pool.resetPeaks(),
      validate: () => pool.validate(),
      trim: () => pool.trim(this.size(step.target_bytes)),
      reserve: () => pool.reserve(this.size(step.target_bytes), this.stream(step, 0)),
      set_fraction: () => pool.setFraction(step.fraction),
      set_limit: () => pool.setLimit(this.size(step.limit_bytes)),
      look: () => undefined,
    };
    if (!Object.hasOwn(operations, step.op)) throw new TypeError(`unknown op in ${written(step)}`);
    operations[step.op]();
  }

  create(step) {
    const given = OPTIONS.filter((option) => option in step).map((option) => [camel(option), step[option]]);
    const device = this.sim ? { backend: "sim", device: SIM_DEVICE } : {};
    return new gpupool.Pool({ ...Object.fromEntries(given), ...device });
  }

  malloc(pool, step, block) {
    const size = this.size(step.size);
    const stream = this.stream(step, 0);
    const address = "alignment" in step ? pool.mallocAligned(size, step.alignment, stream) : pool.malloc(size, stream);
    this.blocks[block] = [address, stream];
  }

  free(pool, step, block) {
    if (block === undefined) return pool.free(step.address);
    const [address, stream] = this.blocks[block];
    return pool.free(address + (step.offset ?? 0), this.stream(step, stream));
  }

  stream(step, otherwise) {
    if (step.stream === undefined) return otherwise;
    return step.stream === "unknown" ? gpupool.STREAM_UNKNOWN : this.streams[step.stream].id;
  }

  size(size) {
    if (typeof size !== "object") return size;
    return Math.floor(Math.floor(size.of_total * this.device().totalBytes) / 512) * 512;
  }

  device() {
    return this.sim ? gpupool.deviceInfo(gpupool.Backend.SIM, SIM_DEVICE) : gpupool.deviceInfo();
  }

  statistic(pool, path) {
    if (path === "device.free_bytes") return this.device().freeBytes;
    return path.split(".").reduce((value, part) => value[camel(part)], pool.stats());
  }

  check(step, expect, block, message) {
    const unknown = Object.keys(expect).filter((each) => !EXPECTATIONS.includes(each));
    if (unknown.length > 0) throw new TypeError(`unknown expectations: ${unknown.join(", ")}`);
    for (const which of ["same_address", "other_address"].filter((each) => each in expect)) {
      const same = this.blocks[block][0] === this.blocks[expect[which]][0];
      if (same !== (which === "same_address")) throw new Unexpected("address", `${which} as ${expect[which]}`, same);
    }
    if ("address_zero" in expect && (this.blocks[block][0] === 0) !== expect.address_zero) {
      throw new Unexpected("address_zero", expect.address_zero, this.blocks[block][0]);
    }
    const said = expect.message_contains ?? "";
    if (!message.includes(said)) throw new Unexpected("message", said, message);
    for (const [path, value] of Object.entries(expect.stats ?? {})) {
      this.checkStatistic(path, value, this.statistic(this.pools[step.pool], path));
    }
  }

  checkStatistic(path, value, found) {
    const range = typeof value === "object" && !("saved" in value) ? value : { min: value, max: value };
    const low = this.number(range.min ?? 0);
    const high = this.number(range.max ?? Infinity);
    if (!(low <= found && found <= high)) throw new Unexpected(path, low === high ? low : `${low} to ${high}`, found);
  }

  number(value) {
    return typeof value === "object" ? this.saved[value.saved] + (value.plus ?? 0) : value;
  }
}

const good = process.argv.slice(2).map((file) => {
  let scenario;
  let where = "";
  try {
    scenario = new Scenario(parse(readFileSync(file, "utf8")));
    scenario.run((number, step) => (where = `step ${number}: ${written(step)}: `));
    return true;
  } catch (error) {
    console.error(`${file}: ${where}${error.message}`);
    return false;
  } finally {
    scenario?.close();
  }
});
process.exitCode = good.every(Boolean) ? 0 : 1;
