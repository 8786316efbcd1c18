// SPDX-License-Identifier: Apache-2.0
// The pool from Node, with only the shared library and the text of gpupool.h: the program reads the header's
// declarations when it starts, so nothing is generated, compiled or duplicated.
//
//     npm install && node dlopen.js HEADER [LIBRARY]

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import koffi from "koffi";

/** Everything that the header's marked region declares: { functions by name, constants by name }. */
function load(header, library) {
  const found = readFileSync(header, "utf8").match(/(\/\* gpupool-api-begin[^]*)\/\* gpupool-api-end/);
  if (!found) throw new Error(`${header} is no gpupool.h`);
  const [, region] = found;
  const text = region.replace(/\/\*[^]*?\*\//g, ""); // without comments
  const constants = {};
  for (const [, name, value] of text.matchAll(/#define (\w+) (\w+)/g)) constants[name] = BigInt(value);

  // In the header's order, in which each type comes before its use.
  const declarations = [
    /typedef struct (\w+) \1;/,
    /typedef (\w+) (\w+);/,
    /typedef enum (\w+) \{([^}]*)\}/,
    /typedef struct (\w+) \{([^}]*)\}/,
    /typedef ([^;]*\(\*(\w+)\)[^;]*);/,
  ];
  const anyOf = new RegExp(declarations.map((each) => each.source).join("|"), "g");
  for (const [, opaque, old, alias, enumeration, values, struct, fields, callback, name] of text.matchAll(anyOf)) {
    if (opaque) koffi.opaque(opaque);
    if (alias) koffi.alias(alias, old);
    if (enumeration) {
      koffi.alias(enumeration, "int32_t");
      for (const [, key, value] of values.matchAll(/(\w+) = (\w+)/g)) constants[key] = Number(value);
    }
    if (struct) koffi.struct(struct, fieldsOf(fields));
    if (callback) koffi.proto(callback.replace(/\(\*\w+\)/, name));
  }

  const shared = koffi.load(library);
  const functions = {};
  for (const [, prototype] of text.matchAll(/GPUPOOL_API ([^;]+);/g)) {
    const name = prototype.match(/(\w+)\(/)[1];
    functions[name] = shared.func(withDirections(prototype));
  }
  return { functions, constants };
}

function fieldsOf(text) {
  const fields = {};
  for (const [, type, name, length] of text.matchAll(/([\w ]+?\**)\s+(\w+)(?:\[(\d+)\])?;/g)) {
    // A callback or a list from the caller is a pointer that this program does not touch.
    const kind = /_fn_t|\*/.test(type) ? "void *" : type.trim();
    fields[name] = length ? koffi.array(kind, Number(length), kind === "char" ? "String" : "Typed") : kind;
  }
  return fields;
}

/** Which arguments are written: those called out_..., and structs, which the caller begins with their size. */
function withDirections(prototype) {
  return prototype
    .replace(/(const )?\w+\*+ out_/g, "_Out_ $&")
    .replace(/(?<!const )gpupool_(error|stats|device_info|config|block)_t\* \w+/g, "_Inout_ $&")
    .replace(/\w+_fn_t/g, "$& *");
}

/** Ends the program with one line, for errors that its user can fix. */
function giveUp(status, line) {
  console.error(line);
  process.exit(status);
}

function loaded(header, library) {
  try {
    return load(header, library);
  } catch (error) {
    return giveUp(1, `dlopen.js: ${error.message}`);
  }
}

const [header, library = "libgpupool.so.0.2"] = process.argv.slice(2);
if (!header) giveUp(2, "usage: node dlopen.js HEADER [LIBRARY], where HEADER is the path of gpupool.h");
const { functions: gpupool, constants } = loaded(header, library);

/** Fails with the library's description of this thread's last failure. */
function check(status) {
  if (status === constants.GPUPOOL_SUCCESS) return;
  const details = { struct_size: koffi.sizeof("gpupool_error_t") };
  gpupool.gpupool_last_error(details);
  const error = new Error(`${gpupool.gpupool_status_name(status)}: ${details.message}`);
  throw Object.assign(error, { status, driverCode: details.driver_code });
}

/** The call fails with this status, and says why. */
function refused(status, call) {
  assert.throws(call, (error) => {
    console.log(`refused: ${error.message.split(". ")[0]}`);
    return error.status === constants[status] && error.message.length > status.length + 2;
  });
}

function statsOf(pool) {
  const stats = { struct_size: koffi.sizeof("gpupool_stats_t") };
  check(gpupool.gpupool_stats(pool, stats));
  return stats;
}

function malloc(pool, size, stream = 0) {
  const block = [0];
  check(gpupool.gpupool_malloc(pool, size, stream, block));
  return block[0];
}

console.log(`gpupool ${gpupool.gpupool_version_string()}: ${Object.keys(gpupool).length} functions through koffi`);
assert(BigInt(gpupool.gpupool_version()) >= constants.GPUPOOL_VERSION);

const config = { struct_size: koffi.sizeof("gpupool_config_t") };
check(gpupool.gpupool_config_init(config, koffi.sizeof("gpupool_config_t")));
const made = [null];
refused("GPUPOOL_ERROR_INVALID_ARGUMENT", () => check(gpupool.gpupool_create({ ...config, fraction: 2 }, made)));
check(gpupool.gpupool_create({ ...config, limit_bytes: 64 << 20 }, made));
const [pool] = made;

const block = malloc(pool, 1000);
const { all } = statsOf(pool);
const [asked, got] = [all.requested_bytes.current, all.allocated_bytes.current];
console.log(`asked for ${asked} bytes, got ${got} at 0x${block.toString(16)}`);
assert.equal(Number(got), 1024);

refused("GPUPOOL_ERROR_OVER_LIMIT", () => malloc(pool, 100 << 20));
refused("GPUPOOL_ERROR_UNKNOWN_POINTER", () => check(gpupool.gpupool_free(pool, block + 512, 0)));
check(gpupool.gpupool_free(pool, block, constants.GPUPOOL_STREAM_UNKNOWN));
refused("GPUPOOL_ERROR_UNKNOWN_POINTER", () => check(gpupool.gpupool_free(pool, block, 0)));

const released = [0];
check(gpupool.gpupool_empty(pool, released));
assert(released[0] > 0);
assert.equal(Number(statsOf(pool).all.reserved_bytes.current), 0);
check(gpupool.gpupool_destroy(pool));
refused("GPUPOOL_ERROR_INVALID_ARGUMENT", () => malloc(pool, 1));
console.log(`${released[0]} bytes given back, and the pool is gone`);
