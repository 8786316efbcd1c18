// SPDX-License-Identifier: Apache-2.0
// The pool: heaps by stream, memory that moves between them, a limit, statistics.
//
// Locks, in the order in which they are taken: the registry's, the pool's, a thread cache's. The hot path
// takes only the last. The pool's lock is held across the driver's virtual-memory calls and queries, none of
// which waits for the GPU; never across a wait on the host, the driver's own malloc and free, or a callback.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/budget.hpp"
#include "core/counters.hpp"
#include "core/heap.hpp"
#include "core/ladder.hpp"
#include "pool/driver.hpp"
#include "pool/stream_order.hpp"
#include "pool/thread_cache.hpp"
#include "pool/thread_slots.hpp"

struct gpupool_t;

namespace gpupool {

struct StreamState;

/// A heap that knows its stream.
class StreamHeap final : public Heap {
 public:
  StreamHeap(Group group, Space& space, StreamState& state) : Heap(group, space), state_(state) {}

  StreamState& state() const noexcept { return state_; }

  /// The stream whose frees may go to quick bins; kNameless once released or parked, or if a capture has it.
  Stream name() const noexcept { return name_.load(std::memory_order_relaxed); }
  void set_name(Stream name) noexcept { name_.store(name, std::memory_order_relaxed); }

 private:
  StreamState& state_;
  std::atomic<Stream> name_{kNameless};
};

/// All that the pool knows of a stream. In a capture-aware pool, each capture has a state of its own.
struct StreamState {
  StreamState(Driver& driver, Space& space, Stream stream, uint64_t capture_number)
      : order(driver, stream),
        capture(capture_number),
        heaps{StreamHeap{Group::small, space, *this}, StreamHeap{Group::large, space, *this}} {}

  StreamHeap& heap(Group group) noexcept { return heaps[static_cast<size_t>(index_of(group))]; }
  void set_name(Stream name) noexcept {
    for (StreamHeap& heap : heaps) heap.set_name(name);
  }

  StreamOrder order;
  uint64_t capture;  // 0: not a capture's
  std::array<StreamHeap, kGroups> heaps;
};

class Pool {
 public:
  struct Options {
    bool vmm = true;
    bool capture_aware = false;
    Kind kind = Kind::device;
    double slack = 0;
    uint64_t max_chunk = 0;
    uint64_t limit = Budget::kNone;
  };

  Pool(std::unique_ptr<Device> device, const Options& options);
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  /// Set once, right after creation.
  void set_handle(gpupool_t* handle) noexcept;
  uint64_t id() const noexcept { return id_; }
  Driver& driver() noexcept { return driver_; }

  // What the functions of gpupool.h with the same names do.

  Status malloc(uint64_t size, uint64_t alignment, Stream stream, Address& address);
  Status free(Address address, Stream stream);
  Status record_stream(Address address, Stream stream);
  Status block_info(Address address, gpupool_block_t& block);
  Status release_stream(Stream stream);
  Status park_stream(Stream stream);
  Status capture_id(Stream stream, uint64_t& capture);
  Status release_capture(uint64_t capture);
  Status enable_peer(int32_t peer);
  Status synchronize();
  Status empty(uint64_t& released) { return trim(0, released); }
  Status trim(uint64_t target, uint64_t& released);
  Status reserve(uint64_t target, Stream stream);
  Status set_limit(uint64_t limit);
  Status set_oom_handler(gpupool_oom_fn_t fn, void* user);
  void stats(gpupool_stats_t& stats);
  void reset_peaks();
  void snapshot(std::vector<gpupool_segment_t>& segments, std::vector<gpupool_block_t>& blocks);
  std::string report();
  Status validate();

  // ---- for the registry

  /// The thread's cache becomes free for another thread.
  void detach_thread(ThreadCache* cache) noexcept;

  /// After gpupool_destroy: whether the last block is gone. Waits for the GPU and gives all memory back if
  /// so. True once only.
  bool finish();

  void lock_all() noexcept;
  void unlock_all() noexcept;

 private:
  using Lock = std::unique_lock<std::mutex>;

  /// An address range of a chunk that has moved on: unmapped once its stream has passed.
  struct Retired {
    StreamHeap* heap;
    Block* range;
    Chunk* chunk;
    uint64_t epoch;
  };

  /// Addresses are free, so old mappings are left until there are this many: a workload that settles never
  /// pays for removing them.
  static constexpr size_t kRetiredMax = 1;

  /// Streams that are found without a search.
  static constexpr unsigned kRecentBits = 4;

  /// A freed block that other streams may still be using.
  struct Pending {
    Block* block;
    std::vector<std::pair<StreamState*, uint64_t>> uses;
  };

  /// A chunk on its way to a gap.
  struct Piece {
    Chunk* chunk;
    StreamHeap* from;  // null: from hand, or new
  };

  /// A request on its way to memory.
  struct Growth {
    StreamState& state;
    StreamHeap& heap;
    uint64_t block;
    bool capturing;
    bool busy;  // may take chunks whose streams are still using them
    Ladder ladder;
    Supply supply;                                        // what may be stolen, by size
    std::vector<std::pair<StreamState*, uint64_t>> held;  // streams waited for so far, and until when
  };

  // sharing.cpp: streams that come and go
  Status leave_stream(Stream stream, bool for_good);
  Status leave(StreamState& state);

  // captures.cpp: memory that graphs use
  bool note_capture(const StreamState& state);
  bool keeps_mappings(const StreamState& state) const noexcept;

  // peers.cpp
  Status set_access_everywhere();

  // pool.cpp: blocks
  Status malloc_first(uint64_t size, uint64_t alignment, Stream stream, Address& address);
  Status malloc_locked(ThreadCache& cache, uint64_t size, Stream stream, Address& address);
  Status malloc_contended(ThreadCache& cache, uint64_t size, Stream stream, Address& address);
  Status malloc_slow(uint64_t size, uint64_t alignment, Stream stream, Address& address);
  Status raise_peak(ThreadCache& cache, Group group);
  Status free_locked(BlockOwner& owner, Block& block, Address address, Stream stream);
  Status free_contended(BlockOwner& owner, Block& block, Address address, Stream stream);
  Status free_slow(Address address, Stream stream);
  Status not_a_block(Address address);
  void attach_thread();
  static Status check_stream(Stream& stream);
  Status stream_state(Stream stream, StreamState*& state);
  Stream name_of(const StreamState& state) const noexcept;
  void hand_out(Block* block, ThreadCache& cache, uint64_t requested) noexcept;
  Block* take_back(Address address, Status& status);
  void give(Block* block) noexcept;
  void give_list(Block* first) noexcept;

  // ladder.cpp: from a request to a block, or to a report
  Status obtain(Lock& lock, StreamState& state, uint64_t bytes, uint64_t alignment, Block*& block);
  Block* take_cached(StreamHeap& heap, uint64_t bytes, uint64_t alignment);
  Status grow(Lock& lock, StreamState& state, uint64_t bytes, uint64_t alignment, Block*& block);
  bool ask_handler(Lock& lock, uint64_t bytes, uint32_t attempt);
  void empty_other_pools(Lock& lock);
  Status fail_malloc(Status status, uint64_t bytes);

  // handover.cpp: memory of other streams, where it is
  bool take_over(StreamState& state, uint64_t bytes, uint64_t alignment);
  bool is_idle(StreamState& state, const Window& run);

  // growth.cpp: backing addresses with chunks
  Status grow_vmm(StreamState& state, uint64_t bytes, uint64_t alignment, bool capturing);
  Status find_places(StreamHeap& heap, uint64_t bytes, uint64_t alignment,
                     std::array<Window, Heap::kMaxWindows>& windows, size_t& count);
  Status add_region(StreamHeap& heap, uint64_t bytes);
  Status back(Growth& growth, const Window& window);
  Status fill(Growth& growth, const Window& window, const Gap& gap);
  Status collect(Growth& growth, const Gap& gap, std::vector<Piece>& pieces);
  Status next_piece(Growth& growth, uint64_t need, uint64_t room, Piece& piece);
  Status map_pieces(const Gap& gap, const std::vector<Piece>& pieces, Region* region, StreamHeap& heap);
  void put_back(const std::vector<Piece>& pieces) noexcept;
  bool can_afford_fine();
  bool may_take(const Growth& growth, const StreamHeap& heap, uint64_t epoch);
  void count_supply(Growth& growth);
  size_t count_class(const Growth& growth, const StreamHeap& heap, size_t size_class);
  bool steal(Growth& growth, uint64_t need, uint64_t room, Piece& piece);
  void consider(const Growth& growth, StreamHeap& heap, size_t size_class, StreamHeap*& from, Chunk*& best);
  Status create_for(Growth& growth, uint64_t need, uint64_t room, Chunk*& chunk);
  Status create_chunk(uint64_t size, Chunk*& chunk);
  Status hold(Growth& growth, StreamState& from, uint64_t epoch);
  bool prefers_creating(uint64_t bytes) const noexcept;
  void attach(StreamHeap& heap, Region* region, Address address, Chunk* chunk, uint64_t epoch) noexcept;
  Block* detach(Chunk* chunk) noexcept;
  void unmap_retired();

  // segments.cpp: memory of the driver's own malloc
  Status grow_segment(Lock& lock, StreamState& state, uint64_t bytes, uint64_t alignment);
  uint64_t most_in_segments();
  Status add_segment(Lock& lock, StreamState& state, Group group, uint64_t size);
  Status free_segments(Lock& lock, uint64_t target);

  // give_back.cpp
  Status release_until(uint64_t target, bool& blocked);
  bool release_oldest(bool& blocked, Status& status);
  Status release_chunk(Chunk* chunk);
  Status wait_for_streams(Lock& lock);
  void drain(ThreadCache& cache, Stream stream, Group group);
  void drain(ThreadCache& cache);
  void drain_stream(Stream stream, Group group);
  void drain_all();
  void drain_resting();
  void settle_pending();

  // observe.cpp
  bool handle_is_usable() const noexcept;
  std::string report_locked();
  std::string chunks_by_size() const;
  uint64_t live_floor() const;
  uint64_t kept_by_captures() const noexcept;
  void publish_all();
  void publish(ThreadCache& cache) noexcept;
  Amounts live_amounts();

  gpupool_t* handle_ = nullptr;
  uint64_t id_ = 0;
  Options options_;
  Driver driver_;
  Ladder ladder_;
  uint64_t created_at_ = 0;  // in the device's time
  Budget budget_;

  mutable std::mutex mutex_;                                       // the pool's lock: guards everything below
  Space space_;                                                    // its map without the lock
  std::map<std::pair<Stream, uint64_t>, StreamState*> by_stream_;  // and capture
  std::vector<std::unique_ptr<StreamState>> streams_;
  std::array<StreamState*, size_t{1} << kRecentBits> recent_{};  // of by_stream_, without captures
  std::vector<std::unique_ptr<ThreadCache>> caches_;
  std::vector<Retired> retired_;
  std::vector<Pending> pending_;
  std::vector<uint64_t> captures_;                               // that a pool without the flag has grown for
  std::unordered_map<Block*, std::vector<StreamState*>> users_;  // of live blocks that others use too
  std::vector<Chunk*> in_hand_;
  Counters counters_;
  Flow reserved_;
  Flow chunks_;
  std::array<Flow, kGroups> group_reserved_;
  std::array<Flow, kGroups> group_chunks_;
  uint64_t age_ = 0;
  uint64_t tick_ = 0;
  uint64_t steals_ = 0;
  uint64_t stream_steals_ = 0;
  uint64_t retries_ = 0;
  uint64_t handler_calls_ = 0;
  uint64_t failed_mallocs_ = 0;
  gpupool_oom_fn_t oom_fn_ = nullptr;
  void* oom_user_ = nullptr;
  bool is_finishing_ = false;
};

}  // namespace gpupool
