// SPDX-License-Identifier: Apache-2.0
// The file of a recording, mapped into this process, so that what was written outlives the process.
//
// A page with the header is followed by chunks of 64 KiB, each written by one thread, in the order in which
// threads asked for them. docs/watch.md has the format. The file's pages belong to the kernel, which writes
// them even if the process is killed. Room on the disk is allocated before it is written to, because a store
// to a page without room on the disk would kill the process.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "base/status.hpp"
#include "os/files.hpp"
#include "wire/recording.hpp"

namespace gpupool::internal {

using JournalHeader = wire::recording::Header;
using wire::recording::ChunkHeader;

inline constexpr uint32_t kJournalHeader = wire::recording::kHeaderBytes;
inline constexpr uint32_t kJournalChunk = 64 * 1024;
inline constexpr uint64_t kJournalMost = wire::recording::kMostBytes;
inline constexpr uint64_t kJournalStep = uint64_t{1} << 20;  // by which it grows
/// Times in the file are ticks shifted to the right by this.
inline constexpr uint32_t kTickShift = 4;

/// One recording's file. Its memory stays until no thread has a chunk of it, since one may still be writing
/// when the recording ends; who deletes it knows that (`recorder.cpp`).
class Journal {
 public:
  Journal() = default;
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;
  ~Journal();

  /// Creates the file, for its owner only. An existing file or symbolic link is refused.
  Status create(const char* path, bool by_processor);

  /// A chunk for the calling thread, with its header; null if there is no room.
  uint8_t* claim_chunk(uint64_t now) noexcept;

  /// The thread that has this chunk writes no more to it, and has written up to `end`.
  static void end_chunk(uint8_t* chunk, const uint8_t* end) noexcept;

  /// Bytes that the file may have.
  uint64_t capacity() const noexcept { return capacity_; }
  JournalHeader& header() noexcept { return *reinterpret_cast<JournalHeader*>(base_); }

  /// Ends the file. What threads write from here on goes into no file.
  void close(uint64_t now) noexcept;

  /// As close, and the file goes.
  void discard(uint64_t now) noexcept;

  /// After fork, in the child: the file belongs to the parent.
  void abandon() noexcept;

  // Around fork.
  void lock() noexcept { mutex_.lock(); }
  void unlock() noexcept { mutex_.unlock(); }

 private:
  // Each system's own. What fails says so in errno.
  bool open_file(const char* path) noexcept;
  /// A failure leaves no file.
  Status map(const char* path);
  bool take_room(uint64_t from, uint64_t bytes) noexcept;
  bool detach_memory() noexcept;
  uint64_t kept_bytes() const noexcept;

  bool grow_to(uint64_t bytes) noexcept;

  os::KeptFile file_;
  uint8_t* base_ = nullptr;
  uint64_t capacity_ = 0;           // bytes of addresses
  std::atomic<uint64_t> bytes_{0};  // of the file
  // Chunks, as the header has them. That goes with the file, and late threads must not get one chunk.
  std::atomic<uint64_t> begun_{0};
  std::mutex mutex_;  // growing
};

}  // namespace gpupool::internal
