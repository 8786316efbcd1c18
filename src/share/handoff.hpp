// SPDX-License-Identifier: Apache-2.0
// How the chunks of a block come from one process to another. Both sides in one picture:
//
//   exporter                                        importer
//   Offer: a ticket, which is a file in memory      Taking: fetches the ticket with pidfd_getfd,
//   with a random number and a list of the          compares the random number, holds the ticket,
//   chunks' descriptors                             and fetches the chunks that it lists
//
// A process and a descriptor are numbers that others may have later; while the ticket has the random number
// of the handle, the descriptors in it are what they were. Taking holds the ticket with a lock of a file that
// it opened itself, and that only a mapping keeps open: it goes with the process, however that ends, is in no
// forked child, and costs no descriptor. So neither side needs a thread, a socket or a name in a file system.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/no_copy.hpp"
#include "base/status.hpp"
#include "share/region.hpp"

namespace gpupool::internal::share {

/// A chunk of the block, in the order of addresses.
struct HandoffPart {
  uint64_t size = 0;
  uint64_t offset = 0;  // in the file behind the descriptor
  File file;
};

struct Handoff {
  std::string device;  // its id
  uint64_t start = 0;  // of the block in its first chunk
  uint64_t size = 0;   // of the block
  std::vector<HandoffPart> parts;
};

/// The begin of a ticket, which both sides map. Only the importers' side writes to it: how many of them are
/// there, or were killed.
struct TicketHead {
  char magic[8];
  uint64_t number[2];
  std::atomic<uint64_t> importers;
  std::atomic<uint32_t> closed;
  uint32_t part_count;
  uint64_t start;
  uint64_t size;
};

/// A page of the ticket, mapped so that no child has it.
class Ticket {
 public:
  Ticket() = default;
  explicit Ticket(TicketHead* head) noexcept : head_(head) {}
  Ticket(Ticket&& other) noexcept;
  Ticket& operator=(Ticket&& other) noexcept;
  ~Ticket();
  TicketHead* operator->() const noexcept { return head_; }
  explicit operator bool() const noexcept { return head_ != nullptr; }
  /// In a child after fork, which does not have the mapping.
  void forget() noexcept { head_ = nullptr; }

 private:
  TicketHead* head_ = nullptr;
};

/// A block that other processes may take. Not thread-safe.
class Offer {
 public:
  /// Takes over the descriptors of the parts.
  static Status make(Handoff handoff, std::unique_ptr<Offer>& offer);

  const std::string& handle() const noexcept { return handle_; }
  /// From now on nobody can take it any more.
  void close() noexcept;
  /// Whether it is closed, and nobody who has taken it may still use it.
  bool is_over() noexcept;
  /// In a child after fork: it is the parent's.
  void forget() noexcept;

 private:
  Offer() = default;

  std::string handle_;
  File file_;
  Ticket ticket_;
  std::vector<HandoffPart> parts_;
  [[maybe_unused]] uint64_t died_at_ = 0;  // when it was found that an importer had died
};

/// A block taken from another process, for as long as it lives. Not thread-safe.
class Taking : NoCopy {
 public:
  /// INVALID_ARGUMENT: `handle` is none, or of another device. UNAVAILABLE: it is good no more, or the system
  /// forbids it. The descriptors of the parts are this process's own.
  static Status take(std::string_view handle, const char* device, std::unique_ptr<Taking>& taking);
  ~Taking();

  const Handoff& handoff() const noexcept { return handoff_; }
  /// Once the chunks are mapped.
  void close_descriptors() noexcept;
  /// In a child after fork: it is the parent's.
  void forget() noexcept { ticket_.forget(); }

 private:
  Taking() = default;

  Handoff handoff_;
  Ticket ticket_;
};

/// Whether processes can hand memory over on this system: UNSUPPORTED if not.
Status check_handoff();

}  // namespace gpupool::internal::share
