// SPDX-License-Identifier: Apache-2.0
// Who may touch a stream.
#pragma once

#include "device/device.hpp"

namespace gpupool::internal {

class StreamUser;

/// CU_STREAM_LEGACY: the same queue as 0.
inline constexpr Stream kLegacyStream = 1;

/// Checks that a number can be a stream of a pool. Turns kLegacyStream into 0.
Status check_stream(Stream& stream);
Status check_stream(StreamUser& user);

/// Shows that the caller of the call under way uses a stream, so that no capture begins or ends there
/// meanwhile. Only with it may the driver be asked what a stream captures, and only with it may a stream be
/// given an event or a wait: from elsewhere, that ends the capture or the process
/// (docs/lab/2026-11-captures.md). The hall makes one for the stream that a call names, Streams for one that
/// the calling thread itself has captured on, and nobody else can.
class StreamUser {
 public:
  /// A stream that the pool has made for its own work.
  static StreamUser of_own(Stream stream) noexcept { return StreamUser(stream); }

  Stream stream() const noexcept { return stream_; }

 private:
  friend class Pool;
  friend class Streams;
  friend Status check_stream(StreamUser& user);
  explicit StreamUser(Stream stream) noexcept : stream_(stream) {}

  Stream stream_;
};

}  // namespace gpupool::internal
