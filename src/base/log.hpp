// SPDX-License-Identifier: Apache-2.0
// The log: a level gate, and one process-wide receiver of lines.
//
// Unless set_log came first, the level is read from GPUPOOL_LOG when it is first needed: when the first pool
// is created, or the first call fails. A bad text is reported once on standard error, and nothing is logged.
// A receiver is called with no lock held, and may call any function of the library.
#pragma once

#include "gpupool/gpupool.h"

namespace gpupool::internal {

/// Whether a line of this level would be sent. One relaxed load.
bool log_enabled(gpupool_log_level_t level) noexcept;

/// Sends a line, formatted as by printf and cut at 1023 characters; if the thread holds lines back, later. A
/// line that a receiver causes is not sent, because that could go on without end.
[[gnu::format(printf, 2, 3)]] void log_line(gpupool_log_level_t level, const char* format, ...) noexcept;

/// Lines up to `level` go to fn(user, level, line); fn null: where GPUPOOL_LOG says, or
/// to standard error.
void set_log(gpupool_log_fn_t fn, void* user, gpupool_log_level_t level) noexcept;

/// From hold_lines() to the matching send_lines(), the lines of this thread wait; the last send_lines() sends
/// them in order. Used together with every lock under which something may be logged, because the receiver may
/// call the library. Lines without memory are dropped, and lines beyond a bound are counted.
void hold_lines() noexcept;
void send_lines() noexcept;
/// Whether lines of this thread wait.
bool has_lines() noexcept;

/// Around fork: the child must not find the log's lock taken.
void lock_log() noexcept;
void unlock_log() noexcept;

}  // namespace gpupool::internal
