// SPDX-License-Identifier: Apache-2.0
// Sleep and wake, for pools and for tags.
#include <cinttypes>
#include <string>

#include "abi/call.hpp"
#include "abi/options.hpp"
#include "abi/structs.hpp"
#include "device/sim/sim.hpp"
#include "pool/process/sleep_all.hpp"

namespace gpupool::internal::abi {

Status read_sleep_options(const gpupool_sleep_options_t* in, bool takes_target, SleepOptions& options) {
  gpupool_sleep_options_t whole{};
  if (in != nullptr) {
    if (const Status status = read_struct(in, whole, "options->struct_size"); status != kSuccess)
      return status;
  }
  constexpr uint32_t kKnown = GPUPOOL_SLEEP_FLAG_SYNC_CONTEXT | GPUPOOL_SLEEP_FLAG_HOLD_MALLOCS |
                              GPUPOOL_SLEEP_FLAG_RETAIN_BACKUP | GPUPOOL_SLEEP_FLAG_FILL;
  if ((whole.flags & ~kKnown) != 0) {
    return fail(kInvalid, "flags is 0x%x, with bits other than those of gpupool_sleep_flag_t", whole.flags);
  }
  if (whole.mode != GPUPOOL_SLEEP_MODE_SAVE && whole.mode != GPUPOOL_SLEEP_MODE_DROP) {
    return fail(kInvalid, "mode is %d, not 0 (save) or 1 (drop)", whole.mode);
  }
  const bool fills = (whole.flags & GPUPOOL_SLEEP_FLAG_FILL) != 0;
  if (whole.fill > 255 || (whole.fill != 0 && !fills)) {
    return fail(kInvalid, "fill is %u, not 0 to 255, or GPUPOOL_SLEEP_FLAG_FILL is not set", whole.fill);
  }
  if (whole.target_bytes != 0 && !takes_target) {
    return fail(kInvalid, "target_bytes is %" PRIu64 ": only gpupool_sleep and gpupool_sleep_tag have one",
                whole.target_bytes);
  }
  for (const uint64_t reserved : whole.reserved) {
    if (reserved != 0) return fail(GPUPOOL_ERROR_UNSUPPORTED, "a reserved field of options is not 0");
  }
  options.drops = whole.mode == GPUPOOL_SLEEP_MODE_DROP;
  options.hold_mallocs = (whole.flags & GPUPOOL_SLEEP_FLAG_HOLD_MALLOCS) != 0;
  options.retain_backup = (whole.flags & GPUPOOL_SLEEP_FLAG_RETAIN_BACKUP) != 0;
  options.fill = fills ? static_cast<int>(whole.fill) : -1;
  options.timeout_ns = whole.timeout_ns;
  options.target = whole.target_bytes;
  return kSuccess;
}

namespace {

/// Reads the options, makes the call with them and the result behind its other arguments, and writes the
/// result: zeroes on failure.
template <typename... Call>
Status with_options(const gpupool_sleep_options_t* options, bool takes_target, gpupool_sleep_result_t* out,
                    Call... made) {
  if (out != nullptr) {
    if (const Status status = check_size(out->struct_size, "out_result->struct_size"); status != kSuccess)
      return status;
  }
  gpupool_sleep_result_t result{};
  SleepOptions read;
  Status status = read_sleep_options(options, takes_target, read);
  if (status == kSuccess) status = call(made..., std::cref(read), std::ref(result));
  if (status != kSuccess) result = {};
  result.struct_size = sizeof result;
  if (out != nullptr) write_struct(result, out);
  return status;
}

}  // namespace
}  // namespace gpupool::internal::abi

using namespace gpupool::internal;       // NOLINT: the C functions are a thin layer over these
using namespace gpupool::internal::abi;  // NOLINT

extern "C" {

gpupool_status_t gpupool_sleep(gpupool_t* pool, const gpupool_sleep_options_t* options,
                               gpupool_sleep_result_t* out_result) {
  return with_options(options, true, out_result, pool, &Sleeper::sleep);
}

gpupool_status_t gpupool_wake(gpupool_t* pool, const gpupool_sleep_options_t* options,
                              gpupool_sleep_result_t* out_result) {
  return with_options(options, false, out_result, pool, &Sleeper::wake);
}

gpupool_status_t gpupool_sleep_block(gpupool_t* pool, gpupool_ptr_t ptr,
                                     const gpupool_sleep_options_t* options,
                                     gpupool_sleep_result_t* out_result) {
  return with_options(options, false, out_result, pool, &Sleeper::sleep_block, ptr);
}

gpupool_status_t gpupool_wake_block(gpupool_t* pool, gpupool_ptr_t ptr,
                                    const gpupool_sleep_options_t* options,
                                    gpupool_sleep_result_t* out_result) {
  return with_options(options, false, out_result, pool, &Sleeper::wake_block, ptr);
}

gpupool_status_t gpupool_sleep_tag(const char* tag, const gpupool_sleep_options_t* options,
                                   gpupool_sleep_result_t* out_result) {
  return with_options(options, true, out_result, &sleep_tag, tag);
}

gpupool_status_t gpupool_wake_tag(const char* tag, const gpupool_sleep_options_t* options,
                                  gpupool_sleep_result_t* out_result) {
  return with_options(options, false, out_result, &wake_tag, tag);
}

gpupool_status_t gpupool_set_sleep_hooks(gpupool_t* pool, gpupool_sleep_hook_fn_t before_release,
                                         gpupool_sleep_hook_fn_t after_map, void* user) {
  return call(pool, &Sleeper::set_hooks, before_release, after_map, user);
}

gpupool_status_t gpupool_allow_sleep(gpupool_t* pool, const gpupool_sleep_options_t* options) {
  SleepOptions read;
  const Status status = read_sleep_options(options, false, read);
  return status == kSuccess ? call(pool, &Sleeper::allow, std::cref(read)) : status;
}

gpupool_status_t gpupool_sleep_state(gpupool_t* pool, gpupool_sleep_state_t* out_state) {
  const auto ask = [](Pool& self, gpupool_sleep_state_t& state) { state = self.sleeper().state(); };
  return call(pool, ask, Out{out_state, "out_state"});
}

gpupool_status_t gpupool_set_name(gpupool_t* pool, const char* name) {
  return call(pool, &Sleeper::set_name, name);
}

gpupool_status_t gpupool_name(gpupool_t* pool, char* text, size_t capacity, size_t* out_length) {
  if (const Status status = expect_text(text, capacity, out_length); status != kSuccess) return status;
  return on_pool(pool,
                 [&](Pool& self) { return give_text(self.sleeper().name(), text, capacity, out_length); });
}

gpupool_status_t gpupool_set_keep(gpupool_t* pool, gpupool_ptr_t ptr, int32_t keep) {
  if (keep != 0 && keep != 1) return fail(GPUPOOL_ERROR_INVALID_ARGUMENT, "keep is %d, not 0 or 1", keep);
  return call(pool, &Sleeper::set_keep, ptr, keep == 1);
}

gpupool_status_t gpupool_prepare_backup(gpupool_t* pool, uint64_t bytes) {
  return call(pool, &Sleeper::prepare, bytes);
}

gpupool_status_t gpupool_backup(gpupool_t* pool, gpupool_ptr_t ptr, const void** out_data,
                                uint64_t* out_bytes) {
  return call(pool, &Sleeper::backup, ptr, Out{out_data, "out_data"}, Out{out_bytes, "out_bytes"});
}

gpupool_status_t gpupool_read_backup(gpupool_t* pool, gpupool_ptr_t ptr, void* data, uint64_t bytes) {
  if (data == nullptr) return refuse_null("data");
  return call(pool, &Sleeper::read_backup, ptr, data, bytes);
}

gpupool_status_t gpupool_sim_hold(int32_t device, gpupool_ptr_t ptr) {
  return call(sim_hold, device, ptr);
}

}  // extern "C"
