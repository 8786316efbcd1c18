// SPDX-License-Identifier: Apache-2.0
// The pool: heaps by stream, memory that moves between them, a limit, statistics.
//
// Locks, in the order in which they are taken: the registry's, the pool's, a thread cache's. The hot path
// takes only the last. The pool's lock is held across the driver's virtual-memory calls and queries, none of
// which waits for the GPU; never across a wait on the host, the driver's own malloc and free, or a callback.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "core/chunk_sizer.hpp"
#include "core/counters.hpp"
#include "core/governor.hpp"
#include "core/heap.hpp"
#include "pool/caches.hpp"
#include "pool/ledger.hpp"
#include "pool/metered_device.hpp"
#include "pool/pending.hpp"
#include "pool/quiet_lock.hpp"
#include "pool/sighting.hpp"
#include "pool/sleeper.hpp"
#include "pool/streams.hpp"
#include "pool/thread_slots.hpp"
#include "watch/recorder.hpp"
#include "watch/sampler.hpp"

struct gpupool_t;

namespace gpupool::internal {

class Pool {
 public:
  struct Options {
    bool vmm = true;
    bool capture_aware = false;
    Kind kind = Kind::device;
    double slack = 0;  // -1: always tight
    uint64_t max_chunk = 0;
    uint64_t limit = Budget::kNone;
    bool is_upstream = false;  // memory that the user's callbacks supply
    bool is_child = false;     // moves nothing, and gives nothing back but when it is asked to
  };

  Pool(std::unique_ptr<Device> device, const Options& options);
  /// A child, which takes after its parent and shares its device and limit.
  explicit Pool(const std::shared_ptr<Pool>& parent);
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  /// Set once, right after creation.
  void set_handle(gpupool_t* handle) noexcept;
  uint64_t id() const noexcept { return id_; }
  const Options& options() const noexcept { return options_; }
  MeteredDevice& device() noexcept { return device_; }

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
  Status empty(uint64_t& released) { return trim(0, released, "empty"); }
  Status trim(uint64_t target, uint64_t& released, const char* why = "trim");
  Status reserve(uint64_t target, Stream stream);
  Status set_limit(uint64_t limit);
  Status set_oom_handler(gpupool_oom_fn_t fn, void* user);
  void stats(gpupool_stats_t& stats);
  void reset_peaks();
  void snapshot(std::vector<gpupool_segment_t>& segments, std::vector<gpupool_block_t>& blocks);
  std::string report();
  void holders(std::vector<gpupool_holder_t>& holders);
  Status validate();
  Sleeper& sleeper() noexcept { return sleeper_; }
  /// Not destroyed, inherited or about to end with the driver.
  bool is_live() const noexcept;

  /// Takes notice of a recording, or a distance of samples, that has begun or ended.
  void watch_anew();

  // ---- for the registry

  /// The thread's cache becomes free for another thread.
  void detach_thread(ThreadCache* cache) noexcept;

  /// After gpupool_destroy: whether the last block is gone. Waits for the GPU and gives all memory back if
  /// so. True once only, when the device has it.
  bool finish();

  void lock_all() noexcept;
  void unlock_all() noexcept;

 private:
  friend class Sleeper;
  using Lock = QuietLock;

  /// The pool's lock, and a new round of questions to the driver.
  Lock enter();

  /// An address range of a chunk that has moved on: unmapped once its stream has passed.
  struct Retired {
    StreamHeap* heap;
    Range* range;
    Chunk* chunk;
    uint64_t epoch;
    uint64_t capture;       // whose graph may use it; 0: none
    bool away = false;      // the pool sleeps: it cannot be used now
    bool unmapped = false;  // of one that is away
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
    bool busy;     // may take chunks whose streams are still using them
    bool creates;  // rather than to take what there is
    bool apart;    // rather than to take what other streams are entitled to
    ChunkSizer sizer;
    Supply supply;                                        // what may be stolen, by size
    std::vector<std::pair<StreamState*, uint64_t>> held;  // streams waited for so far, and until when
    uint64_t between = 0;                                 // bytes that came from other streams
    uint64_t within = 0;                                  // bytes that came from elsewhere in this one
    uint64_t moved_ns = 0;                                // what moving them took
  };

  // sharing.cpp: streams that come and go
  Status leave_stream(Stream stream, bool for_good);

  // captures.cpp: memory that graphs use
  bool note_capture(const StreamState& state);
  bool keeps_mappings(const StreamState& state) const noexcept;
  Status check_ended(uint64_t capture);
  void lower_chunks(std::vector<Piece>& piece);
  bool lower(const std::vector<Piece>& piece);

  // peers.cpp
  Status set_access_everywhere();
  Status set_access_in_family(const std::vector<std::shared_ptr<Pool>>& pools);

  // pool.cpp: blocks
  Status malloc_first(uint64_t size, uint64_t alignment, Stream stream, Address& address);
  Status malloc_locked(ThreadCache& cache, uint64_t size, Stream stream, Address& address);
  Status malloc_contended(ThreadCache& cache, uint64_t size, Stream stream, Address& address);
  Status malloc_slow(uint64_t size, uint64_t alignment, Stream stream, Address& address);
  Status malloc_under_lock(uint64_t size, uint64_t alignment, Stream stream, Address& address,
                           Sighting& seen);
  Status raise_peak(ThreadCache& cache, Range& block);
  Status malloc_further(ThreadCache& cache, uint64_t size, Stream stream, Address& address);
  Status malloc_cached(ThreadCache& cache, Group group, Range& block, uint64_t size, Address& address);
  Status free_locked(Range& block, Tag tag, Address address, Stream stream);
  Status free_contended(Range& block, Tag tag, Address address, Stream stream);
  Status free_further(Range& block, Tag tag, Stream stream);
  Status free_cached(Range& block, Tag tag, Group group, uint64_t bytes);
  Status free_slow(Address address, Stream stream);
  bool free_watched(Address address, Stream stream);
  Status not_a_block(Address address);
  void attach_thread();
  static Status check_stream(Stream& stream);
  Status find_user(const Range& block, Stream stream, bool& is_other, StreamState*& user);
  void hand_out(Range* block, ThreadCache& cache, uint64_t requested, Sighting& seen) noexcept;
  Range* take_back(Address address, Status& status);
  void give(Range& block) noexcept;
  void give_list(Range* first) noexcept;

  // watch.cpp: samples, and events for a recording
  Sighting see_malloc(ThreadCache& cache, Range& block) noexcept;
  void tell_malloc(const Sighting& seen) noexcept;
  static bool is_only_watched(const ThreadCache& cache, const Range& block, Address address,
                              Stream stream) noexcept;
  Sighting see_free(ThreadCache& cache, Range& block) noexcept;
  void tell_free(const Sighting& seen) const noexcept;
  std::string largest_holders(size_t count);
  Status name_holders(Status status);
  void record_use(const Range& block, Stream stream) const noexcept;
  void record_failure(uint64_t bytes) const noexcept;
  void record_chunk(Happening kind, const StreamHeap& heap, Address address, uint64_t bytes) const noexcept;
  std::vector<Entry> state_for_recording();
  void name_in_recording() const noexcept;

  // shortage.cpp: from a request to a block, or to a report
  Status obtain(Lock& lock, StreamState& state, uint64_t bytes, uint64_t alignment, Range*& block);
  Status obtain_at_last(Lock& lock, StreamState& state, uint64_t bytes, uint64_t alignment, Range*& block);
  Range* take_cached(StreamHeap& heap, uint64_t bytes, uint64_t alignment);
  Status grow(Lock& lock, StreamState& state, uint64_t bytes, uint64_t alignment, bool last, Range*& block);
  bool ask_handler(Lock& lock, uint64_t bytes, uint32_t attempt);
  void empty_other_pools(Lock& lock);
  bool make_room(Lock& lock, uint64_t bytes);
  Status fail_malloc(Status status, uint64_t bytes);

  // handover.cpp: memory of other streams, where it is
  bool take_over(StreamState& state, uint64_t bytes, uint64_t alignment, bool all);
  bool is_idle(StreamState& state, const Window& run);

  // growth.cpp: backing addresses with chunks
  Status grow_vmm(StreamState& state, uint64_t bytes, uint64_t alignment, bool capturing);
  Status find_places(StreamHeap& heap, uint64_t bytes, uint64_t alignment,
                     std::array<Window, Heap::kMaxWindows>& windows, size_t& count);
  uint64_t region_size(Group group) const noexcept;
  Status add_region(StreamHeap& heap, uint64_t bytes);
  void release_region(Region& region) noexcept;
  void release_regions() noexcept;
  Status back(Growth& growth, const Window& window);
  Status fill(Growth& growth, const Window& window, const Gap& gap);
  Status collect(Growth& growth, const Gap& gap, std::vector<Piece>& pieces);
  Status next_piece(Growth& growth, uint64_t need, uint64_t room, Piece& piece);
  Status map_pieces(const Gap& gap, const std::vector<Piece>& pieces, Region* region, StreamHeap& heap);
  void put_back(const std::vector<Piece>& pieces) noexcept;
  bool can_afford_fine();
  bool may_take(const Growth& growth, const Chunk& chunk);
  void count_supply(Growth& growth);
  size_t count_class(const Growth& growth, size_t size_class);
  bool steal(Growth& growth, uint64_t need, uint64_t room, Piece& piece);
  Chunk* find_free(const Growth& growth, size_t size_class);
  Status create_for(Growth& growth, uint64_t need, uint64_t room, Chunk*& chunk);
  Status create_chunk(uint64_t size, Chunk*& chunk);
  Status hold(Growth& growth, StreamState& from, uint64_t epoch);
  void note_use(StreamHeap& heap, uint64_t bytes) noexcept;
  bool prefers_creating(uint64_t bytes, uint64_t now);
  bool is_within_slack(uint64_t bytes) const noexcept;
  bool has_room(uint64_t bytes);
  void give_back_surplus() noexcept;
  void note_moved(const Growth& growth) noexcept;
  void attach(StreamHeap& heap, Region* region, Address address, Chunk* chunk, uint64_t epoch) noexcept;
  Range* detach(Chunk* chunk) noexcept;
  void unmap_retired() noexcept;
  void unmap(std::vector<Retired>& entries) noexcept;

  // segments.cpp: memory of the driver's own malloc
  Status grow_segment(Lock& lock, StreamState& state, uint64_t bytes, uint64_t alignment);
  uint64_t most_in_segments();
  Status add_segment(Lock& lock, StreamState& state, Group group, uint64_t size);
  Status free_segments(Lock& lock, uint64_t target);
  Status check_segment(const Chunk& chunk, bool& overlaps);
  Chunk* find_idle_segment();

  // give_back.cpp
  Status release_until(uint64_t target, bool& blocked, bool is_asked_for = false);
  Status release_in_hand(uint64_t target, bool& blocked);
  Status release_free(uint64_t target, bool& blocked);
  Status release_chunk(Chunk* chunk);
  Status wait_for_streams(Lock& lock, const char* why);
  Status reserve_chunks(StreamHeap& heap, uint64_t target, uint64_t missing);
  void unmap_all() noexcept;
  void unmap_region(Region& region) noexcept;
  static bool keeps_addresses(const std::vector<Retired>& entries, const Region& region) noexcept;
  bool is_unmapped(const Region& region) const noexcept;
  void drain_stream(Stream stream, Group group);
  void drain_all();
  void drain_resting();
  void settle_pending(bool all = false);

  // tell.cpp: what the log is told at level debug
  struct Standing {
    uint64_t bytes_created;
    uint64_t chunks_created;
    uint64_t bytes_released;
    uint64_t chunks_released;
    uint64_t steals;
  };
  Standing standing() const noexcept;
  [[gnu::format(printf, 2, 3)]] void tell(const char* format, ...) const noexcept;
  void tell_growth(const Standing& before, const StreamState& state, uint64_t bytes) const noexcept;
  void tell_given_back(const Standing& before, const char* why) const noexcept;
  void tell_moved(const std::vector<Piece>& pieces, const StreamState& to) const noexcept;
  void tell_taken(uint64_t bytes, const StreamState& from, const StreamState& to,
                  const char* how) const noexcept;
  void tell_wait(uint64_t nanoseconds, size_t streams, const char* why) const noexcept;
  void tell_shortage(uint64_t bytes, const StreamState& state, const char* what) const noexcept;

  // observe.cpp
  bool handle_is_usable() const noexcept;
  std::string report_locked();
  std::string family_report() const;
  std::string chunks_by_size() const;
  uint64_t releasable() noexcept;
  template <typename Visit>
  void visit_cached(Visit visit);
  uint64_t kept_by_captures() const noexcept;
  void fold_counters() noexcept;
  Amounts live_amounts();
  Amounts pending_amounts();

  gpupool_t* handle_ = nullptr;
  uint64_t id_ = 0;
  Options options_;
  std::weak_ptr<Pool> parent_;
  MeteredDevice device_;
  ChunkSizer sizer_;
  Governor governor_;
  uint64_t created_at_ = 0;  // in the device's time

  mutable std::mutex mutex_;  // the pool's lock: guards everything below
  Ledger ledger_;             // its budget without the lock
  Space space_;               // its map without the lock
  Streams streams_;
  Caches caches_;
  Pending pending_;
  Counters counters_;
  std::vector<Retired> retired_;
  std::vector<Retired> kept_;       // those that graphs may use
  ChunkList in_hand_;               // chunks that back nothing
  std::vector<uint64_t> captures_;  // that a pool without the flag has grown for
  uint64_t most_used_ = 0;          // by the blocks of each heap, summed
  uint64_t window_ = 0;             // when the window of time began in which that is measured
  bool is_new_window_ = false;
  size_t neighbour_ = 0;  // the next whose memory take_over() looks at
  uint64_t steals_ = 0;
  uint64_t stream_steals_ = 0;
  uint64_t retries_ = 0;
  uint64_t handler_calls_ = 0;
  uint64_t failed_mallocs_ = 0;
  gpupool_oom_fn_t oom_fn_ = nullptr;
  void* oom_user_ = nullptr;
  bool is_finishing_ = false;
  mutable std::atomic<uint32_t> named_in_{0};  // the recording that knows this pool's name
  uint32_t stated_in_ = 0;                     // and the one that knows what was there when it began
  Sampler sampler_;                            // has a lock of its own
  Sleeper sleeper_{*this};
};

}  // namespace gpupool::internal
