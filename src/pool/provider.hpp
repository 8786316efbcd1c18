// SPDX-License-Identifier: Apache-2.0
// Serves a request that no thread's cache can: from the stream's heap, from the pool's source, and, if both
// are short, with what Shortage tries. The last resort is an error that explains.
#pragma once

#include <cstdint>

#include "base/status.hpp"
#include "core/range.hpp"
#include "pool/shortage.hpp"
#include "pool/sleeper.hpp"

namespace gpupool::internal {

class Report;
class RunStealer;
class Source;
class StreamHeap;
class Watcher;

/// Guarded by the pool's lock, which it gives up for whatever may take long.
class Provider {
 public:
  Provider(const Means& means, Source& source, RunStealer& stealer, Sleeper& sleeper, const Watcher& watcher,
           const Report& report) noexcept
      : means_(means),
        rooms_(means.rooms),
        way_back_(means.way_back),
        source_(source),
        run_stealer_(stealer),
        sleeper_(sleeper),
        watcher_(watcher),
        report_(report) {}
  Provider(const Provider&) = delete;
  Provider& operator=(const Provider&) = delete;

  /// A block of the stream's heap, or a shortage, explained. The guest has been admitted. Throws
  /// std::bad_alloc.
  Status provide(QuietLock& lock, Sleeper::Guest& guest, StreamState& state, uint64_t bytes,
                 uint64_t alignment, Range*& block);

  /// Explains a shortage in the thread's error record, and counts it; returns the status.
  Status explain(Status status, uint64_t bytes);

  /// For Shortage: gets memory for the heap, and a block from it. With `last`, the step before failing, it
  /// leaves nothing out.
  Status grow(QuietLock& lock, StreamState& state, uint64_t bytes, uint64_t alignment, bool last,
              Range*& block);

 private:
  Range* allocate_from_heap(QuietLock& lock, StreamHeap& heap, uint64_t bytes, uint64_t alignment);

  const Means means_;
  const Rooms& rooms_;
  WayBack& way_back_;
  Source& source_;
  RunStealer& run_stealer_;
  Sleeper& sleeper_;
  const Watcher& watcher_;
  const Report& report_;
};

}  // namespace gpupool::internal
