// SPDX-License-Identifier: Apache-2.0
#include "base/status.hpp"

#include <cstdarg>
#include <cstdio>

namespace gpupool::internal {
namespace {

thread_local ErrorRecord error_record;

void record(Status status, int32_t driver_code, const char* format, std::va_list arguments) noexcept {
  error_record.status = status;
  error_record.driver_code = driver_code;
  std::vsnprintf(error_record.message, sizeof error_record.message, format, arguments);
}

}  // namespace

ErrorRecord& last_error() noexcept {
  return error_record;
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
    case GPUPOOL_STATUS_FORCE32: break;
  }
  return "unknown status";
}

}  // namespace gpupool::internal
