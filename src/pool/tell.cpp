// SPDX-License-Identifier: Apache-2.0
// What a pool tells the log at level debug. Every line is asked for under the pool's lock, waits until that
// is given up (QuietLock), and costs one check of the level while nobody listens.
#include <cinttypes>
#include <cstdarg>
#include <cstdio>

#include "pool/pool.hpp"

namespace gpupool::internal {
namespace {

/// "32 MiB", "1.5 MiB"; in a buffer of its own, so that a line needs no memory.
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

bool is_told() noexcept {
  return log_enabled(GPUPOOL_LOG_DEBUG);
}

}  // namespace

void Pool::tell(const char* format, ...) const noexcept {
  if (!is_told()) return;
  char line[256];
  std::va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  log_line(GPUPOOL_LOG_DEBUG, "pool %" PRIu64 ": %s", id_, line);
}

Pool::Standing Pool::standing() const noexcept {
  return {ledger_.reserved().in, ledger_.chunks().in, ledger_.reserved().out, ledger_.chunks().out, steals_};
}

/// `bytes`: of the block that it was for; 0: for gpupool_reserve.
void Pool::tell_growth(const Standing& before, const StreamState& state, uint64_t bytes) const noexcept {
  if (!is_told()) return;
  const Standing now = standing();
  char what[64] = "gpupool_reserve";
  if (bytes != 0) std::snprintf(what, sizeof what, "a block of %s", SizeText(bytes).text);
  tell("grew by %s (%" PRIu64 " chunks created, %" PRIu64 " moved) for %s on stream 0x%" PRIxPTR
       "; %s reserved",
       SizeText(now.bytes_created - before.bytes_created).text, now.chunks_created - before.chunks_created,
       now.steals - before.steals, what, state.order.stream(), SizeText(ledger_.used()).text);
}

/// Says nothing where nothing was given back.
void Pool::tell_given_back(const Standing& before, const char* why) const noexcept {
  const Standing now = standing();
  if (now.chunks_released == before.chunks_released || !is_told()) return;
  tell("gave back %s (%" PRIu64 " chunks): %s; %s reserved",
       SizeText(now.bytes_released - before.bytes_released).text,
       now.chunks_released - before.chunks_released, why, SizeText(ledger_.used()).text);
}

/// A line for each run of chunks that come from one other stream.
void Pool::tell_moved(const std::vector<Piece>& pieces, const StreamState& to) const noexcept {
  if (!is_told()) return;
  for (size_t at = 0; at < pieces.size();) {
    const StreamState* from = pieces[at].from != nullptr ? &pieces[at].from->state() : nullptr;
    uint64_t bytes = 0;
    for (; at < pieces.size(); ++at) {
      const StreamState* state = pieces[at].from != nullptr ? &pieces[at].from->state() : nullptr;
      if (state != from) break;
      bytes += pieces[at].chunk->size;
    }
    if (from != nullptr && from != &to) tell_taken(bytes, *from, to, "moved");
  }
}

void Pool::tell_taken(uint64_t bytes, const StreamState& from, const StreamState& to,
                      const char* how) const noexcept {
  if (!is_told()) return;
  tell("took %s from stream 0x%" PRIxPTR " for stream 0x%" PRIxPTR ", %s", SizeText(bytes).text,
       from.order.stream(), to.order.stream(), how);
}

void Pool::tell_wait(uint64_t nanoseconds, size_t streams, const char* why) const noexcept {
  tell("waited %.3f ms on the host for %zu streams: %s", static_cast<double>(nanoseconds) / 1e6, streams,
       why);
}

void Pool::tell_shortage(uint64_t bytes, const StreamState& state, const char* what) const noexcept {
  if (!is_told()) return;
  tell("no room for a block of %s on stream 0x%" PRIxPTR ": %s", SizeText(bytes).text, state.order.stream(),
       what);
}

}  // namespace gpupool::internal
