// SPDX-License-Identifier: Apache-2.0
#include "pool/sleep/backup.hpp"
#include "pool/memory/retention.hpp"

#include <algorithm>
#include <cinttypes>

#include "base/reserve.hpp"
#include "core/size.hpp"

namespace gpupool::internal {

Status Backup::reserve(Lock& lock, uint64_t bytes) {
  if (bytes <= capacity_) return kSuccess;
  const uint64_t before = capacity_;
  Status status = check_host(align_up(bytes - before, kGranule));
  interrupts::Patience patience(GPUPOOL_WAIT_GPU);  // page-locking takes as long as the copies
  while (status == kSuccess && capacity_ < bytes)
    status = is_over(patience, lock) ? interrupts::give_up() : add(lock, bytes - capacity_);
  if (status == kSuccess) return kSuccess;
  if (interrupts::has_given_up()) return status;  // to free it would wait for the device
  const ErrorRecord cause = last_error();
  (void)shrink(lock, before);
  last_error() = cause;
  return status;
}

Status Backup::check_host(uint64_t bytes) {
  uint64_t available = 0;
  // If nothing is known of the host's memory, the driver's own answer must do.
  if (device_.raw().host_memory(available) != kSuccess || bytes <= available / 4 * 3) return kSuccess;
  return fail(GPUPOOL_ERROR_HOST_OUT_OF_MEMORY,
              "sleep would have to page-lock %" PRIu64 " bytes of the host, which has %" PRIu64
              " available: a quarter of that stays free",
              bytes, available);
}

Status Backup::add(Lock& lock, uint64_t bytes) {
  reserve_more(pieces_, 1);
  Piece piece;
  piece.size = std::min(align_up(bytes, kGranule), kPiece);
  piece.offset = capacity_;
  const Status status =
      lock.give_up_for([&] { return device_.allocate(Kind::pinned, piece.size, 0, piece.address); });
  if (status == GPUPOOL_ERROR_OUT_OF_MEMORY) {
    const int32_t code = last_error().driver_code;
    return fail_driver(GPUPOOL_ERROR_HOST_OUT_OF_MEMORY, code,
                       "the host cannot page-lock %" PRIu64 " bytes more, of %" PRIu64 " that are needed",
                       piece.size, bytes);
  }
  if (status != kSuccess) return status;
  pieces_.push_back(piece);
  capacity_ += piece.size;
  return kSuccess;
}

Status Backup::shrink(Lock& lock, uint64_t bytes) {
  while (!pieces_.empty() && pieces_.back().offset >= bytes) {
    const Piece piece = pieces_.back();
    const Status status = lock.give_up_for([&] {
      return device_.deallocate(Retention::of_unused(), Kind::pinned, piece.address, piece.size, 0);
    });
    if (status != kSuccess) return status;
    pieces_.pop_back();
    capacity_ -= piece.size;
  }
  return kSuccess;
}

Address Backup::at(uint64_t offset, uint64_t& bytes) const noexcept {
  const auto after =
      std::upper_bound(pieces_.begin(), pieces_.end(), offset,
                       [](uint64_t wanted, const Piece& piece) { return wanted < piece.offset; });
  const Piece& piece = *std::prev(after);
  const uint64_t into = offset - piece.offset;
  bytes = piece.size - into;
  return piece.address + into;
}

}  // namespace gpupool::internal
