// SPDX-License-Identifier: Apache-2.0
// Commands to a process, its answers, and where it takes them. docs/inside/control.md has the protocol.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gpupool::wire::control {

inline constexpr char kFileName[] = "gpupool-control";  // of the memfd, as /proc/PID/fd shows it
inline constexpr uint64_t kMagic = 0x434c4f4f50555047;  // "GPUPOOLC", on the machines that there are
inline constexpr uint32_t kVersion = 1;
inline constexpr size_t kKeyBytes = 16;

/// What the memfd says, for whoever may look into the process: where to ask, and a key that shows that the
/// asker has looked. It never changes.
struct Notice {
  uint64_t magic;
  uint32_t version;
  uint32_t name_bytes;
  uint64_t process;  // as its own namespace numbers it
  unsigned char key[kKeyBytes];
  char name[32];  // of the abstract socket, the zero in front included
};

enum class Command : uint32_t {
  trim = 1,
  snapshot = 2,
  record_start = 3,
  record_stop = 4,  // of the recording that the same connection has started
  sleep = 5,
  wake = 6,
  holders = 7,
};

/// One packet. What a command does not use is zero.
struct Request {
  uint64_t magic;
  uint32_t version;
  Command command;
  unsigned char key[kKeyBytes];
  uint64_t pool;        // its number; 0: see tag
  char tag[64];         // all pools of this name; "": all pools. With a zero at the end
  uint64_t bytes;       // trim: what each pool keeps at most; sleep: as target_bytes
  uint64_t timeout_ns;  // wake: as of gpupool_sleep_options_t
  int32_t mode;         // sleep: a gpupool_sleep_mode_t
  uint32_t flags;       // sleep: gpupool_sleep_flag_t; record_start: gpupool_record_flag_t
  uint64_t reserved[8];
  char path[4000];  // record_start: of a file that is not there. With a zero at the end
};

enum class Outcome : uint32_t {
  done = 0,
  failed = 1,   // the library says why: status and message
  refused = 2,  // the request is not allowed, or not understood; the connection ends
};

/// One packet, to each request. A snapshot or holders come with it, as a descriptor of a memfd that does not
/// change.
struct Reply {
  uint64_t magic;
  uint32_t version;
  Outcome outcome;
  int32_t status;
  uint32_t pools;  // that the command was for, and
  uint32_t changed_pools;
  uint32_t recording;  // which one was started
  uint64_t released_bytes;
  uint64_t saved_bytes;
  uint64_t dropped_bytes;
  uint64_t retained_bytes;
  uint64_t created_bytes;
  uint64_t nanoseconds;  // of CLOCK_MONOTONIC
  uint64_t reserved[8];
  char message[1024];
};

/// A snapshot's file: this for each pool, and behind it `segments` of gpupool_segment_t, `blocks` of
/// gpupool_block_t, and the report, filled up with zeroes to a multiple of 8.
struct PoolHeader {
  uint64_t pool;
  uint32_t segment_bytes;  // of each, and
  uint32_t block_bytes;
  uint64_t segments;
  uint64_t blocks;
  uint64_t report_bytes;
  char name[64];
};

/// The file of holders: this for each one of each pool, and behind it the tag and the stack as
/// gpupool_holders has them but whole, filled up with zeroes to a multiple of 8.
struct HolderHeader {
  uint64_t pool;
  uint64_t live_bytes;
  uint64_t samples;
  uint64_t oldest_ns;
  uint64_t newest_ns;
  uint32_t tag_bytes;
  uint32_t stack_bytes;
};

static_assert(sizeof(Notice) == 72 && offsetof(Notice, process) == 16 && offsetof(Notice, key) == 24 &&
              offsetof(Notice, name) == 40);
static_assert(sizeof(Request) == 4192 && offsetof(Request, key) == 16 && offsetof(Request, pool) == 32 &&
              offsetof(Request, tag) == 40 && offsetof(Request, bytes) == 104 &&
              offsetof(Request, mode) == 120 && offsetof(Request, reserved) == 128 &&
              offsetof(Request, path) == 192);
static_assert(sizeof(Reply) == 1168 && offsetof(Reply, outcome) == 12 &&
              offsetof(Reply, released_bytes) == 32 && offsetof(Reply, reserved) == 80 &&
              offsetof(Reply, message) == 144);
static_assert(sizeof(PoolHeader) == 104 && sizeof(HolderHeader) == 48);

}  // namespace gpupool::wire::control
