// SPDX-License-Identifier: Apache-2.0
// What index.js needs beside its classes: finding the native code, and reading arguments.
"use strict";

const path = require("node:path");
const { Backend, Kind, Mode } = require("./names.js");

/** The native code, which lies beside this file, or where GPUPOOL_NODE_ADDON says. */
function load() {
  const platform = `${process.platform}-${process.arch}`;
  const file = process.env.GPUPOOL_NODE_ADDON ?? path.join(__dirname, "prebuilds", platform, "gpupool.node");
  try {
    return require(file);
  } catch (error) {
    if (error.code !== "MODULE_NOT_FOUND") throw error;
    throw new Error(`gpupool has no native code for ${platform} (${file} is not there)`, { cause: error });
  }
}

/** The native object that an object of ours stands for. */
const wrapped = new (class {
  #objects = new WeakMap();
  set(object, its) {
    this.#objects.set(object, its);
  }
  of(object) {
    const its = this.#objects.get(object);
    if (its === undefined) throw new TypeError("this is no object of gpupool");
    return its;
  }
})();

/** Never an object of others, which the native code could not tell from ours. */
function streamOf(stream, Stream) {
  if (stream instanceof Stream) return wrapped.of(stream);
  if (typeof stream === "number" || typeof stream === "bigint") return stream;
  throw new TypeError(`stream is ${describe(stream)}: a Stream, or an integer, is wanted`);
}

/** A slice, or all of a block. */
function bytesIn(source, Block, Slice) {
  if (source instanceof Slice) return source;
  if (source instanceof Block) return source.slice(0);
  throw new TypeError(`source is ${describe(source)}: a Block or a Slice is wanted`);
}

function describe(value) {
  if (typeof value !== "object" || value === null) return String(value);
  return Symbol.iterator in value ? "a list" : "an object";
}

/** A number, or the name of one: "sim" is Backend.SIM. */
function numberOf(option, value, known) {
  if (typeof value !== "string") return value;
  const number = known[value.toUpperCase()];
  if (number !== undefined) return number;
  const choice = Object.keys(known).map((name) => JSON.stringify(name.toLowerCase()));
  throw new TypeError(`${option} is ${JSON.stringify(value)}: one of ${choice.join(", ")} is wanted`);
}

const words = (option) => (value) => (typeof value === "string" ? { [`${option}Words`]: value } : null);
const poolOptions = {
  device: (value) => words("device")(value) ?? { device: value },
  limit: (value) => words("limit")(value) ?? { limitBytes: value },
  backend: (value) => ({ backend: numberOf("backend", value, Backend) }),
  mode: (value) => ({ mode: numberOf("mode", value, Mode) }),
  kind: (value) => ({ kind: numberOf("kind", value, Kind) }),
  fraction: (value) => ({ fraction: value }),
  limitBytes: (value) => ({ limitBytes: value }),
  slack: (value) => ({ slack: value }),
  maxChunkBytes: (value) => ({ maxChunkBytes: value }),
  captureAware: (value) => ({ captureAware: value }),
  share: (value) => ({ share: value, hasShare: true }),
  guaranteedBytes: (value) => ({ guaranteedBytes: value }),
  shareWaitNs: (value) => ({ shareWaitNs: value }),
  priority: (value) => ({ priority: value }),
  peers: (value) => ({ peers: Array.from(value) }),
};
const simOptions = Object.fromEntries(
  ["data", "capacityBytes", "priceScale", "streams", "hostBytes"].map((option) => [
    option,
    (value) => ({ [option]: value }),
  ]),
);

function read(options, known) {
  const config = {};
  for (const [option, value] of Object.entries(options)) {
    if (!Object.hasOwn(known, option)) throw new TypeError(`unknown option ${option}`);
    if (value !== undefined) Object.assign(config, known[option](value));
  }
  return config;
}

/** new Pool("cuda:1", "8GiB"), new Pool({ device: 1, limit: "40%" }), new Pool(). */
function configOf(options, limit) {
  if (options === undefined || typeof options === "string") return read({ device: options, limit }, poolOptions);
  if (typeof options !== "object" || options === null || Symbol.iterator in options) {
    throw new TypeError(`options is ${describe(options)}: an object, or a device such as "cuda:1", is wanted`);
  }
  if (limit !== undefined) throw new TypeError("limit stands beside an object of options, which has its own");
  return read(options, poolOptions);
}

module.exports = {
  bytesIn,
  configOf,
  load,
  numberOf,
  simConfigOf: (options) => read(options, simOptions),
  streamOf,
  wrapped,
};
