// SPDX-License-Identifier: Apache-2.0
// Status codes, and the thread's record of its last failure.
//
// Internally every fallible function returns Status, and nothing throws on purpose. The function that finds a
// failure describes it once, with fail(); callers pass the status on. The record is a fixed buffer, so
// reporting an out-of-memory needs no memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/no_copy.hpp"
#include "gpupool/gpupool.h"

namespace gpupool::internal {

using Status = gpupool_status_t;

inline constexpr Status kSuccess = GPUPOOL_SUCCESS;

/// Failures that more memory could fix; all others fail at once.
constexpr bool is_shortage(Status status) noexcept {
  return status == GPUPOOL_ERROR_OUT_OF_MEMORY || status == GPUPOOL_ERROR_OVER_LIMIT;
}

/// The last failure of this thread. Trivially destructible on purpose: it must outlive everything.
struct ErrorRecord {
  Status status = kSuccess;
  int32_t driver_code = 0;
  char message[1024] = {};
};

ErrorRecord& last_error() noexcept;

/// The thread's last failure stays what it was when this began: what fails meanwhile concerns no caller.
class KeepError : NoCopy {
 public:
  KeepError() noexcept : kept_(last_error()) {}
  ~KeepError() { last_error() = kept_; }

 private:
  const ErrorRecord kept_;
};

/// A message is one line that a terminal shows whole: at most so many characters, not counting those of
/// others that it quotes (paths, and what is between double quotes).
inline constexpr size_t kMessageLength = 160;

/// The characters of a message that count.
size_t own_length(std::string_view message) noexcept;

/// Makes text one line: control characters, which only text of others can have, become question marks.
void keep_in_line(char* text) noexcept;

/// Adds a line to a text of several, and keeps it one.
void add_line(std::string& text, std::string line);

/// Records a failure, formatted as by printf, and returns `status`. The message must be no longer than
/// kMessageLength.
[[gnu::format(printf, 2, 3), gnu::cold]] Status fail(Status status, const char* format, ...) noexcept;

/// As fail(), with the driver's own number.
[[gnu::format(printf, 3, 4), gnu::cold]] Status fail_driver(Status status, int32_t driver_code,
                                                            const char* format, ...) noexcept;

/// Goes on below the message of the last failure, where one line cannot hold all: lines that say who has the
/// memory that was missing. What the record has no room for is cut.
[[gnu::cold]] void explain(std::string_view lines) noexcept;

/// The length of the message's first line: what the log takes of it.
size_t first_line_length(const ErrorRecord& record) noexcept;

/// The name of a status; "unknown status" for any other number.
const char* status_name(Status status) noexcept;

}  // namespace gpupool::internal
