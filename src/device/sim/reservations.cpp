// SPDX-License-Identifier: Apache-2.0
#include "device/sim/reservations.hpp"

#include <utility>

#include "device/sim/by_address.hpp"

namespace gpupool::internal {
namespace {

using Long = unsigned long long;  // for printf

}  // namespace

SimReservations::~SimReservations() {
  for (const auto& [base, size] : sizes_) backing_.release(base, size);
}

Status SimReservations::reserve(uint64_t size, Address& base) {
  if (!is_granular(0, size)) {
    return faults_.refuse(driver_code::kInvalidValue, "reserve_addresses of %llu bytes: not whole granules",
                          Long{size});
  }
  if (size > kSimMaxReservation || size > kSimAddressSpace - reserved_) {
    return fail_driver(GPUPOOL_ERROR_OUT_OF_MEMORY, driver_code::kOutOfMemory,
                       "simulated device: %llu bytes of addresses beyond %llu reserved are too many",
                       Long{size}, Long{reserved_});
  }
  auto reservation = made_ahead<Sizes>(size);
  Address found = 0;
  if (const Status status = backing_.reserve(size, kSimGranularity, found); status != kSuccess) return status;
  insert_at(sizes_, found, std::move(reservation));
  reserved_ += size;
  base = found;
  return kSuccess;
}

Status SimReservations::check_release(Address base, uint64_t size) {
  const auto found = sizes_.find(base);
  if (found != sizes_.end() && found->second == size) return kSuccess;
  return faults_.refuse(driver_code::kInvalidValue, "release_addresses of %#llx, %llu bytes: no reservation",
                        Long{base}, Long{size});
}

void SimReservations::release(Address base) noexcept {
  const auto found = sizes_.find(base);
  const uint64_t size = found->second;
  sizes_.erase(found);
  reserved_ -= size;
  backing_.release(base, size);
}

bool SimReservations::has(Address address, uint64_t size) const {
  const auto found = entry_at(sizes_, address);
  return found != sizes_.end() && address - found->first < found->second &&
         size <= found->second - (address - found->first);
}

bool SimReservations::has_any(Address address, Address last) const {
  const auto found = entry_at(sizes_, last);
  return found != sizes_.end() && found->first + found->second > address;
}

}  // namespace gpupool::internal
