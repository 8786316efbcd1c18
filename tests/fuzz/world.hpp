// SPDX-License-Identifier: Apache-2.0
// A simulated device, pools on it, and a model of them: the set of live blocks, and the streams that use
// them. Every operation is legal for a caller of gpupool.h, or must be refused. After each one the pools are
// validated, the device must not have seen a broken rule, and results must match the model.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "gpupool/gpupool.h"

namespace gpupool::fuzz {

/// A promise was broken; what() says which.
class Broken : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

using Long = unsigned long long;  // for printf

inline constexpr uint64_t kMiB = uint64_t{1} << 20;

/// The simulated device that sequences run on; other tests use other ones.
inline constexpr int32_t kDevice = 7;

/// Current and highest value of a quantity.
struct Track {
  uint64_t current = 0;
  uint64_t peak = 0;

  void add(uint64_t amount) {
    current += amount;
    if (current > peak) peak = current;
  }
};

/// Requested bytes, allocated bytes and blocks of one group.
struct Tracks {
  Track requested;
  Track allocated;
  Track blocks;
};

/// Who may still be using a block.
struct BlockModel {
  uint64_t requested = 0;
  uint64_t allocated = 0;
  gpupool_stream_t home = 0;
  /// The home stream was released: its number now means another stream to the pool.
  bool orphan = false;
  /// The stream whose queue holds the last use, and with it all others; empty once that is known to be over.
  std::optional<gpupool_stream_t> last_user;
  std::set<gpupool_stream_t> recorded;
  /// Used by this stream, which was not recorded: the free must name it.
  std::optional<gpupool_stream_t> must_name;
};

struct UpstreamModel {
  uint64_t next = 0;
  bool crooked = false;       // hands out addresses that must be refused
  uint64_t refuse_every = 0;  // 0: never
  uint64_t calls = 0;
  std::map<uint64_t, uint64_t> segments;
  bool good = true;  // every free matched its malloc
};

struct PoolModel {
  gpupool_t* handle = nullptr;
  bool vmm = true;
  bool capture_aware = false;
  bool destroyed = false;
  uint64_t limit = 0;
  uint64_t mallocs = 0;
  std::map<gpupool_ptr_t, BlockModel> live;
  Tracks small;
  Tracks large;
  Tracks all;
  std::unique_ptr<UpstreamModel> upstream;
};

class World {
 public:
  struct Setup {
    uint64_t capacity = 0;
    double price_scale = 0;
    /// Read statistics after every operation. They settle what waits for streams, so that not doing so
    /// leaves more to go wrong.
    bool watched = false;
    /// Pools know where blocks are, and tell the device, which then refuses work outside of them.
    const char* debug = "";  // modes that put 512 bytes behind each block; "": none
    /// How many threads take turns.
    uint64_t threads = 1;
  };

  explicit World(const Setup& setup);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  // ---- what can be picked from

  size_t pool_count() const { return pools_.size(); }
  size_t live_count(size_t pool) const { return pools_[pool]->live.size(); }
  gpupool_ptr_t live_block(size_t pool, size_t number) const;
  const std::vector<gpupool_stream_t>& streams() const { return streams_; }

  // ---- operations; Broken if something is not as it must be

  /// True if there is a new pool, the last one.
  bool create(gpupool_config_t config, UpstreamModel upstream = {});
  void destroy(size_t pool);
  /// The block, or 0 if the malloc failed in a way that is allowed.
  gpupool_ptr_t malloc(size_t pool, uint64_t size, uint64_t alignment, gpupool_stream_t stream);
  void free(size_t pool, gpupool_ptr_t address, gpupool_stream_t stream);
  /// The address is not a live block, which must be found out.
  void free_refused(size_t pool, gpupool_ptr_t address, gpupool_stream_t stream);
  void block_info(size_t pool, gpupool_ptr_t address);
  /// Work of a stream on a block, made legal first: after the block's other users, and recorded or, with
  /// `record` false, named by the free.
  void use(size_t pool, gpupool_ptr_t address, gpupool_stream_t stream, uint64_t nanoseconds, bool record);
  void record_stream(size_t pool, gpupool_ptr_t address, gpupool_stream_t stream);
  void release_stream(size_t pool, gpupool_stream_t stream);
  void park_stream(size_t pool, gpupool_stream_t stream);
  void work(gpupool_stream_t stream, uint64_t nanoseconds);
  void advance(uint64_t nanoseconds);
  void capture(gpupool_stream_t stream);  // begins, or ends
  void stream_create();
  void stream_destroy(gpupool_stream_t stream);
  void synchronize(size_t pool);
  void empty(size_t pool);
  void trim(size_t pool, uint64_t target);
  void reserve(size_t pool, uint64_t target, gpupool_stream_t stream);
  void set_limit(size_t pool, uint64_t limit);
  void set_fraction(size_t pool, double fraction);
  void set_handler(size_t pool, bool on);
  void stats(size_t pool);
  void snapshot(size_t pool);
  void reset_peaks(size_t pool);
  void report(size_t pool);
  void script(const std::string& text);

  /// Frees and destroys everything and checks that nothing is left.
  void finish();

 private:
  friend int32_t on_shortage(void* user, gpupool_t* pool, uint64_t size, uint32_t attempt);

  PoolModel& at(size_t pool) { return *pools_[pool]; }
  bool is_capturing(gpupool_stream_t stream) const { return capturing_.contains(stream); }
  /// Nothing excuses a pool from giving back what no block touches: no failures, no captures.
  bool is_calm() const { return !scripted_ && capturing_.empty() && !captured_; }
  /// Whether a failure may be one that was asked for.
  bool is_scripted(gpupool_status_t status) const {
    return scripted_ && (status == GPUPOOL_ERROR_DRIVER || status == GPUPOOL_ERROR_OUT_OF_MEMORY);
  }
  bool lets_go(gpupool_stream_t stream, gpupool_status_t status, const char* what) const;
  static void forget_stream(PoolModel& pool, gpupool_stream_t stream);
  bool wait_for(const PoolModel& pool, gpupool_stream_t stream);
  bool may_use(PoolModel& pool, size_t number, gpupool_ptr_t address, gpupool_stream_t stream, bool record);
  bool is_destroyed(const PoolModel& pool, gpupool_status_t status) const;
  void note_new_block(PoolModel& pool, gpupool_ptr_t address, uint64_t size, uint64_t alignment,
                      gpupool_stream_t stream);
  void note_freed(PoolModel& pool, gpupool_ptr_t address);
  void drop_gone_pools();

  // world_check.cpp
  void after();
  void expect(gpupool_status_t status, std::initializer_list<gpupool_status_t> allowed,
              const char* what) const;
  void check_stats(const PoolModel& pool) const;
  void check_shortage(const PoolModel& pool, gpupool_status_t status) const;
  void check_nothing_to_be_had(const PoolModel& pool, uint64_t size, uint64_t alignment) const;
  void check_given_back(const PoolModel& pool, uint64_t target) const;
  gpupool_stats_t read_stats(const PoolModel& pool) const;
  void read_snapshot(const PoolModel& pool, std::vector<gpupool_segment_t>& segments,
                     std::vector<gpupool_block_t>& blocks) const;
  uint64_t free_memory() const;

  uint64_t capacity_ = 0;
  bool watched_ = false;
  uint64_t threads_ = 1;
  uint64_t apart_ = 0;       // what pools add to each block
  bool keeps_data_ = false;  // the device does
  bool scripted_ = false;
  bool captured_ = false;  // some stream captured at some time
  bool leaked_ = false;    // a pool ended while a failure or a capture kept it from giving all back
  std::optional<std::string> broken_in_callback_;
  std::vector<std::unique_ptr<PoolModel>> pools_;
  std::vector<gpupool_stream_t> streams_;
  std::set<gpupool_stream_t> created_;
  std::set<gpupool_stream_t> capturing_;
  uint64_t upstreams_ = 0;
};

/// Fails with a formatted Broken.
[[noreturn, gnu::format(printf, 1, 2)]] void broken(const char* format, ...);

/// Prints a line to standard error if GPUPOOL_FUZZ_TRACE is set: what a finding did.
[[gnu::format(printf, 1, 2)]] void trace(const char* format, ...);

/// Runs an operation sequence decoded from bytes; Broken if a promise was broken. Any bytes are a sequence.
void run_sequence(const uint8_t* data, size_t size, const char* debug = "");

}  // namespace gpupool::fuzz
