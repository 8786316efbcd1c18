// SPDX-License-Identifier: Apache-2.0
// Sleep and wake, for pools and for tags.
#include "abi/sleep.hpp"

#include <cinttypes>
#include <string>

#include "abi/call.hpp"
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

/// Reads the options, runs the operation, and writes the result: zeroes on failure.
template <typename Action>
Status with_options(const gpupool_sleep_options_t* options, bool takes_target, gpupool_sleep_result_t* out,
                    Action action) {
  if (out != nullptr) {
    if (const Status status = check_size(out->struct_size, "out_result->struct_size"); status != kSuccess)
      return status;
  }
  gpupool_sleep_result_t result{};
  Status status = kSuccess;
  {
    SleepOptions read;
    status = read_sleep_options(options, takes_target, read);
    if (status == kSuccess) status = action(read, result);
  }
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
  return with_options(options, true, out_result,
                      [&](const SleepOptions& read, gpupool_sleep_result_t& result) {
                        return on_pool(pool, [&](Pool& self) { return self.sleeper().sleep(read, result); });
                      });
}

gpupool_status_t gpupool_wake(gpupool_t* pool, const gpupool_sleep_options_t* options,
                              gpupool_sleep_result_t* out_result) {
  return with_options(options, false, out_result,
                      [&](const SleepOptions& read, gpupool_sleep_result_t& result) {
                        return on_pool(pool, [&](Pool& self) { return self.sleeper().wake(read, result); });
                      });
}

gpupool_status_t gpupool_sleep_block(gpupool_t* pool, gpupool_ptr_t ptr,
                                     const gpupool_sleep_options_t* options,
                                     gpupool_sleep_result_t* out_result) {
  return with_options(
      options, false, out_result, [&](const SleepOptions& read, gpupool_sleep_result_t& result) {
        return on_pool(pool, [&](Pool& self) { return self.sleeper().sleep_block(ptr, read, result); });
      });
}

gpupool_status_t gpupool_wake_block(gpupool_t* pool, gpupool_ptr_t ptr,
                                    const gpupool_sleep_options_t* options,
                                    gpupool_sleep_result_t* out_result) {
  return with_options(
      options, false, out_result, [&](const SleepOptions& read, gpupool_sleep_result_t& result) {
        return on_pool(pool, [&](Pool& self) { return self.sleeper().wake_block(ptr, read, result); });
      });
}

gpupool_status_t gpupool_sleep_tag(const char* tag, const gpupool_sleep_options_t* options,
                                   gpupool_sleep_result_t* out_result) {
  return with_options(options, true, out_result,
                      [&](const SleepOptions& read, gpupool_sleep_result_t& result) {
                        return guarded([&] { return sleep_tag(tag, read, result); });
                      });
}

gpupool_status_t gpupool_wake_tag(const char* tag, const gpupool_sleep_options_t* options,
                                  gpupool_sleep_result_t* out_result) {
  return with_options(options, false, out_result,
                      [&](const SleepOptions& read, gpupool_sleep_result_t& result) {
                        return guarded([&] { return wake_tag(tag, read, result); });
                      });
}

gpupool_status_t gpupool_set_sleep_hooks(gpupool_t* pool, gpupool_sleep_hook_fn_t before_release,
                                         gpupool_sleep_hook_fn_t after_map, void* user) {
  return on_pool(pool, [&](Pool& self) {
    self.sleeper().set_hooks(before_release, after_map, user);
    return kSuccess;
  });
}

gpupool_status_t gpupool_allow_sleep(gpupool_t* pool, const gpupool_sleep_options_t* options) {
  return with_options(options, false, nullptr, [&](const SleepOptions& read, gpupool_sleep_result_t&) {
    return on_pool(pool, [&](Pool& self) { return self.sleeper().allow(read); });
  });
}

gpupool_status_t gpupool_sleep_state(gpupool_t* pool, gpupool_sleep_state_t* out_state) {
  if (out_state == nullptr) return refuse_null("out_state");
  *out_state = GPUPOOL_SLEEP_STATE_AWAKE;
  return on_pool(pool, [&](Pool& self) {
    *out_state = self.sleeper().state();
    return kSuccess;
  });
}

gpupool_status_t gpupool_set_name(gpupool_t* pool, const char* name) {
  return on_pool(pool, [&](Pool& self) { return self.sleeper().set_name(name); });
}

gpupool_status_t gpupool_name(gpupool_t* pool, char* text, size_t capacity, size_t* out_length) {
  if (out_length != nullptr) *out_length = 0;
  if (capacity != 0 && text == nullptr) return refuse_null("text");
  return on_pool(pool, [&](Pool& self) {
    const std::string name = self.sleeper().name();
    copy_text(name.data(), name.size(), text, capacity);
    if (out_length != nullptr) *out_length = name.size();
    return kSuccess;
  });
}

gpupool_status_t gpupool_set_keep(gpupool_t* pool, gpupool_ptr_t ptr, int32_t keep) {
  if (keep != 0 && keep != 1) return fail(GPUPOOL_ERROR_INVALID_ARGUMENT, "keep is %d, not 0 or 1", keep);
  return on_pool(pool, [&](Pool& self) { return self.sleeper().set_keep(ptr, keep == 1); });
}

gpupool_status_t gpupool_prepare_backup(gpupool_t* pool, uint64_t bytes) {
  return on_pool(pool, [&](Pool& self) { return self.sleeper().prepare(bytes); });
}

gpupool_status_t gpupool_backup(gpupool_t* pool, gpupool_ptr_t ptr, const void** out_data,
                                uint64_t* out_bytes) {
  if (out_data == nullptr) return refuse_null("out_data");
  if (out_bytes == nullptr) return refuse_null("out_bytes");
  *out_data = nullptr;
  *out_bytes = 0;
  return on_pool(pool, [&](Pool& self) { return self.sleeper().backup(ptr, *out_data, *out_bytes); });
}

gpupool_status_t gpupool_read_backup(gpupool_t* pool, gpupool_ptr_t ptr, void* data, uint64_t bytes) {
  if (data == nullptr) return refuse_null("data");
  return on_pool(pool, [&](Pool& self) { return self.sleeper().read_backup(ptr, data, bytes); });
}

gpupool_status_t gpupool_sim_hold(int32_t device, gpupool_ptr_t ptr) {
  return guarded([&] { return sim_hold(device, ptr); });
}

}  // extern "C"
