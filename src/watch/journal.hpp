// SPDX-License-Identifier: Apache-2.0
// The file that a recording is written to: memory of this process, so that what was written outlives it.
//
// A page with the header is followed by chunks of 64 KiB, each written by one thread, in the order in which
// threads asked for them. docs/watch.md has the format. The file's pages are the kernel's: when the process
// is killed, they are written all the same. Room on the disk is taken before it is written to, since a store
// to a page that the disk has no room for would kill the process.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "base/status.hpp"

namespace gpupool::internal {

inline constexpr uint32_t kJournalVersion = 1;
inline constexpr uint32_t kJournalHeader = 4096;
inline constexpr uint32_t kJournalChunk = 64 * 1024;
inline constexpr uint32_t kJournalEnded = 1;  // flag: nothing was cut off
/// Times in the file are ticks shifted to the right by this.
inline constexpr uint32_t kTickShift = 4;

struct JournalHeader {
  char magic[8];  // "GPUPOOL", 1
  uint32_t version;
  uint32_t header_bytes;
  uint32_t chunk_bytes;
  std::atomic<uint32_t> flags;
  uint32_t pid;
  uint32_t tick_shift;
  uint64_t ticks_per_second;
  uint64_t start_ticks;
  uint64_t start_monotonic_ns;
  uint64_t start_realtime_ns;
  std::atomic<uint64_t> end_ticks;
  std::atomic<uint64_t> chunks;  // that threads have asked for
  std::atomic<uint64_t> lost;    // events for which the disk had no room
  char library[32];
  char command[1024];  // arguments, each followed by a zero
};

struct ChunkHeader {
  uint32_t magic;
  uint32_t thread;  // the system's number of it
  uint64_t first_ticks;
  uint32_t used;  // bytes behind this header; 0: until a zero
  uint32_t reserved;
  char name[16];  // of the thread
};
inline constexpr uint32_t kChunkMagic = 0x48435047;  // "GPCH"

// Readers know these places.
static_assert(offsetof(JournalHeader, lost) == 80 && sizeof(JournalHeader) == 1144 &&
              sizeof(ChunkHeader) == 40);

/// One recording's file. Never deleted, since a thread may still be writing to it when the recording ends.
class Journal {
 public:
  Journal() = default;
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  /// Makes the file, for its owner only; "%p" in the path becomes the process's number. What is there
  /// already, be it a symbolic link, is refused.
  Status create(const char* path, bool by_processor);

  /// A chunk for the calling thread, with its header; null where there is no room.
  uint8_t* claim(uint64_t now) noexcept;

  JournalHeader& header() noexcept { return *reinterpret_cast<JournalHeader*>(base_); }

  /// Ends the file. What threads write from here on is in no file.
  void close(uint64_t now) noexcept;

  /// After fork, in the child: the file is the parent's.
  void abandon() noexcept;

  // Around fork.
  void lock() noexcept { mutex_.lock(); }
  void unlock() noexcept { mutex_.unlock(); }

 private:
  Status map(const char* path);
  bool grow_to(uint64_t bytes) noexcept;
  bool detach_memory() noexcept;

  int file_ = -1;
  uint8_t* base_ = nullptr;
  uint64_t capacity_ = 0;           // bytes of addresses
  std::atomic<uint64_t> bytes_{0};  // of the file
  std::mutex mutex_;                // growing
};

}  // namespace gpupool::internal
