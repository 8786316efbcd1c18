// SPDX-License-Identifier: Apache-2.0
// Memory of CUDA graphs, and of torch.cuda.MemPool. A graph's kernels have addresses built in. So memory that
// the graph used must stay where it is, mapped and out of other hands, for as long as the graph may run, even
// while it is free. Such a pool takes segments from the device's pool, cuts them itself, and gives them back
// only when no graph uses it any more.
//
// Why nothing else can have what a graph may write to. Whatever a capture used lies in a block of this pool,
// hence in its segments, one or several. Each segment is a live block of the device's pool, which moves no
// memory that a live block touches and releases none (src/pool/memory/retention). A segment stops being one
// in give_back only, which is called when no graph uses this pool, no capture is under way, and the device
// has done all its work; and only where no block of this pool touches it. Within the pool, captures share
// what is free, at the addresses where it is, because PyTorch promises that graphs of one pool never run at a
// time and run in the order of their captures, or restores what was live there (setCheckpointPoolState).
//
// The segments of a pool of graphs lie one behind the other (gpupool_malloc_behind), so that free neighbours
// are one, whichever segments they came with, and a block that is larger than all before takes only what its
// last free neighbour lacks. A MemPool's segments stay apart: NCCL registers each by itself, and a buffer
// must be in one.
//
// A child pool of the C library (gpupool_create_child) keeps memory in the same way, but does not do
// everything that PyTorch asks of such a pool: to make blocks live again at given addresses
// (setCheckpointPoolState), to take segments from an allocator of the MemPool's own, to hand out what is free
// and nothing else (use_on_oom), to cut no segment (no_split), and to tell of each segment as it comes and
// goes (NCCL registers them).
#pragma once

#include <c10/cuda/CUDAException.h>
#include <cuda_runtime_api.h>
#include <gpupool/gpupool.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "capture_order.hpp"
#include "pytorch.hpp"

namespace gpupool_torch {

/// What the statistics of a device's pool do not say of its private pools.
struct PrivateUsage {
  Stat small_segment_bytes;  // of segments that are blocks of the device's pool: what serves small blocks
  DeviceStats foreign;       // segments that a MemPool's own allocator gave, and the blocks in them
  std::map<MempoolId_t, StatArray> reserved_bytes;  // by pool, those of deleted ones too
};

/// A segment that has come or is about to go.
struct Segment {
  void* ptr;
  size_t bytes;
  cudaStream_t stream;
};

/// Where segments come from and go to; get returns null if memory is short.
struct SegmentSource {
  std::function<void*(size_t, cudaStream_t)> get;
  std::function<void(void*, size_t)> give_back;
  /// As get, where the segment `behind` ends, or for null where others have room behind it. Null too, and
  /// has_room false, where that cannot be. Not there: never.
  std::function<void*(size_t, void* behind, bool& has_room)> get_behind;
  /// As gpupool_count_parts. Not there: the memory is not the device's pool's.
  std::function<void(int32_t what, int32_t change, bool is_small, size_t bytes, size_t requested)> count;
};

/// A live block, as a checkpoint keeps it.
struct PrivateBlock {
  uintptr_t address;
  size_t size;
  size_t requested;
  cudaStream_t stream;
};

/// Tells segments apart that were at the same address one after the other: NCCL registers each anew. Older
/// PyTorch has no place for it.
template <typename Info>
void set_registration(Info& segment, int32_t number) {
  if constexpr (requires { segment.registration_counter; }) segment.registration_counter = number;
}

/// Guarded by the caller.
class PrivatePool {
 public:
  PrivatePool(c10::DeviceIndex device, MempoolId_t id, SegmentSource source, PrivateUsage& usage)
      : device(device), id(id), source_(std::move(source)), usage_(usage) {}

  const c10::DeviceIndex device;
  const MempoolId_t id;
  int users = 0;
  bool no_split = false;
  bool serves_shortages = false;  // torch.cuda.MemPool(use_on_oom=True)
  bool grows = false;             // segments lie one behind the other, if they can

  /// watch hears of each segment once it is there, and before it goes.
  void watch(std::function<void(const Segment&, bool has_come)> watch) { watch_ = std::move(watch); }

  /// Null where memory is short. The caller uses the stream.
  void* malloc(size_t requested, cudaStream_t stream) {
    place_freed(stream);
    if (const auto order = orders_.find(stream); order != orders_.end()) follow(order->second, stream);
    if (void* ptr = malloc_cached(requested, stream)) return ptr;
    const size_t size = rounded(requested);
    if (!add_segment(size, size <= kSmallSize, stream)) return nullptr;
    return malloc_cached(requested, stream);
  }

  /// As malloc, but without new memory.
  void* malloc_cached(size_t requested, cudaStream_t stream) {
    const size_t size = rounded(requested);
    const bool is_small = size <= kSmallSize;
    const auto found = free_.lower_bound({is_small, stream, size, 0});
    if (found == free_.end() || std::get<0>(*found) != is_small || std::get<1>(*found) != stream)
      return nullptr;
    const Place place = blocks_.find(std::get<3>(*found));
    cut(place, place->first, size, !is_small);
    hand_out(place, requested, CapturePlace::of(stream).capture);
    return reinterpret_cast<void*>(place->first);
  }

  /// As malloc_cached, at this address. Null if that is not free, or another stream's.
  void* malloc_at(uintptr_t address, size_t requested, cudaStream_t stream) {
    Place place = blocks_.upper_bound(address);
    if (place == blocks_.begin()) return nullptr;
    const Block& block = (--place)->second;
    const size_t size = rounded(requested);
    if (block.state != State::kFree || block.stream != stream || address + size > place->first + block.size ||
        (no_split && address != place->first)) {
      return nullptr;
    }
    hand_out(cut(place, address, size, false), requested, CapturePlace::of(stream).capture);
    return reinterpret_cast<void*>(address);
  }

  /// can_query: no graph is being captured. is_user: the block's stream is this thread's to use. A stream may
  /// be asked where it is only by its user: elsewhere, the driver may be in the middle of beginning or ending
  /// its capture.
  void free(void* ptr, bool can_query, bool is_user) {
    const Place place = blocks_.find(reinterpret_cast<uintptr_t>(ptr));
    Block& block = place->second;
    count(GPUPOOL_BLOCK_LIVE, block, -1);
    if (block.users.empty()) return complete(place);
    count(GPUPOOL_BLOCK_PENDING, block, 1);
    block.state = State::kPending;
    pending_.insert(place->first);
    if (can_query) {
      finish_pending();
    } else if (is_user) {
      await_join(place);
    } else {
      unplaced_[block.stream].push_back(place->first);
    }
  }

  void record_stream(void* ptr, cudaStream_t stream) {
    blocks_.find(reinterpret_cast<uintptr_t>(ptr))->second.users[stream] = std::this_thread::get_id();
  }

  /// Notes where the streams are that used freed blocks, and completes blocks that they have passed. No
  /// stream may be asked during a capture: blocks freed there wait for its end, or until their stream has
  /// joined the others in the capture's graph.
  void finish_pending() {
    orders_.clear();
    unplaced_.clear();
    std::erase_if(pending_, [this](uintptr_t address) {
      const Place place = blocks_.find(address);
      Block& block = place->second;
      for (const auto& [stream, thread] : block.users) {
        cudaEvent_t event = nullptr;
        C10_CUDA_CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
        C10_CUDA_CHECK(cudaEventRecord(event, stream));
        block.events.push_back(event);
      }
      block.users.clear();
      std::erase_if(block.events, [](cudaEvent_t event) {
        const cudaError_t state = cudaEventQuery(event);
        if (state == cudaErrorNotReady) {
          (void)cudaGetLastError();
          return false;
        }
        C10_CUDA_CHECK(state);
        C10_CUDA_CHECK(cudaEventDestroy(event));
        return true;
      });
      if (!block.events.empty()) return false;
      complete(place);
      return true;
    });
  }

  /// Gives back memory that no block is in. The caller has waited for the device.
  void give_back() {
    finish_pending();
    for (auto segment = segments_.begin(); segment != segments_.end();) {
      const auto [address, kept] = *segment;
      Place place = std::prev(blocks_.upper_bound(address));
      if (place->second.state != State::kFree || place->first + place->second.size < address + kept.bytes) {
        ++segment;
        continue;
      }
      place = cut(place, address, kept.bytes, false);
      const Segment gone{reinterpret_cast<void*>(address), kept.bytes, place->second.stream};
      const bool is_small = place->second.is_small;
      watch_(gone, false);
      segment = segments_.erase(segment);
      blocks_.erase(place);
      source_.give_back(gone.ptr, gone.bytes);
      count_segment(gone.bytes, is_small, -1);
    }
    runs_.clear();
  }

  bool is_empty() const { return segments_.empty(); }
  /// Only of a pool that is empty.
  void set_source(SegmentSource source) { source_ = std::move(source); }
  bool is_foreign() const { return !source_.count; }

  std::vector<PrivateBlock> live() const {
    std::vector<PrivateBlock> all;
    for (const auto& [address, block] : blocks_) {
      if (block.state == State::kLive) all.push_back({address, block.size, block.requested, block.stream});
    }
    return all;
  }

  /// Frees all live blocks and makes exactly these blocks live. The caller has waited for the device.
  void set_live(const std::vector<PrivateBlock>& wanted) {
    finish_pending();
    for (const PrivateBlock& each : live()) {
      blocks_.find(each.address)->second.users.clear();
      free(reinterpret_cast<void*>(each.address), true, false);
    }
    for (const PrivateBlock& each : wanted) {
      Place place = blocks_.upper_bound(each.address);
      TORCH_CHECK(place != blocks_.begin(), "gpupool: a checkpoint of another pool");
      --place;
      TORCH_CHECK(place->second.state == State::kFree &&
                      each.address + each.size <= place->first + place->second.size,
                  "gpupool: a block of the checkpoint is in use");
      hand_out(cut(place, each.address, each.size, false), each.requested, 0);
    }
  }

  /// Its segments as PyTorch's structs, with blocks that cover them, by address. Those that lie one behind
  /// the other are one.
  std::map<uintptr_t, SegmentInfo> describe() const {
    std::map<uintptr_t, SegmentInfo> all;
    auto last = all.end();
    for (const auto& [address, block] : blocks_) {
      if (last == all.end() || address != last->first + last->second.total_size ||
          block.run != blocks_.at(last->first).run) {
        last = all.emplace(address, SegmentInfo{}).first;
        last->second.device = device;
        last->second.address = address;
        set_registration(last->second, segments_.at(address).number);
        last->second.stream = block.stream;
        last->second.is_large = !block.is_small;
        last->second.is_expandable = true;
        last->second.owner_private_pool_id = id;
      }
      SegmentInfo& segment = last->second;
      BlockInfo info;
      info.size = block.size;
      info.allocated = block.state == State::kLive;
      info.requested_size = info.allocated ? block.requested : 0;  // as the statistics count it
      info.active = block.state != State::kFree;
      segment.total_size += block.size;
      segment.requested_size += info.requested_size;
      segment.allocated_size += info.allocated ? block.size : 0;
      segment.active_size += info.active ? block.size : 0;
      segment.blocks.push_back(std::move(info));
    }
    return all;
  }

 private:
  enum class State { kFree, kLive, kPending };
  struct Block {
    size_t size = 0;
    size_t requested = 0;
    uint64_t run = 0;  // number of the segments that lie one behind the other
    cudaStream_t stream = nullptr;
    bool is_small = false;
    State state = State::kFree;
    std::map<cudaStream_t, std::thread::id> users;  // other streams, and who said so last
    unsigned long long capture = 0;                 // in which it was handed out
    std::vector<cudaEvent_t> events;
  };
  using Blocks = std::map<uintptr_t, Block>;
  using Place = Blocks::iterator;
  using Key = std::tuple<bool, cudaStream_t, size_t, uintptr_t>;

  static constexpr size_t kSmallSize = size_t{1} << 20;
  static constexpr size_t kPage = size_t{2} << 20;
  static constexpr size_t kSharedSegment = size_t{20} << 20;  // for blocks of less than half of it

  static size_t rounded(size_t requested) { return std::max<size_t>((requested + 511) / 512 * 512, 512); }

  static Key key(Place place) {
    return {place->second.is_small, place->second.stream, place->second.size, place->first};
  }

  /// A block has come to be live or pending (what), or is so no more.
  void count(int32_t what, const Block& block, int change) {
    if (source_.count) return source_.count(what, change, block.is_small, block.size, block.requested);
    const auto add = [&](StatArray DeviceStats::*quantity, size_t amount) {
      for (const StatType type :
           {StatType::AGGREGATE, block.is_small ? StatType::SMALL_POOL : StatType::LARGE_POOL}) {
        Stat& stat = (usage_.foreign.*quantity)[static_cast<size_t>(type)];
        change > 0 ? stat.increase(amount) : stat.decrease(amount);
      }
    };
    add(&DeviceStats::active, 1);
    add(&DeviceStats::active_bytes, block.size);
    if (what != GPUPOOL_BLOCK_LIVE) return;
    add(&DeviceStats::allocation, 1);
    add(&DeviceStats::allocated_bytes, block.size);
    add(&DeviceStats::requested_bytes, block.requested);
  }

  void count_segment(size_t bytes, bool is_small, int change) {
    const auto add = [change](Stat& stat, size_t amount) {
      change > 0 ? stat.increase(amount) : stat.decrease(amount);
    };
    const StatType kind = is_small ? StatType::SMALL_POOL : StatType::LARGE_POOL;
    for (const StatType type : {StatType::AGGREGATE, kind})
      add(usage_.reserved_bytes[id][static_cast<size_t>(type)], bytes);
    if (source_.count) {
      source_.count(0, change, false, bytes, bytes);  // all are large blocks of the device's pool
      if (is_small) add(usage_.small_segment_bytes, bytes);
      return;
    }
    for (const StatType type : {StatType::AGGREGATE, kind}) {
      add(usage_.foreign.segment[static_cast<size_t>(type)], 1);
      add(usage_.foreign.reserved_bytes[static_cast<size_t>(type)], bytes);
    }
  }

  static size_t whole_pages(size_t size) { return (size + kPage - 1) / kPage * kPage; }

  /// False where memory is short.
  bool add_segment(size_t size, bool is_small, cudaStream_t stream) {
    bool has_room = false;
    if (grows && !no_split && source_.get_behind) {
      const bool is_there = grow(size, is_small, stream, has_room);
      if (is_there || has_room) return is_there;
    }
    size_t bytes = whole_pages(size);
    void* ptr = nullptr;
    if (!is_small && !no_split && size < kSharedSegment / 2) ptr = source_.get(kSharedSegment, stream);
    if (ptr != nullptr) {
      bytes = kSharedSegment;
    } else if ((ptr = source_.get(bytes, stream)) == nullptr) {
      return false;
    }
    insert_segment(ptr, bytes, ++run_count_, is_small, stream);
    return true;
  }

  /// Adds to the run of segments that serves such blocks what this one lacks, beyond what is free at its end.
  /// Where it cannot go on, another begins. False where memory is short, or with has_room false, where there
  /// are no runs.
  bool grow(size_t size, bool is_small, cudaStream_t stream, bool& has_room) {
    Run& run = runs_[{is_small, stream}];
    if (run.last != 0) {
      const Block& end = std::prev(blocks_.lower_bound(run.last + segments_.at(run.last).bytes))->second;
      const size_t bytes = whole_pages(size - (end.state == State::kFree ? end.size : 0));
      void* ptr = source_.get_behind(bytes, reinterpret_cast<void*>(run.last), has_room);
      if (ptr != nullptr) {
        run.last = reinterpret_cast<uintptr_t>(ptr);
        insert_segment(ptr, bytes, run.number, is_small, stream);
      }
      if (has_room) return ptr != nullptr;
    }
    void* ptr = source_.get_behind(whole_pages(size), nullptr, has_room);
    if (ptr == nullptr) return false;
    run = {++run_count_, reinterpret_cast<uintptr_t>(ptr)};
    insert_segment(ptr, whole_pages(size), run.number, is_small, stream);
    return true;
  }

  /// Adds a free block that is a whole segment, or the end of a free one before it.
  void insert_segment(void* ptr, size_t bytes, uint64_t run, bool is_small, cudaStream_t stream) {
    const auto address = reinterpret_cast<uintptr_t>(ptr);
    count_segment(bytes, is_small, 1);
    segments_[address] = {bytes, next_segment()};
    Block block;
    block.size = bytes;
    block.run = run;
    block.stream = stream;
    block.is_small = is_small;
    Place place = blocks_.emplace(address, std::move(block)).first;
    if (place != blocks_.begin() && joins(std::prev(place), place)) place = join(std::prev(place), place);
    free_.insert(key(place));
    watch_({ptr, bytes, stream}, true);
  }

  /// Takes a free block out of the index and leaves [address, address + size) of it. Cuts off the rest of a
  /// large block only if another block can use it.
  Place cut(Place place, uintptr_t address, size_t size, bool is_coarse) {
    free_.erase(key(place));
    if (address > place->first) {
      const Place rest = split(place, address - place->first);
      free_.insert(key(place));
      place = rest;
    }
    const size_t left = place->second.size - size;
    if (left > (is_coarse ? kSmallSize : 0) && !no_split) free_.insert(key(split(place, size)));
    return place;
  }

  /// Splits a free block in two and returns the second.
  Place split(Place place, size_t size) {
    Block second = place->second;
    second.size -= size;
    place->second.size = size;
    return blocks_.emplace(place->first + size, std::move(second)).first;
  }

  void hand_out(Place place, size_t requested, unsigned long long capture) {
    Block& block = place->second;
    block.state = State::kLive;
    block.requested = requested;
    block.capture = capture;
    count(GPUPOOL_BLOCK_LIVE, block, 1);
  }

  /// Looks at the blocks of this stream that others have freed; the caller uses the stream.
  void place_freed(cudaStream_t stream) {
    const auto freed = unplaced_.find(stream);
    if (freed == unplaced_.end()) return;
    const std::vector<uintptr_t> blocks = std::move(freed->second);
    unplaced_.erase(freed);
    for (const uintptr_t address : blocks) await_join(blocks_.find(address));
  }

  /// A block that was freed during a capture: it is free once its own stream comes after what the others have
  /// captured by now. Where work outside of the capture may use it, it waits for the end.
  void await_join(Place place) {
    const Block& block = place->second;
    const CapturePlace now = CapturePlace::of(block.stream);
    if (now.capture == 0 || now.capture != block.capture) return;
    std::vector<cudaGraphNode_t> last;
    for (const auto& [user, thread] : block.users) {
      if (thread != std::this_thread::get_id()) return;
      const CapturePlace at = CapturePlace::of(user);
      if (at.capture != now.capture) return;
      last.insert(last.end(), at.nodes.begin(), at.nodes.end());
    }
    CaptureOrder& order = orders_[block.stream];
    follow(order, block.stream);
    if (!order.await(place->first, last)) finish(place->first);
  }

  void follow(CaptureOrder& order, cudaStream_t stream) {
    const CapturePlace now = CapturePlace::of(stream);
    if (now.capture != 0) order.follow(now, [this](uintptr_t address) { finish(address); });
  }

  void finish(uintptr_t address) {
    pending_.erase(address);
    complete(blocks_.find(address));
  }

  /// Frees a block that no stream uses any more, and merges it with its free neighbours.
  void complete(Place place) {
    Block& block = place->second;
    if (block.state == State::kPending) count(GPUPOOL_BLOCK_PENDING, block, -1);
    block.state = State::kFree;
    block.requested = 0;
    block.users.clear();
    const Place next = std::next(place);
    if (next != blocks_.end() && joins(place, next)) place = join(place, next);
    if (place != blocks_.begin() && joins(std::prev(place), place)) place = join(std::prev(place), place);
    free_.insert(key(place));
  }

  bool joins(Place one, Place next) const {
    return one->second.state == State::kFree && next->second.state == State::kFree &&
           one->second.run == next->second.run && one->first + one->second.size == next->first;
  }

  Place join(Place one, Place next) {
    free_.erase(key(one));  // the one that just became free is not in there
    free_.erase(key(next));
    one->second.size += next->second.size;
    blocks_.erase(next);
    return one;
  }

  SegmentSource source_;
  std::function<void(const Segment&, bool)> watch_;
  PrivateUsage& usage_;
  struct OwnSegment {
    size_t bytes = 0;
    int32_t number = 0;
  };
  /// Segments that lie one behind the other: their number, and where the last begins.
  struct Run {
    uint64_t number = 0;
    uintptr_t last = 0;
  };

  /// From 1, over all pools of the process.
  static int32_t next_segment() noexcept {
    static std::atomic<int32_t> last{0};
    return ++last;
  }

  Blocks blocks_;
  std::set<Key> free_;
  std::map<uintptr_t, OwnSegment> segments_;
  std::map<std::pair<bool, cudaStream_t>, Run> runs_;  // that go on: for small blocks or others, by stream
  uint64_t run_count_ = 0;
  std::set<uintptr_t> pending_;
  std::map<cudaStream_t, std::vector<uintptr_t>> unplaced_;  // of those: freed by who does not use the stream
  std::map<cudaStream_t, CaptureOrder> orders_;              // of the captures that are under way
};

}  // namespace gpupool_torch
