// SPDX-License-Identifier: Apache-2.0
#include "base/status.hpp"

#include <cassert>
#include <cstdarg>
#include <cstdio>
#include <cstring>

namespace gpupool::internal {
namespace {

thread_local ErrorRecord error_record;

void record(Status status, int32_t driver_code, const char* format, std::va_list arguments) noexcept {
  error_record.status = status;
  error_record.driver_code = driver_code;
  std::vsnprintf(error_record.message, sizeof error_record.message, format, arguments);
  keep_in_line(error_record.message);
  assert(own_length(error_record.message) <= kMessageLength);
}

}  // namespace

ErrorRecord& last_error() noexcept {
  return error_record;
}

size_t own_length(std::string_view message) noexcept {
  size_t length = 0;
  bool is_quoted = false;
  bool is_path = false;
  char before = ' ';
  for (const char c : message) {
    if (c == '"') is_quoted = !is_quoted;
    if (c == ' ') is_path = false;
    if (c == '/' && before == ' ') is_path = true;
    if (!is_quoted && !is_path) ++length;
    before = c;
  }
  return length;
}

void keep_in_line(char* text) noexcept {
  for (; *text != '\0'; ++text) {
    if (static_cast<unsigned char>(*text) < ' ' || *text == '\x7f') *text = '?';
  }
}

void add_line(std::string& text, std::string line) {
  keep_in_line(line.data());
  if (!text.empty()) text += '\n';
  text += line;
}

Status fail(Status status, const char* format, ...) noexcept {
  std::va_list arguments;
  va_start(arguments, format);
  record(status, 0, format, arguments);
  va_end(arguments);
  return status;
}

Status fail_driver(Status status, int32_t driver_code, const char* format, ...) noexcept {
  std::va_list arguments;
  va_start(arguments, format);
  record(status, driver_code, format, arguments);
  va_end(arguments);
  return status;
}

void explain(std::string_view lines) noexcept {
  char* const message = error_record.message;
  const size_t length = std::strlen(message);
  std::snprintf(message + length, sizeof error_record.message - length, "\n%.*s",
                static_cast<int>(lines.size()), lines.data());
}

size_t first_line_length(const ErrorRecord& record) noexcept {
  return std::strcspn(record.message, "\n");
}

const char* status_name(Status status) noexcept {
  switch (status) {
    case GPUPOOL_SUCCESS: return "GPUPOOL_SUCCESS";
    case GPUPOOL_ERROR_INVALID_ARGUMENT: return "GPUPOOL_ERROR_INVALID_ARGUMENT";
    case GPUPOOL_ERROR_OUT_OF_MEMORY: return "GPUPOOL_ERROR_OUT_OF_MEMORY";
    case GPUPOOL_ERROR_HOST_OUT_OF_MEMORY: return "GPUPOOL_ERROR_HOST_OUT_OF_MEMORY";
    case GPUPOOL_ERROR_OVER_LIMIT: return "GPUPOOL_ERROR_OVER_LIMIT";
    case GPUPOOL_ERROR_UNKNOWN_POINTER: return "GPUPOOL_ERROR_UNKNOWN_POINTER";
    case GPUPOOL_ERROR_UNAVAILABLE: return "GPUPOOL_ERROR_UNAVAILABLE";
    case GPUPOOL_ERROR_UNSUPPORTED: return "GPUPOOL_ERROR_UNSUPPORTED";
    case GPUPOOL_ERROR_DRIVER: return "GPUPOOL_ERROR_DRIVER";
    case GPUPOOL_ERROR_SHUTTING_DOWN: return "GPUPOOL_ERROR_SHUTTING_DOWN";
    case GPUPOOL_ERROR_FORKED: return "GPUPOOL_ERROR_FORKED";
    case GPUPOOL_ERROR_INTERNAL: return "GPUPOOL_ERROR_INTERNAL";
    case GPUPOOL_ERROR_ASLEEP: return "GPUPOOL_ERROR_ASLEEP";
    case GPUPOOL_ERROR_INTERRUPTED: return "GPUPOOL_ERROR_INTERRUPTED";
    case GPUPOOL_STATUS_FORCE32: break;
  }
  return "unknown status";
}

}  // namespace gpupool::internal
