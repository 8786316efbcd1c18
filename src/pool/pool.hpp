// SPDX-License-Identifier: Apache-2.0
// The pool: heaps by stream, memory that moves between them, a limit, statistics.
//
// Locks, in the order in which they are taken: the registry's, the pool's, a thread cache's. The hot path
// takes only the last. The pool's lock is held across the driver's virtual-memory calls and queries, none of
// which waits for the GPU; but never across a wait on the host, the driver's own malloc and free, or a
// callback.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "pool/cache/thread_slots.hpp"
#include "pool/debug/debugger.hpp"
#include "pool/memory/exports.hpp"
#include "pool/memory/peer_access.hpp"
#include "pool/memory/pool_state.hpp"
#include "pool/memory/protections.hpp"
#include "pool/memory/run_stealer.hpp"
#include "pool/memory/source.hpp"
#include "pool/observe/display.hpp"
#include "pool/observe/report.hpp"
#include "pool/observe/statistics.hpp"
#include "pool/request/ask_group.hpp"
#include "pool/request/capacity.hpp"
#include "pool/request/helpers.hpp"
#include "pool/request/idle.hpp"
#include "pool/request/oom_handler.hpp"
#include "pool/request/reclaimer.hpp"
#include "pool/request/shortage.hpp"
#include "pool/request/slow_free.hpp"
#include "pool/request/slow_malloc.hpp"
#include "pool/request/watcher.hpp"
#include "pool/sleep/sleeper.hpp"
#include "watch/sampler.hpp"

struct gpupool_t;

namespace gpupool::internal {

class Pool {
 public:
  using Options = PoolOptions;

  /// `helpers` may have what it is short of.
  Pool(std::unique_ptr<Device> device, const Options& options, std::unique_ptr<Helpers> helpers);
  /// A child, which takes its options from its parent and shares the parent's device and limit.
  Pool(Pool& parent, std::unique_ptr<Helpers> helpers);
  ~Pool();

  /// Call it once, right after creation.
  Status begin() { return debugger_ != nullptr ? debugger_->begin() : kSuccess; }
  /// Charges its memory to a group too, from now on. Call it once, right after creation.
  void share(std::unique_ptr<GroupLimit> group) noexcept;
  /// Takes note that it was to share, and cannot.
  void run_alone() noexcept { state_.group.runs_alone = true; }
  /// The group it shares with; null: none.
  const GroupLimit* group() const noexcept { return state_.group.limit; }

  /// Call it once, right after creation.
  void set_handle(gpupool_t* handle) noexcept;
  uint64_t id() const noexcept { return state_.id; }
  /// For the rooms of process/, which see all pools.
  PoolState& state() noexcept { return state_; }
  const Options& options() const noexcept { return state_.options; }
  MeteredDevice& device() noexcept { return state_.device; }
  const MeteredDevice& device() const noexcept { return state_.device; }
  /// Whether it is charged to the same limit.
  bool shares_limit(const Budget& other) const noexcept {
    return state_.ledger.budget().shared() == other.shared();
  }

  // What the functions of gpupool.h with the same names do.

  Status malloc(uint64_t size, uint64_t alignment, Stream stream, Address& address);
  Status malloc_behind(uint64_t size, Address behind, Stream stream, Address& address);
  Status free(Address address, Stream stream);
  Status record_stream(Address address, Stream stream);
  Status block_info(Address address, gpupool_block_t& block);
  Status release_stream(Stream stream) { return retire_stream(StreamUser(stream), true); }
  Status park_stream(Stream stream) { return retire_stream(StreamUser(stream), false); }
  Status capture_id(Stream stream, uint64_t& capture);
  Status release_capture(uint64_t capture);
  Status synchronize();
  Status synchronize_stream(Stream stream);
  Status empty(uint64_t& released) { return trim(0, released, "empty"); }
  Status trim(uint64_t target, uint64_t& released, const char* why = "trim") {
    return capacity_.trim(target, released, why);
  }
  Status reserve(uint64_t target, Stream stream) { return capacity_.reserve(target, StreamUser(stream)); }
  Status set_limit(uint64_t asked, const Ceiling& ceiling = {});
  Status request_from_group(uint64_t bytes, uint64_t wait_ns);
  Status set_oom_handler(gpupool_oom_fn_t fn, void* user);
  void stats(gpupool_stats_t& stats);
  void reset_peaks() {
    const Lock lock = enter();
    statistics_.reset_peaks();
  }
  Status count_parts(int32_t what, SizeGroup group, const Amounts& parts, int32_t change) {
    const Lock lock = enter();
    statistics_.count_parts(what, group, parts, change);
    return kSuccess;
  }
  void snapshot(std::vector<gpupool_segment_t>& segments, std::vector<gpupool_block_t>& blocks);
  std::string report();
  Status validate();
  /// Looks for damage that debug modes can see. Gives how much was found so far, and the last of it in words.
  Status check(uint64_t& count, std::string& text);
  Status protect(Address address, Permission access) {
    const Lock lock = enter();
    return protections_.set(*source_, address, access);
  }
  Status export_block(Address address, std::string& handle);
  Status import_block(std::string_view handle, Address& address, uint64_t& size) {
    const Lock lock = enter();
    return imports_.open(handle, address, size);
  }
  Status close_import(Address address) {
    Lock lock = enter();
    return imports_.close(lock, address);
  }
  /// Says what is at an address. Returns how sure that is, 0: nothing is known. Call it with no lock held.
  int explain(Address address, std::string& text);
  Sleeper& sleeper() noexcept { return sleeper_; }
  const Sampler& sampler() const noexcept { return sampler_; }
  /// For whoever has read the samples: if they had become rare, the next look finds more.
  void draw_samples() {
    const Lock lock = state_.look();
    watcher_.draw_if_due();
  }
  /// Its figures for other processes.
  Display& display() noexcept { return display_; }
  gpupool_t* handle() const noexcept { return state_.handle; }
  /// Whether it has a handle, and was not inherited over fork.
  bool is_usable() const noexcept;
  /// Whether it is neither destroyed, nor inherited over fork, nor about to end with the driver.
  bool is_live() const noexcept;

  /// Takes note of a recording that has begun or ended, or of a new distance of samples.
  void watch_anew() {
    std::vector<Entry> events;
    {
      const Lock lock = enter();
      events = watcher_.watch_anew();
    }
    for (const Entry& event : events) Recorder::write(event);
    // Last: an event is no earlier than the one before, and a free may come meanwhile.
    for (const Entry& event : events) Recorder::write_names(event);
  }

  // ---- for other pools, of this process and of others

  /// Releases cached chunks until they come to `bytes`, or none is left.
  Status trim_by(uint64_t bytes, uint64_t& released, const char* why) {
    return capacity_.trim_by(bytes, released, why);
  }
  /// Releases at most so much of what is cached if the pool is idle. False: it is not, or nothing can go now.
  bool release_if_idle(uint64_t most);
  /// When memory was last handed out, in steps.
  uint64_t last_taken() {
    const Lock lock = state_.look();
    return state_.space.serial;
  }
  uint64_t live_bytes() {
    const Lock lock = enter();
    return state_.caches.live().allocated;
  }
  /// Gives the device's peers of now access to all that is mapped.
  Status set_access() {
    const Lock lock = enter();
    return peers_.set_access();
  }

  // ---- for the registry

  /// Makes the thread's cache available to another thread.
  void close_cache(ThreadCache* cache) noexcept;

  /// After gpupool_destroy: if the last block is gone, waits for the GPU and releases all memory. True once
  /// only, when the device has all of it.
  bool try_to_end();

  void lock_all() noexcept;
  void unlock_all() noexcept;

  /// In a child after fork: memory that it shares with other processes is the parent's.
  void forget_handoffs() noexcept {
    exports_.forget();
    imports_.forget();
  }

 private:
  using Lock = PoolLock;

  template <typename... Arguments>
  explicit Pool(std::unique_ptr<Helpers>& helpers, Arguments&&... arguments);

  /// Takes the pool's lock, and begins a new round of questions to the driver.
  Lock enter() { return state_.enter(); }

  Status retire_stream(StreamUser user, bool for_good);
  Status malloc_first(uint64_t size, uint64_t alignment, Stream stream, Address& address);
  Status malloc_locked(ThreadCache& cache, uint64_t size, Stream stream, Address& address);
  Status malloc_contended(ThreadCache& cache, uint64_t size, Stream stream, Address& address);
  Status malloc_slow(uint64_t size, uint64_t alignment, Stream stream, Address& address,
                     const Address* behind = nullptr);
  Status raise_peak(ThreadCache& cache, Range& block, Address& address);
  Status malloc_probing(ThreadCache& cache, uint64_t size, Stream stream, Address& address);
  Status malloc_cached(ThreadCache& cache, Range& block, uint64_t size, Address& address);
  Status free_locked(Range& block, Tag tag, Address address, Stream stream);
  Status free_contended(Range& block, Tag tag, Address address, Stream stream);
  Status free_probing(Range& block, Tag tag, Stream stream);
  Status free_marked(Range& block, Tag tag, const Lane& lane);
  Status free_cached(Range& block, Tag tag, SizeGroup group, uint64_t bytes);
  Status free_slow(Address address, Stream stream);
  bool free_watched(Address address, Stream stream);
  void open_cache();
  Status explain_shortage(Status status, uint64_t size);

  PoolState state_;
  bool is_ending_ = false;
  const std::unique_ptr<Helpers> helpers_;
  Sampler sampler_;  // has a lock of its own
  Watcher watcher_{state_, sampler_};
  const std::unique_ptr<Source> source_;
  RunStealer run_stealer_{state_};
  Protections protections_{state_};
  Exports exports_{state_};
  Imports imports_{state_};
  Peers peers_{state_, protections_, imports_};
  Reclaimer reclaimer_{state_, exports_};
  Capacity capacity_{state_, *source_, reclaimer_};
  OomHandler oom_handler_{state_};
  Shortage shortage_{state_, reclaimer_, *helpers_, oom_handler_};
  SlowMalloc slow_malloc_{state_, *source_, run_stealer_, reclaimer_, shortage_, watcher_};
  SlowFree slow_free_{state_, reclaimer_, protections_, watcher_};
  const std::unique_ptr<Debugger> debugger_;  // null without debug modes
  Sleeper sleeper_;
  Idle idle_{state_};
  Statistics statistics_{state_, sleeper_};
  Report report_{state_, exports_, sleeper_};
  Display display_{state_, watcher_, sampler_, sleeper_};
};

}  // namespace gpupool::internal
