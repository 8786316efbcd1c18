// SPDX-License-Identifier: Apache-2.0
// A broker has the regions of groups whose members are processes of several users: files in memory that
// nobody can truncate, handed out over a socket. docs/inside/broker.md has the protocol.
#pragma once

#include <cstdint>

#include "share/region.hpp"

namespace gpupool::internal::share {

/// One question to a broker. No thread waits for it under a lock, so ask() may wait, and receive() may not.
class BrokerCall {
 public:
  /// Asks the broker at place.socket for the region, and waits until an answer is there, for at most 5 s.
  /// `makes`: there may be none yet. UNAVAILABLE, with the reason: no answer, or none that may be trusted.
  Status ask(const Place& place, bool makes);

  /// Receives what ask() waited for, and opens the region anew, for locks of its own. `sign`: while a
  /// descriptor or a mapping of it lives, no other broker starts the group again. UNAVAILABLE: refused, or
  /// not a region that may be used.
  Status receive(const Place& place, File& region, File& sign);

 private:
  File connection_;
};

/// Opens a region that exists, a folder's or a broker's. UNAVAILABLE, with the reason.
Status open_existing(const Place& place, File& region);

/// What a member of a broker's group keeps: how to open its region again, whatever becomes of the broker, and
/// the sign that it lives. Neither holds a lock of the region.
class Anchor {
 public:
  Anchor() = default;
  Anchor(const Anchor&) = delete;
  Anchor& operator=(const Anchor&) = delete;
  ~Anchor();

  Status take(const Place& place, const File& region, const File& sign);
  /// UNAVAILABLE if the program has closed the descriptor.
  Status open(const Place& place, File& region) const;
  /// In a child after fork.
  void forget() noexcept;

 private:
  bool is_ours() const noexcept;

  int path_ = -1;  // opened as a path only
  uint64_t device_ = 0;
  uint64_t inode_ = 0;
  void* sign_ = nullptr;
};

}  // namespace gpupool::internal::share
