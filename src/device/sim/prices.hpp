// SPDX-License-Identifier: Apache-2.0
// What calls of the driver cost on an H200 (driver 580, CUDA 13.0), in nanoseconds. Chunks were measured over
// 2 GiB, in pieces of 2, 4, 8, 32 and 128 MiB; prices between these sizes are interpolated linearly.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/bits.hpp"

namespace gpupool::internal::sim_prices {

struct Point {
  uint64_t size;
  double nanoseconds;
};

/// The time of larger requests, which fail, was not measured; they cost as much as this size.
inline constexpr uint64_t kLargest = 256 * kGiB;

/// The price at `size`: constant below the first point, extrapolated beyond the last.
template <size_t kCount>
constexpr double at(const Point (&points)[kCount], uint64_t size) noexcept {
  static_assert(kCount >= 2);
  if (size <= points[0].size) return points[0].nanoseconds;
  size = std::min(size, kLargest);
  size_t right = 1;
  while (right + 1 < kCount && points[right].size < size) ++right;
  const Point& a = points[right - 1];
  const Point& b = points[right];
  const double slope = (b.nanoseconds - a.nanoseconds) / static_cast<double>(b.size - a.size);
  return a.nanoseconds + slope * static_cast<double>(size - a.size);
}

// Each per chunk.
inline constexpr Point kCreate[] = {
    {2 * kMiB, 10500}, {4 * kMiB, 8600}, {8 * kMiB, 7400}, {32 * kMiB, 7800}, {128 * kMiB, 9400}};
inline constexpr Point kMap[] = {
    {2 * kMiB, 1100}, {4 * kMiB, 640}, {8 * kMiB, 500}, {32 * kMiB, 600}, {128 * kMiB, 600}};
inline constexpr Point kSetAccess[] = {
    {2 * kMiB, 38000}, {4 * kMiB, 24000}, {8 * kMiB, 22000}, {32 * kMiB, 23000}, {128 * kMiB, 25000}};
inline constexpr Point kUnmap[] = {
    {2 * kMiB, 15600}, {4 * kMiB, 15600}, {8 * kMiB, 14500}, {32 * kMiB, 14000}, {128 * kMiB, 16000}};
inline constexpr Point kRelease[] = {
    {2 * kMiB, 9700}, {4 * kMiB, 10000}, {8 * kMiB, 11000}, {32 * kMiB, 20000}, {128 * kMiB, 44000}};

// cudaMalloc and cudaFree were measured as a pair. The malloc is assumed to be 85 % of it, for every kind.
inline constexpr Point kMallocPair[] = {
    {512, 52295}, {64 * kKiB, 55600}, {kMiB, 55862}, {10 * kMiB, 58939}, {256 * kMiB, 636302}};
inline constexpr double kMallocShare = 0.85;

/// Reserving addresses, and giving them back.
inline constexpr double kAddress = 6000;
inline constexpr double kEventRecord = 190;
inline constexpr double kEventQuery = 144;
/// What a stream captures, and a wait for it.
inline constexpr double kStreamQuery = 171;
/// Whether a stream captures, or which context it belongs to (measured on an H100).
inline constexpr double kStreamState = 22;
inline constexpr double kStreamWait = 323;
inline constexpr double kMemoryInfo = 3800;
/// Exporting a chunk, and importing one: not measured, and taken to be as much as creating one.
inline constexpr double kShare = 10000;

/// Copies and fills: 2 TB/s on the device.
inline constexpr uint64_t kBytesPerNanosecond = 2000;

/// Between the device and page-locked host memory: fifth-generation PCIe, each way.
inline constexpr uint64_t kBusBytesPerNanosecond = 55;
/// Queueing one such copy.
inline constexpr double kTransfer = 1500;
/// A small kernel, on the device: looks of debug mode canary.
inline constexpr uint64_t kInspection = 2000;
/// Page-locking memory, per byte: 15 GiB/s, as several threads fault, clear and lock it in pages of 4 KiB;
/// one alone does 2.
inline constexpr double kPinByte = 0.06;

}  // namespace gpupool::internal::sim_prices
