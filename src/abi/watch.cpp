// SPDX-License-Identifier: Apache-2.0
// Tags, samples and recordings.
#include <algorithm>
#include <atomic>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "abi/call.hpp"
#include "abi/options.hpp"
#include "abi/structs.hpp"
#include "base/environment.hpp"
#include "os/process.hpp"
#include "pool/observe/holders.hpp"
#include "pool/process/recording.hpp"
#include "watch/stats_page.hpp"

using namespace gpupool::internal;       // NOLINT: the C functions are a thin layer over these
using namespace gpupool::internal::abi;  // NOLINT

namespace gpupool::internal::abi {
namespace {

constexpr size_t kPathMax = 4000;
constexpr size_t kMarkMax = 255;

/// The stacks that GPUPOOL_RECORD_STACKS asks for: "none", "native", "language" or "all"; by default the
/// language's, which cost nothing if no function names them.
Status stacks_from_environment(uint32_t& flags) {
  const char* text = std::getenv("GPUPOOL_RECORD_STACKS");
  const std::string_view wanted = text == nullptr || *text == '\0' ? "language" : text;
  flags = 0;
  if (wanted == "native" || wanted == "all") flags |= GPUPOOL_RECORD_NATIVE_STACKS;
  if (wanted == "language" || wanted == "all") flags |= GPUPOOL_RECORD_LANGUAGE_STACKS;
  if (flags != 0 || wanted == "none") return kSuccess;
  return fail(GPUPOOL_ERROR_INVALID_ARGUMENT,
              "GPUPOOL_RECORD_STACKS is \"%.64s\", not none, native, language or all", text);
}

Status record_from_environment() {
  const char* path = std::getenv("GPUPOOL_RECORD");
  if (path == nullptr || *path == '\0' || Recorder::is_on()) return kSuccess;
  uint32_t flags = 0;
  if (const Status status = stacks_from_environment(flags); status != kSuccess) return status;
  if (const Status status = gpupool_record_start(path, flags); status != kSuccess) return status;
  end_recording_at_exit();
  return kSuccess;
}

gpupool_holder_t shown_holder(const Holder& holder) noexcept {
  gpupool_holder_t shown{holder.live_bytes, holder.samples, holder.oldest_ns, holder.newest_ns, {}, {}};
  (void)give_text(holder.tag, shown.tag, sizeof shown.tag);
  (void)give_text(holder.stack, shown.stack, sizeof shown.stack);
  return shown;
}

/// The process that read the environment: a child after fork is another.
constinit std::atomic<uint64_t> read_for{0};

}  // namespace

void watch_from_environment() noexcept {
  const uint64_t process = os::process_id();
  if (read_for.exchange(process) == process) return;
  tell_unknown_variables();
  // A program should run even if it cannot be watched.
  const auto complain = [] { std::fprintf(stderr, "gpupool: %s\n", last_error().message); };
  if (guarded([] { return read_sample_distance(); }) != kSuccess) complain();
  if (guarded([] { return shown::read_switch(); }) != kSuccess) complain();
  if (guarded([] { return record_from_environment(); }) != kSuccess) complain();
  if (guarded([] { return control_from_environment(); }) != kSuccess) complain();
}

}  // namespace gpupool::internal::abi

extern "C" {

gpupool_status_t gpupool_tag_push(const char* tag) {
  if (tag == nullptr) return refuse_null("tag");
  return call(push_tag, tag);
}

gpupool_status_t gpupool_tag_pop(void) {
  return call(pop_tag);
}

gpupool_status_t gpupool_holders(gpupool_t* pool, gpupool_holder_t* holders, size_t holder_size,
                                 size_t holder_capacity, size_t* out_holder_count) {
  if (out_holder_count == nullptr) return refuse_null("out_holder_count");
  *out_holder_count = 0;
  if (holder_capacity != 0 && holders == nullptr) return refuse_null("holders");
  if (const Status status = check_size(holder_size, "holder_size"); status != kSuccess) return status;
  return on_pool(pool, [&](Pool& self) {
    const std::vector<Holder> all = find_holders(self.sampler());
    write_list(all, holders, holder_size, holder_capacity, shown_holder);
    self.draw_samples();
    *out_holder_count = all.size();
    return kSuccess;
  });
}

gpupool_status_t gpupool_set_sampling(uint64_t bytes) {
  if (bytes > kSizeMax) {
    return fail(GPUPOOL_ERROR_INVALID_ARGUMENT, "bytes is %" PRIu64 ", more than any device has", bytes);
  }
  return guarded([&] {
    sample_every(bytes);
    return kSuccess;
  });
}

gpupool_status_t gpupool_set_stack_fn(gpupool_stack_fn_t fn, void* user) {
  if (fn == nullptr && user != nullptr) {
    return fail(GPUPOOL_ERROR_INVALID_ARGUMENT, "fn is NULL, and user, which is for it, is not");
  }
  set_stack_fn(fn, user);
  return kSuccess;
}

gpupool_status_t gpupool_record_start(const char* path, uint32_t flags) {
  if (path == nullptr) return refuse_null("path");
  const size_t length = strnlen(path, kPathMax + 1);
  if (length == 0 || length > kPathMax) {
    return fail(GPUPOOL_ERROR_INVALID_ARGUMENT, "path has %s%zu bytes, not 1 to %zu",
                length > kPathMax ? "more than " : "", std::min(length, kPathMax), kPathMax);
  }
  uint32_t number = 0;
  return guarded([&] { return start_recording(path, flags, number); });
}

gpupool_status_t gpupool_record_stop(void) {
  return guarded([] { return stop_recording(); });
}

gpupool_status_t gpupool_mark(const char* text) {
  if (text == nullptr) return refuse_null("text");
  const size_t length = strnlen(text, kMarkMax + 1);
  if (length == 0 || length > kMarkMax) {
    return fail(GPUPOOL_ERROR_INVALID_ARGUMENT, "text has %s%zu bytes, not 1 to %zu",
                length > kMarkMax ? "more than " : "", std::min(length, kMarkMax), kMarkMax);
  }
  Recorder::mark(text);
  return kSuccess;
}

}  // extern "C"
