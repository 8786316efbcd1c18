// SPDX-License-Identifier: Apache-2.0
// Written by tools/apigen.py. The header's numbers by name, and its errors.
"use strict";

const Status = Object.freeze({
  SUCCESS: 0,
  INVALID_ARGUMENT: 1,
  OUT_OF_MEMORY: 2,
  HOST_OUT_OF_MEMORY: 3,
  OVER_LIMIT: 4,
  UNKNOWN_POINTER: 5,
  UNAVAILABLE: 6,
  UNSUPPORTED: 7,
  DRIVER: 8,
  SHUTTING_DOWN: 9,
  FORKED: 10,
  INTERNAL: 11,
  ASLEEP: 12,
  INTERRUPTED: 13,
});

const Backend = Object.freeze({
  AUTO: 0,
  CUDA: 1,
  SIM: 2,
  HOST: 3,
});

const Mode = Object.freeze({
  AUTO: 0,
  VMM: 1,
  DRIVER: 2,
  UPSTREAM: 3,
});

const Kind = Object.freeze({
  DEVICE: 0,
  PINNED: 1,
  MANAGED: 2,
});

const Flag = Object.freeze({
  CAPTURE_AWARE: 1,
});

const RecordFlag = Object.freeze({
  NATIVE_STACKS: 1,
  LANGUAGE_STACKS: 2,
});

const Feature = Object.freeze({
  SIM: 1,
  CUDA: 2,
  HOST: 4,
});

const Capability = Object.freeze({
  VMM: 1,
  RDMA: 2,
  MANAGED: 4,
  INTEGRATED: 8,
});

const BlockState = Object.freeze({
  LIVE: 1,
  PENDING: 2,
  CACHED: 3,
  ASLEEP: 4,
});

const SleepMode = Object.freeze({
  SAVE: 0,
  DROP: 1,
});

const SleepFlag = Object.freeze({
  SYNC_CONTEXT: 1,
  HOLD_MALLOCS: 2,
  RETAIN_BACKUP: 4,
  FILL: 8,
});

const Access = Object.freeze({
  WRITE: 0,
  READ: 1,
  NONE: 2,
});

const ShareState = Object.freeze({
  OFF: 0,
  ALONE: 1,
  SHARED: 2,
});

const ShareMemberState = Object.freeze({
  LIVE: 1,
  LIMBO: 2,
});

const ShareFigure = Object.freeze({
  LIMIT: 1,
  MEMBER_LIMIT: 2,
  MEMBER_GUARANTEE: 3,
  MEMBER_PRIORITY: 4,
});

const SleepState = Object.freeze({
  AWAKE: 0,
  FALLING_ASLEEP: 1,
  ASLEEP: 2,
  WAKING: 3,
});

const Wait = Object.freeze({
  WAKE: 1,
  TURN: 2,
  MEMORY: 3,
  GPU: 4,
});

const LogLevel = Object.freeze({
  OFF: 0,
  ERROR: 1,
  WARNING: 2,
  INFO: 3,
  DEBUG: 4,
});

/** A call of the library that failed; the message explains why. Each status has a class of its own. */
class GpuPoolError extends Error {
  constructor(message, status, driverCode) {
    super(message);
    this.status = status;
    this.driverCode = driverCode;
  }
  get name() {
    return this.constructor.name;
  }
}

class InvalidArgumentError extends GpuPoolError {}
class OutOfMemoryError extends GpuPoolError {}
class HostOutOfMemoryError extends GpuPoolError {}
class OverLimitError extends OutOfMemoryError {}
class UnknownPointerError extends GpuPoolError {}
class UnavailableError extends GpuPoolError {}
class UnsupportedError extends GpuPoolError {}
class DriverError extends GpuPoolError {}
class ShuttingDownError extends GpuPoolError {}
class ForkedError extends GpuPoolError {}
class InternalError extends GpuPoolError {}
class AsleepError extends GpuPoolError {}
class InterruptedError extends GpuPoolError {}

const errors = Object.freeze({
  1: InvalidArgumentError,
  2: OutOfMemoryError,
  3: HostOutOfMemoryError,
  4: OverLimitError,
  5: UnknownPointerError,
  6: UnavailableError,
  7: UnsupportedError,
  8: DriverError,
  9: ShuttingDownError,
  10: ForkedError,
  11: InternalError,
  12: AsleepError,
  13: InterruptedError,
});

module.exports = {
  Status,
  Backend,
  Mode,
  Kind,
  Flag,
  RecordFlag,
  Feature,
  Capability,
  BlockState,
  SleepMode,
  SleepFlag,
  Access,
  ShareState,
  ShareMemberState,
  ShareFigure,
  SleepState,
  Wait,
  LogLevel,
  GpuPoolError,
  InvalidArgumentError,
  OutOfMemoryError,
  HostOutOfMemoryError,
  OverLimitError,
  UnknownPointerError,
  UnavailableError,
  UnsupportedError,
  DriverError,
  ShuttingDownError,
  ForkedError,
  InternalError,
  AsleepError,
  InterruptedError,
  errors,
};
