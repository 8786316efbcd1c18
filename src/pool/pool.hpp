// SPDX-License-Identifier: Apache-2.0
// The pool: heaps by stream, memory that moves between them, a limit, statistics.
//
// Locks, in the order in which they are taken: the registry's, the pool's, a thread cache's. The hot path
// takes only the last. The pool's lock is held across the driver's virtual-memory calls and queries, none of
// which waits for the GPU; but never across a wait on the host, the driver's own malloc and free, or a
// callback.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/chunk_sizer.hpp"
#include "core/counters.hpp"
#include "core/heap.hpp"
#include "pool/backing.hpp"
#include "pool/caches.hpp"
#include "pool/captures.hpp"
#include "pool/debugger.hpp"
#include "pool/display.hpp"
#include "pool/door.hpp"
#include "pool/exports.hpp"
#include "pool/ledger.hpp"
#include "pool/metered_device.hpp"
#include "pool/narrator.hpp"
#include "pool/neighbours.hpp"
#include "pool/oom_handler.hpp"
#include "pool/options.hpp"
#include "pool/other_pools.hpp"
#include "pool/peers.hpp"
#include "pool/pending.hpp"
#include "pool/protections.hpp"
#include "pool/provider.hpp"
#include "pool/quiet_lock.hpp"
#include "pool/report.hpp"
#include "pool/rooms.hpp"
#include "pool/run_stealer.hpp"
#include "pool/sleeper.hpp"
#include "pool/slow_path.hpp"
#include "pool/source.hpp"
#include "pool/statistics.hpp"
#include "pool/stock.hpp"
#include "pool/streams.hpp"
#include "pool/surplus.hpp"
#include "pool/thread_slots.hpp"
#include "pool/watcher.hpp"
#include "pool/way_back.hpp"
#include "watch/sampler.hpp"

struct gpupool_t;

namespace gpupool::internal {

class Pool {
 public:
  using Options = PoolOptions;

  Pool(std::unique_ptr<Device> device, const Options& options);
  /// A child, which takes its options from its parent and shares the parent's device and limit.
  explicit Pool(const std::shared_ptr<Pool>& parent);
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  /// Call it once, right after creation, if there are debug modes.
  Status begin_debugging();
  /// Charges its memory to a group too, from now on. Call it once, right after creation.
  void share(std::unique_ptr<Neighbours> group) noexcept;
  /// Takes note that it was to share, and cannot.
  void run_alone() noexcept { company_.runs_alone = true; }
  /// The group it shares with; null: none.
  const Neighbours* neighbours() const noexcept { return company_.neighbours; }

  /// Call it once, right after creation.
  void set_handle(gpupool_t* handle) noexcept;
  uint64_t id() const noexcept { return id_; }
  const Options& options() const noexcept { return options_; }
  MeteredDevice& device() noexcept { return device_; }
  const MeteredDevice& device() const noexcept { return device_; }
  /// Whether it is charged to the same limit.
  bool shares_limit(const Budget& other) const noexcept {
    return ledger_.budget().shared() == other.shared();
  }

  // What the functions of gpupool.h with the same names do.

  Status malloc(uint64_t size, uint64_t alignment, Stream stream, Address& address);
  Status free(Address address, Stream stream);
  Status record_stream(Address address, Stream stream);
  Status block_info(Address address, gpupool_block_t& block);
  Status release_stream(Stream stream) { return retire_stream(stream, true); }
  Status park_stream(Stream stream) { return retire_stream(stream, false); }
  Status capture_id(Stream stream, uint64_t& capture);
  Status release_capture(uint64_t capture);
  Status enable_peer(int32_t peer);
  Status synchronize();
  Status empty(uint64_t& released) { return trim(0, released, "empty"); }
  Status trim(uint64_t target, uint64_t& released, const char* why = "trim") {
    return stock_.trim(target, released, why);
  }
  Status reserve(uint64_t target, Stream stream) { return stock_.reserve(target, stream); }
  Status set_limit(uint64_t limit);
  Status request_from_neighbours(uint64_t bytes, uint64_t wait_ns);
  Status set_oom_handler(gpupool_oom_fn_t fn, void* user);
  void stats(gpupool_stats_t& stats);
  void reset_peaks() {
    const Lock lock = enter();
    statistics_.reset_peaks();
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
  Status export_block(Address address, std::string& handle) {
    Lock lock = enter();
    return exports_.add(lock, address, handle);
  }
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
  /// What the address book says of an address; false if it knows nothing. Call it with no lock held.
  bool find_story(Address address, std::string& story) {
    return debugger_ != nullptr && debugger_->find_story(address, story);
  }
  Sleeper& sleeper() noexcept { return sleeper_; }
  const Sampler& sampler() const noexcept { return sampler_; }
  /// Its figures for other processes.
  Display& display() noexcept { return display_; }
  gpupool_t* handle() const noexcept { return handle_; }
  /// Whether it has a handle, and was not inherited over fork.
  bool is_usable() const noexcept;
  /// Whether it is neither destroyed, nor inherited over fork, nor about to end with the driver.
  bool is_live() const noexcept;

  /// Takes note of a recording that has begun or ended, or of a new distance of samples.
  void watch_anew() {
    const Lock lock = enter();
    watcher_.watch_anew();
  }

  // ---- for other pools, of this process and of others

  /// Releases cached chunks until they come to `bytes`, or none is left.
  Status trim_by(uint64_t bytes, uint64_t& released, const char* why) {
    return stock_.trim_by(bytes, released, why);
  }
  /// When memory was last handed out, in steps.
  uint64_t last_taken() {
    const Lock lock = door_.look();
    return space_.serial;
  }
  uint64_t live_bytes() {
    const Lock lock = enter();
    return caches_.live().allocated;
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
  friend class Sleeper;
  using Lock = QuietLock;

  /// Takes the pool's lock, and begins a new round of questions to the driver.
  Lock enter() { return door_.enter(); }

  std::unique_ptr<Source> make_source();
  Status retire_stream(Stream stream, bool for_good);
  Status malloc_first(uint64_t size, uint64_t alignment, Stream stream, Address& address);
  Status malloc_locked(ThreadCache& cache, uint64_t size, Stream stream, Address& address);
  Status malloc_contended(ThreadCache& cache, uint64_t size, Stream stream, Address& address);
  Status malloc_slow(uint64_t size, uint64_t alignment, Stream stream, Address& address);
  Status raise_peak(ThreadCache& cache, Range& block, Address& address);
  Status malloc_further(ThreadCache& cache, uint64_t size, Stream stream, Address& address);
  Status malloc_cached(ThreadCache& cache, Range& block, uint64_t size, Address& address);
  Status free_locked(Range& block, Tag tag, Address address, Stream stream);
  Status free_contended(Range& block, Tag tag, Address address, Stream stream);
  Status free_further(Range& block, Tag tag, Stream stream);
  Status free_cached(Range& block, Tag tag, SizeGroup group, uint64_t bytes);
  Status free_slow(Address address, Stream stream);
  bool free_watched(Address address, Stream stream);
  void open_cache();

  gpupool_t* handle_ = nullptr;
  uint64_t id_ = 0;
  Options options_;
  Company company_;
  MeteredDevice device_;
  ChunkSizer sizer_;

  mutable WaitedMutex mutex_;  // the pool's lock: guards everything below
  Ledger ledger_;              // except its budget, which guards itself
  Space space_;                // except its map, which needs no lock to be read
  Streams streams_;
  Caches caches_;
  Pending pending_;
  Counters counters_;
  Captures captures_{options_, device_, streams_};
  Surplus surplus_{options_, device_, ledger_, space_, streams_, counters_};
  Narrator narrator_{id_, ledger_};
  Backing backing_{device_, ledger_, space_, streams_, narrator_};
  Setbacks setbacks_;
  bool is_ending_ = false;
  Sampler sampler_;                     // has a lock of its own
  std::unique_ptr<Debugger> debugger_;  // null without debug modes
  Sleeper sleeper_{*this};
  const Rooms rooms_{id_,     options_,  company_,  sizer_,    device_,  ledger_,  space_,   streams_,
                     caches_, captures_, counters_, setbacks_, surplus_, sleeper_, narrator_};
  Display display_{mutex_, rooms_, sampler_};
  Door door_{mutex_, display_, streams_};
  Watcher watcher_{rooms_, sampler_, display_};
  std::unique_ptr<Source> source_ = make_source();
  RunStealer run_stealer_{rooms_};
  Protections protections_{rooms_};
  Exports exports_{rooms_, sleeper_, way_back_, debugger_};
  Imports imports_{rooms_};
  Peers peers_{rooms_, backing_, protections_, imports_};
  WayBack way_back_{rooms_, pending_, exports_, sleeper_, debugger_};
  Statistics statistics_{rooms_, backing_};
  Report report_{rooms_, statistics_, exports_};
  Stock stock_{rooms_, door_, *source_, way_back_, pending_, sleeper_, statistics_, debugger_};
  OtherPools others_{rooms_};
  OomHandler oom_handler_{handle_, rooms_};
  Provider provider_{{rooms_, backing_, way_back_, others_, oom_handler_, debugger_},
                     *source_,
                     run_stealer_,
                     sleeper_,
                     watcher_,
                     report_};
  SlowPath slow_path_{
      rooms_, {door_, provider_, watcher_, sampler_, sleeper_, protections_, pending_, exports_, way_back_}};
};

}  // namespace gpupool::internal
