// SPDX-License-Identifier: Apache-2.0
// gpupool for Node: classes over the functions of src/addon.cpp. What they do and give is described in index.d.ts.
"use strict";

const { AsyncLocalStorage } = require("node:async_hooks");
const { constants } = require("node:buffer");
const { isMainThread } = require("node:worker_threads");
const names = require("./names.js");
const { bytesIn, configOf, load, numberOf, simConfigOf, streamOf, wrapped } = require("./support.js");

const native = load();
const { Access, Backend, GpuPoolError, RecordFlag, ShareFigure, SleepMode, errors } = names;
native.setMain(isMainThread);
native.setMostBytes(constants.MAX_LENGTH);
native.setErrors((status, driverCode, message) => new (errors[status] ?? GpuPoolError)(message, status, driverCode));

const STREAM_UNKNOWN = 0xffffffffffffffffn;
// Where Node does not know it yet, as the polyfills of compilers call it.
const dispose = Symbol.dispose ?? Symbol.for("Symbol.dispose");
const inspect = Symbol.for("nodejs.util.inspect.custom");

const sleepMode = (mode) => numberOf("mode", mode, SleepMode);

// ---- tags

/** The names that the asynchronous work under way has got by tag, the outermost first. */
const tags = new AsyncLocalStorage();

/** Calls what mallocs under these names: the library's own tags are the thread's, which does other work meanwhile. */
function tagged(code) {
  const carried = tags.getStore();
  if (carried === undefined) return code();
  let pushed = 0;
  try {
    for (; pushed < carried.length; ++pushed) native.gpupool_tag_push(carried[pushed]);
    return code();
  } finally {
    for (; pushed > 0; --pushed) native.gpupool_tag_pop();
  }
}

function tag(name, code) {
  native.gpupool_tag_push(name); // refuses a bad one
  if (code === undefined) return new Tag();
  native.gpupool_tag_pop();
  return tags.run([...(tags.getStore() ?? []), name], code);
}

/** A tag of the thread, for code that does not await. */
class Tag {
  #hasEnded = false;
  [dispose]() {
    if (!this.#hasEnded) native.gpupool_tag_pop();
    this.#hasEnded = true;
  }
}

// ---- functions of the program, for the library

/** A promise would count as yes, at once: for ever, or before what it stands for is done. */
function answering(what, code) {
  if (typeof code !== "function") return code;
  return (...given) => {
    const answer = code(...given);
    if (typeof answer?.then !== "function") return answer;
    throw new TypeError(`${what} returned a promise, for which nobody can wait here: true or false is wanted`);
  };
}

// ---- memory

const rest = (size, offset) => (typeof offset === "bigint" ? BigInt(size) - offset : size - offset);

class Stream {
  constructor(object) {
    wrapped.set(this, object);
  }
  get id() {
    return native.stream_id(wrapped.of(this));
  }
  get closed() {
    return native.stream_closed(wrapped.of(this));
  }
  synchronize() {
    return native.stream_done(wrapped.of(this));
  }
  close() {
    native.gpupool_stream_destroy(wrapped.of(this));
  }
  toString() {
    return native.stream_text(wrapped.of(this));
  }
}

/** What Block and Slice have in common: the functions of either begin with its prefix. */
class Bytes {
  #call;
  constructor(prefix, object) {
    wrapped.set(this, object);
    this.#call = (name, ...rest) => native[prefix + name](object, ...rest);
  }
  get address() {
    return this.#call("address");
  }
  get size() {
    return this.#call("size");
  }
  fill(value) {
    this.#call("fill", value);
  }
  write(data, offset = 0) {
    this.#call("write", data, offset);
  }
  read(offset = 0, length = rest(this.size, offset)) {
    return this.#call("read", offset, length);
  }
  readInto(data, offset = 0) {
    this.#call("read_into", data, offset);
    return data;
  }
  async writeAsync(data, offset = 0) {
    await native.transfer_done(this.#call("write_async", data, offset));
  }
  async readAsync(offset = 0, length = rest(this.size, offset)) {
    return native.transfer_bytes(this.#call("read_async", offset, length));
  }
  async copyFrom(source, offset = 0) {
    const slice = bytesIn(source, Block, Slice);
    try {
      await native.transfer_done(this.#call("copy_from_slice", wrapped.of(slice), offset));
    } finally {
      if (slice !== source) slice.close();
    }
  }
  slice(offset, length = rest(this.size, offset)) {
    return new Slice(this.#call("slice", offset, length));
  }
  close() {
    this.#call("close");
  }
  toString() {
    return this.#call("text");
  }
}

class Block extends Bytes {
  constructor(object) {
    super("block_", object);
  }
  get stream() {
    return native.block_stream(wrapped.of(this));
  }
  get freed() {
    return native.block_freed(wrapped.of(this));
  }
  free(stream) {
    if (stream === undefined) native.block_free(wrapped.of(this));
    else native.block_free_on(wrapped.of(this), streamOf(stream, Stream));
  }
  release() {
    return native.block_release(wrapped.of(this));
  }
  recordStream(stream) {
    native.block_record_stream(wrapped.of(this), streamOf(stream, Stream));
  }
}

class Slice extends Bytes {
  constructor(object) {
    super("slice_", object);
  }
  get offset() {
    return native.slice_offset(wrapped.of(this));
  }
  get closed() {
    return native.slice_closed(wrapped.of(this));
  }
}

class Pool {
  constructor(options, limit) {
    wrapped.set(this, options instanceof Adopted ? options.object : native.gpupool_create(configOf(options, limit)));
  }
  static shared(device = 0) {
    return new Pool(new Adopted(native.gpupool_default_pool(device)));
  }
  createChild() {
    return new Pool(new Adopted(native.gpupool_create_child(wrapped.of(this))));
  }
  get closed() {
    return native.pool_closed(wrapped.of(this));
  }
  malloc(size, stream = 0) {
    return tagged(() => native.gpupool_malloc(wrapped.of(this), size, streamOf(stream, Stream)));
  }
  mallocAligned(size, alignment, stream = 0) {
    return tagged(() => native.gpupool_malloc_aligned(wrapped.of(this), size, alignment, streamOf(stream, Stream)));
  }
  free(address, stream = 0) {
    native.gpupool_free(wrapped.of(this), address, streamOf(stream, Stream));
  }
  recordStream(address, stream) {
    native.gpupool_record_stream(wrapped.of(this), address, streamOf(stream, Stream));
  }
  blockInfo(address) {
    return native.gpupool_block_info(wrapped.of(this), address);
  }
  allocate(size, stream = 0, alignment = 512) {
    return tagged(() => new Block(native.allocate(wrapped.of(this), size, streamOf(stream, Stream), alignment)));
  }
  createStream() {
    return new Stream(native.gpupool_stream_create(wrapped.of(this)));
  }
  releaseStream(stream) {
    native.gpupool_release_stream(wrapped.of(this), streamOf(stream, Stream));
  }
  parkStream(stream) {
    native.gpupool_park_stream(wrapped.of(this), streamOf(stream, Stream));
  }
  captureId(stream) {
    return native.gpupool_capture_id(wrapped.of(this), streamOf(stream, Stream));
  }
  releaseCapture(capture) {
    native.gpupool_release_capture(wrapped.of(this), capture);
  }
  announceCapture(begins) {
    native.gpupool_announce_capture(wrapped.of(this), begins);
  }
  enablePeer(device) {
    native.gpupool_enable_peer(wrapped.of(this), device);
  }
  synchronize() {
    return native.pool_done(wrapped.of(this));
  }
  synchronizeSync() {
    native.gpupool_synchronize(wrapped.of(this));
  }
  synchronizeStreamSync(stream) {
    native.gpupool_stream_synchronize(wrapped.of(this), streamOf(stream, Stream));
  }
  copy(destination, source, size, stream = 0) {
    native.gpupool_copy(wrapped.of(this), destination, source, size, streamOf(stream, Stream));
  }
  fill(destination, value, size, stream = 0) {
    native.gpupool_fill(wrapped.of(this), destination, value, size, streamOf(stream, Stream));
  }
  async sleep(mode = SleepMode.SAVE, flags = 0, target = 0) {
    return native.pool_asleep(wrapped.of(this), sleepMode(mode), flags, target);
  }
  sleepSync(mode = SleepMode.SAVE, flags = 0, target = 0) {
    return native.gpupool_sleep(wrapped.of(this), sleepMode(mode), flags, target);
  }
  async wake(timeout = 0, flags = 0, fill = 0) {
    return native.pool_awake(wrapped.of(this), timeout, flags, fill);
  }
  wakeSync(timeout = 0, flags = 0, fill = 0) {
    return native.gpupool_wake(wrapped.of(this), timeout, flags, fill);
  }
  allowSleep(mode = SleepMode.SAVE, flags = 0) {
    native.gpupool_allow_sleep(wrapped.of(this), sleepMode(mode), flags);
  }
  async sleepBlock(address, mode = SleepMode.SAVE, flags = 0) {
    return native.block_asleep(wrapped.of(this), address, sleepMode(mode), flags);
  }
  sleepBlockSync(address, mode = SleepMode.SAVE, flags = 0) {
    return native.gpupool_sleep_block(wrapped.of(this), address, sleepMode(mode), flags);
  }
  async wakeBlock(address, timeout = 0, flags = 0, fill = 0) {
    return native.block_awake(wrapped.of(this), address, timeout, flags, fill);
  }
  wakeBlockSync(address, timeout = 0, flags = 0, fill = 0) {
    return native.gpupool_wake_block(wrapped.of(this), address, timeout, flags, fill);
  }
  get sleepState() {
    return native.gpupool_sleep_state(wrapped.of(this));
  }
  get name() {
    return native.gpupool_name(wrapped.of(this));
  }
  set name(name) {
    native.gpupool_set_name(wrapped.of(this), name);
  }
  setKeep(address, keep) {
    native.gpupool_set_keep(wrapped.of(this), address, keep);
  }
  exportBlock(address) {
    return native.gpupool_export(wrapped.of(this), address);
  }
  importBlock(handle) {
    return native.gpupool_import(wrapped.of(this), handle);
  }
  closeImport(address) {
    native.gpupool_import_close(wrapped.of(this), address);
  }
  shareRequest(bytes, timeoutNs = 0) {
    native.gpupool_share_request(wrapped.of(this), bytes, timeoutNs);
  }
  prepareBackup(bytes) {
    native.gpupool_prepare_backup(wrapped.of(this), bytes);
  }
  async readBackup(address, length = native.backup_length(wrapped.of(this), address)) {
    return native.backup_bytes(wrapped.of(this), address, length);
  }
  readBackupSync(address, length = native.backup_length(wrapped.of(this), address)) {
    return native.gpupool_read_backup(wrapped.of(this), address, length);
  }
  empty() {
    return native.gpupool_empty(wrapped.of(this));
  }
  trim(target) {
    return native.gpupool_trim(wrapped.of(this), target);
  }
  reserve(target, stream = 0) {
    native.gpupool_reserve(wrapped.of(this), target, streamOf(stream, Stream));
  }
  setFraction(fraction) {
    native.gpupool_set_fraction(wrapped.of(this), fraction);
  }
  setLimit(limit) {
    if (typeof limit === "string") native.set_limit_words(wrapped.of(this), limit);
    else native.gpupool_set_limit(wrapped.of(this), limit);
  }
  setOomHandler(handler) {
    native.gpupool_set_oom_handler(wrapped.of(this), answering("the out-of-memory handler", handler));
  }
  setSleepHooks(beforeRelease = null, afterMap = null) {
    const hook = (name, code) => answering(`the hook ${name}`, code);
    native.gpupool_set_sleep_hooks(
      wrapped.of(this), hook("beforeRelease", beforeRelease), hook("afterMap", afterMap),
    );
  }
  stats() {
    return native.gpupool_stats(wrapped.of(this));
  }
  resetPeaks() {
    native.gpupool_reset_peaks(wrapped.of(this));
  }
  snapshot() {
    return native.gpupool_snapshot(wrapped.of(this));
  }
  report() {
    return native.gpupool_report(wrapped.of(this));
  }
  holders() {
    return native.gpupool_holders(wrapped.of(this));
  }
  damage() {
    return native.gpupool_check(wrapped.of(this));
  }
  damageReport() {
    return native.damage_report(wrapped.of(this));
  }
  protect(address, access = Access.READ) {
    native.gpupool_protect(wrapped.of(this), address, numberOf("access", access, Access));
  }
  validate() {
    native.gpupool_validate(wrapped.of(this));
  }
  close() {
    native.gpupool_destroy(wrapped.of(this));
  }
  toString() {
    return native.pool_text(wrapped.of(this));
  }
}

/** A native pool that is there already. */
class Adopted {
  constructor(object) {
    this.object = object;
  }
}

for (const type of [Pool, Stream, Bytes]) {
  type.prototype[dispose] = function () {
    this.close();
  };
  type.prototype[inspect] = function () {
    return this.toString();
  };
}

/** A device by its number or words, as the native functions of groups take it. */
function placeOf(device) {
  const { backend, device: number } =
    typeof device === "string" ? native.gpupool_parse_device(device) : { backend: Backend.AUTO, device };
  return [backend, number];
}

/** The simulated device. */
const sim = {
  configure: (device, options = {}) => native.gpupool_sim_configure(device, simConfigOf(options)),
  script: (device, script) => native.gpupool_sim_script(device, script),
  work: (device, stream, address, size, nanoseconds) =>
    native.gpupool_sim_work(device, streamOf(stream, Stream), address, size, nanoseconds),
  advance: (device, nanoseconds) => native.gpupool_sim_advance(device, nanoseconds),
  capture: (device, stream, begin) => native.gpupool_sim_capture(device, streamOf(stream, Stream), begin),
  launch: (device, capture, stream) => native.gpupool_sim_launch(device, capture, streamOf(stream, Stream)),
  hold: (device, address) => native.gpupool_sim_hold(device, address),
  faults: (device) => native.gpupool_sim_faults(device),
  lastFault: (device) => native.gpupool_sim_last_fault(device),
};

module.exports = {
  ...names,
  Pool,
  Stream,
  Block,
  Slice,
  STREAM_UNKNOWN,
  sim,
  version: () => native.gpupool_version(),
  versionString: () => native.gpupool_version_string(),
  features: () => native.gpupool_features(),
  statusName: (status) => native.gpupool_status_name(status),
  setLog: (level, receiver = null) => native.gpupool_set_log(level, receiver),
  parseSize: (text) => native.gpupool_parse_size(text),
  parseDevice: (text) => native.gpupool_parse_device(text),
  tagPush: (tag) => native.gpupool_tag_push(tag),
  tagPop: () => native.gpupool_tag_pop(),
  tag,
  setSampling: (bytes) => native.gpupool_set_sampling(bytes),
  recordStart: (path, flags = RecordFlag.LANGUAGE_STACKS) => native.gpupool_record_start(path, flags),
  recordStop: () => native.gpupool_record_stop(),
  mark: (text) => native.gpupool_mark(text),
  setDebug: (modes = "") => native.gpupool_set_debug(modes),
  why: (address) => native.gpupool_why(address),
  shareInfo: (group = "", device = 0) => native.gpupool_share_info(group, ...placeOf(device)),
  shareSet: (what, amount, member = 0, group = "", device = 0) =>
    native.gpupool_share_set(numberOf("what", what, ShareFigure), amount, member, group, ...placeOf(device)),
  shareRepair: (group = "", device = 0) => native.gpupool_share_repair(group, ...placeOf(device)),
  sleepTag: async (tag = "", mode = SleepMode.SAVE, flags = 0, target = 0) =>
    native.tag_asleep(tag, sleepMode(mode), flags, target),
  sleepTagSync: (tag = "", mode = SleepMode.SAVE, flags = 0, target = 0) =>
    native.gpupool_sleep_tag(tag, sleepMode(mode), flags, target),
  wakeTag: async (tag = "", timeout = 0, flags = 0) => native.tag_awake(tag, timeout, flags),
  wakeTagSync: (tag = "", timeout = 0, flags = 0) => native.gpupool_wake_tag(tag, timeout, flags),
  deviceCount: (backend = Backend.AUTO) => native.gpupool_device_count(backend),
  deviceInfo: (backend = Backend.AUTO, device = 0) => native.gpupool_device_info(backend, device),
};
delete module.exports.errors;
