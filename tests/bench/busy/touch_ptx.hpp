// SPDX-License-Identifier: Apache-2.0
// The one kernel of busy_gpu, as text that the driver compiles: no toolkit is needed to build it.
#pragma once

namespace busy {

/// touch(address, words, pattern, is_check, mismatches, nanoseconds): writes pattern + i to word i, or
/// compares and counts what differs, and then stays busy until so many nanoseconds have passed since it
/// began.
constexpr const char* kTouchPtx = R"(
.version 7.0
.target sm_70
.address_size 64
.visible .entry touch(.param .u64 address, .param .u64 words, .param .u32 pattern, .param .u32 is_check,
                      .param .u64 mismatches, .param .u64 nanoseconds)
{
  .reg .pred %checks, %done, %same;
  .reg .b32 %pattern, %flag, %block, %size, %thread, %index32, %blocks, %stride32, %expected, %found;
  .reg .b64 %start, %base, %words, %count, %end, %index, %stride, %offset, %word, %now;

  mov.u64 %start, %globaltimer;
  ld.param.u64 %base, [address];
  ld.param.u64 %words, [words];
  ld.param.u32 %pattern, [pattern];
  ld.param.u32 %flag, [is_check];
  ld.param.u64 %count, [mismatches];
  ld.param.u64 %end, [nanoseconds];
  add.u64 %end, %end, %start;
  mov.u32 %block, %ctaid.x;
  mov.u32 %size, %ntid.x;
  mov.u32 %thread, %tid.x;
  mad.lo.u32 %index32, %block, %size, %thread;
  cvt.u64.u32 %index, %index32;
  mov.u32 %blocks, %nctaid.x;
  mul.lo.u32 %stride32, %blocks, %size;
  cvt.u64.u32 %stride, %stride32;
  setp.ne.u32 %checks, %flag, 0;
next:
  setp.ge.u64 %done, %index, %words;
  @%done bra wait;
  shl.b64 %offset, %index, 2;
  add.u64 %word, %base, %offset;
  cvt.u32.u64 %expected, %index;
  add.u32 %expected, %expected, %pattern;
  @%checks bra compare;
  st.global.u32 [%word], %expected;
  bra step;
compare:
  ld.global.u32 %found, [%word];
  setp.eq.u32 %same, %found, %expected;
  @%same bra step;
  red.global.add.u32 [%count], 1;
step:
  add.u64 %index, %index, %stride;
  bra next;
wait:
  mov.u64 %now, %globaltimer;
  setp.lt.u64 %done, %now, %end;
  @%done bra wait;
  ret;
}
)";

}  // namespace busy
