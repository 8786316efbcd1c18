// SPDX-License-Identifier: Apache-2.0
// The kernel of debug modes canary and quarantine, in PTX, which the driver compiles: no part of CUDA is
// needed to build it.
//
// Each warp does one look. One that finds nothing reads its bytes once and writes nothing; what costs is the
// launch. That it does what device/inspection.hpp says is shown on a GPU: tests/debug/planted_test.cpp.
#pragma once

#include "device/inspection.hpp"

namespace gpupool::internal::cuda {

inline constexpr const char* kInspectionName = "gpupool_inspect";

/// How many threads to launch it with, as one block.
constexpr unsigned inspection_threads(size_t looks) noexcept {
  return 32 * static_cast<unsigned>(looks);
}

/// The kernel's only parameter.
struct InspectionTask {
  uint64_t report;
  Look looks[kLooksAtOnce];
};
static_assert(sizeof(InspectionTask) == 776 && offsetof(InspectionTask, looks) == 8);

inline constexpr const char* kInspectionPtx = R"(
.version 6.0
.target sm_50
.address_size 64

.visible .entry gpupool_inspect(.param .align 8 .b8 task[776])
.maxntid 1024, 1, 1
{
  .reg .pred %p, %damaged;
  .reg .b16 %byte;
  .reg .b32 %thread, %lane, %warp, %size, %word, %skip, %end, %at, %value, %low, %high, %mask, %bad, %slot;
  .reg .b64 %task, %look, %report, %address, %block, %first, %from, %to, %wide;

  mov.u32 %thread, %tid.x;
  and.b32 %lane, %thread, 31;
  shr.u32 %warp, %thread, 5;

  // This warp's look.
  mov.b64 %task, task;
  mul.wide.u32 %wide, %warp, 24;
  add.u64 %look, %task, %wide;
  ld.param.u64 %address, [%look+8];
  ld.param.u32 %size, [%look+16];
  ld.param.u32 %word, [%look+20];
  ld.param.u64 %block, [%look+24];

  // Whole words, of which the first and the last may belong to it in part. Offsets count from the first.
  and.b64 %first, %address, -4;
  cvt.u32.u64 %skip, %address;
  and.b32 %skip, %skip, 3;
  add.u32 %end, %skip, %size;
  mov.u32 %bad, 0;
  shl.b32 %at, %lane, 2;
NEXT_WORD:
  setp.ge.u32 %p, %at, %end;
  @%p bra WORDS_DONE;
  cvt.u64.u32 %wide, %at;
  add.u64 %from, %first, %wide;
  ld.global.u32 %value, [%from];
  sub.s32 %low, %skip, %at;
  max.s32 %low, %low, 0;
  shl.b32 %low, %low, 3;
  shl.b32 %low, -1, %low;
  sub.s32 %high, %end, %at;
  min.s32 %high, %high, 4;
  shl.b32 %high, %high, 3;
  shl.b32 %high, -1, %high;  // a shift by 32 gives 0
  not.b32 %high, %high;
  and.b32 %mask, %low, %high;
  xor.b32 %value, %value, %word;
  and.b32 %value, %value, %mask;
  or.b32 %bad, %bad, %value;
  add.u32 %at, %at, 128;
  bra NEXT_WORD;
WORDS_DONE:
  setp.ne.u32 %p, %bad, 0;
  vote.sync.any.pred %damaged, %p, -1;
  @!%damaged bra DONE;

  // A place in the report, if one is left, and what is there.
  ld.param.u64 %report, [task];
  mov.u32 %slot, 0;
  setp.ne.u32 %p, %lane, 0;
  @!%p atom.global.add.u32 %slot, [%report], 1;
  shfl.sync.idx.b32 %slot, %slot, 0, 31, -1;
  setp.ge.u32 %p, %slot, 1024;
  @%p bra DONE;
  mul.wide.u32 %wide, %slot, 1056;
  add.u64 %report, %report, %wide;
  mov.u32 %at, %lane;
NEXT_BYTE:
  setp.ge.u32 %p, %at, %size;
  @%p bra BYTES_DONE;
  cvt.u64.u32 %wide, %at;
  add.u64 %from, %address, %wide;
  ld.global.u8 %byte, [%from];
  add.u64 %to, %report, %wide;
  st.global.u8 [%to+96], %byte;
  add.u32 %at, %at, 32;
  bra NEXT_BYTE;
BYTES_DONE:
  st.global.u64 [%report+72], %address;
  st.global.u32 [%report+80], %size;
  st.global.u32 [%report+84], %word;
  st.global.u64 [%report+88], %block;
  membar.sys;
  bar.warp.sync -1;
  setp.ne.u32 %p, %lane, 0;
  @!%p st.volatile.global.u32 [%report+64], 1;

DONE:
  ret;
}
)";

}  // namespace gpupool::internal::cuda
