// SPDX-License-Identifier: Apache-2.0
#include "abi/options.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cinttypes>
#include <cstring>
#include <string>
#include <vector>

#include "abi/call.hpp"
#include "base/bits.hpp"
#include "base/parse.hpp"
#include "os/files.hpp"
#include "pool/observe/holders.hpp"
#include "pool/process/recording.hpp"
#include "pool/process/sleep_all.hpp"
#include "watch/control.hpp"

namespace gpupool::internal::abi {
namespace {

using wire::control::Command;
using wire::control::Outcome;
using wire::control::Reply;
using wire::control::Request;
using Pools = std::vector<std::shared_ptr<Pool>>;

constexpr size_t kAlignment = 8;  // of what is written behind each other

/// The pools that a request is for. None, though it names some, is a mistake that the asker should see.
Status find_pools(const Request& request, Pools& pools) {
  pools = Registry::instance().all();
  std::erase_if(pools, [&](const std::shared_ptr<Pool>& pool) {
    if (!pool->is_live()) return true;
    if (request.pool != 0) return pool->id() != request.pool;
    return request.tag[0] != '\0' && pool->sleeper().name() != request.tag;
  });
  if (!pools.empty() || (request.pool == 0 && request.tag[0] == '\0')) return kSuccess;
  if (request.pool != 0)
    return fail(GPUPOOL_ERROR_INVALID_ARGUMENT, "there is no pool %" PRIu64, request.pool);
  return fail(GPUPOOL_ERROR_INVALID_ARGUMENT, "no pool has the name '%s'", request.tag);
}

Status trim(const Request& request, const Pools& pools, Reply& reply) {
  for (const std::shared_ptr<Pool>& pool : pools) {
    uint64_t released = 0;
    if (const Status status = pool->trim(request.bytes, released); status != kSuccess) return status;
    reply.released_bytes += released;
    if (released != 0) ++reply.changed_pools;
  }
  return kSuccess;
}

Status sleep_or_wake(const Request& request, const Pools& pools, Reply& reply) {
  gpupool_sleep_options_t options{};
  options.struct_size = sizeof options;
  options.mode = request.mode;
  options.flags = request.flags;
  options.timeout_ns = request.timeout_ns;
  options.target_bytes = request.bytes;
  SleepOptions read;
  if (const Status status = read_sleep_options(&options, request.command == Command::sleep, read);
      status != kSuccess)
    return status;
  gpupool_sleep_result_t result{};
  const Status status =
      request.command == Command::sleep ? sleep_all(pools, read, result) : wake_all(pools, read, result);
  if (status != kSuccess) return status;
  reply.changed_pools = result.pools;
  reply.released_bytes = result.released_bytes;
  reply.saved_bytes = result.saved_bytes;
  reply.dropped_bytes = result.dropped_bytes;
  reply.retained_bytes = result.retained_bytes;
  reply.created_bytes = result.created_bytes;
  return kSuccess;
}

bool write_all(int file, const void* from, size_t bytes) noexcept {
  const off_t end = lseek(file, 0, SEEK_CUR);
  if (end < 0 || !os::may_be_as_large(static_cast<uint64_t>(end) + bytes)) return false;
  const auto* at = static_cast<const char*>(from);
  while (bytes != 0) {
    const ssize_t count = write(file, at, bytes);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    at += count;
    bytes -= static_cast<size_t>(count);
  }
  return true;
}

bool write_snapshot(int file, Pool& pool) {
  std::vector<gpupool_segment_t> segments;
  std::vector<gpupool_block_t> blocks;
  pool.snapshot(segments, blocks);
  std::string report = pool.report();
  report.resize(align_up(report.size(), kAlignment));
  wire::control::PoolHeader header{};
  header.pool = pool.id();
  header.segment_bytes = sizeof(gpupool_segment_t);
  header.block_bytes = sizeof(gpupool_block_t);
  header.segments = segments.size();
  header.blocks = blocks.size();
  header.report_bytes = report.size();
  const std::string name = pool.sleeper().name();
  (void)name.copy(header.name, sizeof header.name - 1);
  return write_all(file, &header, sizeof header) &&
         write_all(file, segments.data(), segments.size() * sizeof segments[0]) &&
         write_all(file, blocks.data(), blocks.size() * sizeof blocks[0]) &&
         write_all(file, report.data(), report.size());
}

bool write_holders(int file, Pool& pool) {
  std::string bytes;
  for (const Holder& holder : find_holders(pool.sampler())) {
    const wire::control::HolderHeader header{pool.id(),
                                             holder.live_bytes,
                                             holder.samples,
                                             holder.oldest_ns,
                                             holder.newest_ns,
                                             static_cast<uint32_t>(holder.tag.size()),
                                             static_cast<uint32_t>(holder.stack.size())};
    bytes.append(reinterpret_cast<const char*>(&header), sizeof header);
    bytes += holder.tag;
    bytes += holder.stack;
    bytes.resize(align_up(bytes.size(), kAlignment));
  }
  pool.draw_samples();
  return write_all(file, bytes.data(), bytes.size());
}

/// Into a file without a name, which whoever asked reads at leisure.
Status write_pools(const Pools& pools, bool (*write)(int, Pool&), Reply& reply, int& file) {
  constexpr int kSeals = F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
  file = memfd_create("gpupool-snapshot", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (file < 0) return fail(GPUPOOL_ERROR_UNAVAILABLE, "no file for the answer: %s", std::strerror(errno));
  for (const std::shared_ptr<Pool>& pool : pools) {
    if (!write(file, *pool))
      return fail(GPUPOOL_ERROR_HOST_OUT_OF_MEMORY, "no room for the answer: %s", std::strerror(errno));
    ++reply.changed_pools;
  }
  if (fcntl(file, F_ADD_SEALS, kSeals) != 0)
    return fail(GPUPOOL_ERROR_UNAVAILABLE, "the answer cannot be sealed: %s", std::strerror(errno));
  return kSuccess;
}

Status record(const Request& request, Reply& reply) {
  const Status status = start_recording(request.path, request.flags, reply.recording);
  if (status == kSuccess) end_recording_at_exit();
  return status;
}

Status carry_out(const Request& request, Reply& reply, int& file) {
  if (request.command == Command::record_start) return record(request, reply);
  Pools pools;
  if (const Status status = find_pools(request, pools); status != kSuccess) return status;
  reply.pools = static_cast<uint32_t>(pools.size());
  switch (request.command) {
    case Command::trim: return trim(request, pools, reply);
    case Command::snapshot: return write_pools(pools, write_snapshot, reply, file);
    case Command::holders: return write_pools(pools, write_holders, reply, file);
    default: return sleep_or_wake(request, pools, reply);
  }
}

void carry_out_and_answer(const Request& request, Reply& reply, int& file) noexcept {
  const Status status = guarded([&] { return carry_out(request, reply, file); });
  if (status == kSuccess) return;
  reply.status = status;
  control::refuse(reply, Outcome::failed, "%s", last_error().message);
  if (file >= 0) (void)close(file);
  file = -1;
}

Status stop_this_recording(uint32_t recording) noexcept {
  return guarded([&] { return stop_recording(recording); });
}

}  // namespace

Status control_from_environment() {
  bool is_wanted = false;
  if (const Status status = read_switch("GPUPOOL_CONTROL", is_wanted); status != kSuccess) return status;
  if (!is_wanted) return kSuccess;
  return control::start({carry_out_and_answer, stop_this_recording});
}

}  // namespace gpupool::internal::abi
