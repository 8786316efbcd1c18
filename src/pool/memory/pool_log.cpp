// SPDX-License-Identifier: Apache-2.0
#include "pool/memory/pool_log.hpp"

#include <cinttypes>
#include <cstdarg>
#include <cstdio>

#include "base/log.hpp"

namespace gpupool::internal {
namespace {

/// "32 MiB", "1.5 MiB"; in a buffer of its own, so that a log line allocates nothing.
struct SizeText {
  explicit SizeText(uint64_t bytes) noexcept {
    static constexpr const char* kNames[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    auto value = static_cast<double>(bytes);
    size_t unit = 0;
    for (; value >= 1024 && unit < 4; ++unit) value /= 1024;
    std::snprintf(text, sizeof text, "%.4g %s", value, kNames[unit]);
  }
  char text[32];
};

bool is_heard() noexcept {
  return log_enabled(GPUPOOL_LOG_DEBUG);
}

}  // namespace

void PoolLog::say(const char* format, ...) const noexcept {
  if (!is_heard()) return;
  char line[256];
  std::va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  log_line(GPUPOOL_LOG_DEBUG, "pool %" PRIu64 ": %s", pool_, line);
}

void PoolLog::grew(const Ledger::Totals& before, const StreamState& state, uint64_t bytes) const noexcept {
  if (!is_heard()) return;
  const Ledger::Totals now = ledger_.totals();
  char what[64] = "gpupool_reserve";
  if (bytes != 0) std::snprintf(what, sizeof what, "a block of %s", SizeText(bytes).text);
  say("grew by %s (%" PRIu64 " chunks created, %" PRIu64 " moved) for %s on stream 0x%" PRIxPTR
      "; %s reserved",
      SizeText(now.bytes_created - before.bytes_created).text, now.chunks_created - before.chunks_created,
      now.steals - before.steals, what, state.order.stream(), SizeText(ledger_.used()).text);
}

void PoolLog::released(const Ledger::Totals& before, const char* why) const noexcept {
  const Ledger::Totals now = ledger_.totals();
  if (now.chunks_released == before.chunks_released || !is_heard()) return;
  say("gave back %s (%" PRIu64 " chunks): %s; %s reserved",
      SizeText(now.bytes_released - before.bytes_released).text, now.chunks_released - before.chunks_released,
      why, SizeText(ledger_.used()).text);
}

void PoolLog::stole(uint64_t bytes, const StreamState& from, const StreamState& to,
                    const char* how) const noexcept {
  if (!is_heard()) return;
  say("took %s from stream 0x%" PRIxPTR " for stream 0x%" PRIxPTR ", %s", SizeText(bytes).text,
      from.order.stream(), to.order.stream(), how);
}

void PoolLog::waited(uint64_t nanoseconds, size_t streams, const char* why) const noexcept {
  say("waited %.3f ms on the host for %zu streams: %s", static_cast<double>(nanoseconds) / 1e6, streams, why);
}

void PoolLog::is_short(uint64_t bytes, const StreamState& state, const char* what) const noexcept {
  if (!is_heard()) return;
  say("no room for a block of %s on stream 0x%" PRIxPTR ": %s", SizeText(bytes).text, state.order.stream(),
      what);
}

}  // namespace gpupool::internal
