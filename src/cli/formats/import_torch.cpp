// SPDX-License-Identifier: Apache-2.0
#include "cli/formats/import_torch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "cli/base/output.hpp"
#include "cli/formats/torch_stacks.hpp"
#include "cli/formats/unpickle.hpp"

namespace gpupool::cli {
namespace {

/// Which addresses are mapped, and for which stream.
class MappedRanges {
 public:
  struct Range {
    uint64_t end;
    uint64_t stream;
  };

  void add(uint64_t begin, uint64_t bytes, uint64_t stream) {
    remove(begin, bytes);
    ranges_[begin] = {begin + bytes, stream};
  }

  void remove(uint64_t begin, uint64_t bytes) {
    const uint64_t end = begin + bytes;
    auto at = ranges_.upper_bound(begin);
    if (at != ranges_.begin() && std::prev(at)->second.end > begin) --at;
    while (at != ranges_.end() && at->first < end) {
      const auto [old_begin, old] = *at;
      at = ranges_.erase(at);
      if (old_begin < begin) ranges_[old_begin] = {begin, old.stream};
      if (old.end > end) ranges_[end] = old;
    }
  }

  const std::map<uint64_t, Range>& all() const noexcept { return ranges_; }

 private:
  std::map<uint64_t, Range> ranges_;  // by where they begin
};

/// Bytes at an address.
struct Place {
  uint64_t address;
  uint64_t bytes;
};

/// What one device did. A trace may begin late, or have lost its beginning; what was there before it is found
/// by going back from the segments at the end.
class DeviceTrace {
 public:
  DeviceTrace(const Pickled& pickled, TorchStacks& stacks, uint32_t device, uint64_t start_us)
      : pickled_(pickled), stacks_(stacks), pool_(device + uint64_t{1}), start_us_(start_us) {}

  /// Takes one event of the trace; call it in order.
  void take(const PickledValue& event) {
    const std::string_view action = pickled_.text(event, "action");
    if (action.empty()) throw pickled_.refuse(event, "an event has no text 'action'");
    go_to(event);
    if (action == "oom") return add(Kind::failed, event, {0, size_of(event, "size")}, stacks_.site_of(event));
    if (action == "alloc") return begin_block(event);
    if (action == "free_requested" || action == "free") return end_block(event, false);
    if (action == "free_completed") return end_block(event, true);
    // Segments of their own memory, and parts of one that can grow.
    if (action == "segment_alloc" || action == "segment_map")
      return add(Kind::map, event, whole_units(event, place_of(event)));
    if (action == "segment_free" || action == "segment_unmap")
      add(Kind::unmap, event, whole_units(event, place_of(event)));
    // Other events change nothing in memory.
  }

  /// Takes one segment of the end, after all events.
  void take_segment(const PickledValue& segment) {
    const uint64_t stream = pickled_.number(segment, "stream").value_or(0);
    const uint64_t begin = need(segment, "address");
    const Place place = whole_units(segment, checked(segment, {begin, size_of(segment, "total_size")}));
    if (place.bytes != 0) mapped_.add(place.address, place.bytes, stream);
    const PickledValue* blocks = pickled_.list(segment, "blocks");
    if (blocks == nullptr) return;
    uint64_t address = begin;
    for (const PickledValue& block : pickled_.elements(*blocks)) {
      const uint64_t bytes = size_of(block, "size");
      // Older versions of PyTorch write no addresses: blocks follow each other.
      take_block(block, pickled_.number(block, "address").value_or(address), bytes, stream);
      address += bytes;
    }
  }

  bool has_blocks() const noexcept { return has_blocks_; }

  /// Adds all that happened to the recording.
  void finish(Recording& made) {
    for (auto event = events_.rbegin(); event != events_.rend(); ++event) {
      if (event->kind == Kind::unmap) mapped_.add(event->address, event->bytes, event->stream);
      if (event->kind == Kind::map) mapped_.remove(event->address, event->bytes);
    }
    for (const auto& [begin, range] : mapped_.all())
      made.events.push_back(happened(Kind::map, {begin, range.end - begin}, range.stream));
    for (const auto& [address, block] : old_) made.events.push_back(block);
    made.events.insert(made.events.end(), events_.begin(), events_.end());
  }

 private:
  struct Block {
    bool is_live;  // its free has not been asked for
    uint32_t stack;
  };

  // ---- numbers

  uint64_t need(const PickledValue& dictionary, std::string_view key) const {
    if (const std::optional<uint64_t> number = pickled_.number(dictionary, key)) return *number;
    throw pickled_.refuse(dictionary, fmt::format("there should be a number '{}' here", key));
  }

  uint64_t size_of(const PickledValue& dictionary, std::string_view key) const {
    constexpr uint64_t kMostBytes = uint64_t{1} << 56;
    const uint64_t bytes = need(dictionary, key);
    if (bytes > kMostBytes)
      throw pickled_.refuse(dictionary, fmt::format("a {} of {} bytes cannot be", key, bytes));
    return bytes;
  }

  static constexpr uint64_t kBlockUnit = 512;

  /// PyTorch's blocks, and so its segments, begin at multiples of 512.
  Place checked(const PickledValue& owner, Place place) const {
    constexpr uint64_t kEndOfAddresses = uint64_t{1} << 57;
    if (place.address % kBlockUnit != 0 || place.address >= kEndOfAddresses)
      throw pickled_.refuse(owner, fmt::format("{:#x} is the address of no block", place.address));
    return place;
  }

  Place whole_units(const PickledValue& owner, Place place) const {
    if (place.bytes % kBlockUnit == 0) return place;
    throw pickled_.refuse(owner, fmt::format("a segment of {} bytes cannot be", place.bytes));
  }

  Place place_of(const PickledValue& event) const {
    return checked(event, {need(event, "addr"), size_of(event, "size")});
  }

  /// Each thread has a clock of its own, so time may go back a little.
  void go_to(const PickledValue& event) {
    constexpr uint64_t kLongestUs = uint64_t{1} << 50;  // 35 years
    const uint64_t us = pickled_.number(event, "time_us").value_or(0);
    if (us <= start_us_) return;
    if (us - start_us_ > kLongestUs) throw pickled_.refuse(event, "the time of an event cannot be");
    ns_ = std::max(ns_, (us - start_us_) * 1000);
  }

  // ---- events

  Happened happened(Kind kind, Place place, uint64_t stream, TorchStacks::Site site = {}) const {
    return {.ns = 0,
            .stream = stream,
            .address = place.address,
            .bytes = place.bytes,
            .pool = pool_,
            .thread = 0,
            .stack = site.stack,
            .tag = site.tag,
            .kind = kind};
  }

  void add(Kind kind, const PickledValue& event, Place place, TorchStacks::Site site = {}) {
    if (place.bytes == 0) return;
    events_.push_back(happened(kind, place, pickled_.number(event, "stream").value_or(0), site));
    events_.back().ns = ns_;
  }

  void begin_block(const PickledValue& event) {
    const Place place = place_of(event);
    if (place.bytes == 0) return;
    const TorchStacks::Site site = stacks_.site_of(event);
    blocks_[place.address] = {true, site.stack};
    has_blocks_ = true;
    add(Kind::malloc, event, place, site);
  }

  /// `is_late`: other streams have used the block, and now have passed; its free was asked for before.
  void end_block(const PickledValue& event, bool is_late) {
    const Place place = place_of(event);
    if (place.bytes == 0) return;
    const auto [found, is_old] = blocks_.try_emplace(place.address, Block{false, 0});
    if (is_old) {
      if (is_late) return;
      // It is not known who made the block: the frames are those of the free.
      add_old(place, pickled_.number(event, "stream").value_or(0), {});
    } else if (!found->second.is_live) {
      return;
    }
    found->second.is_live = false;
    TorchStacks::Site site = stacks_.site_of(event);
    // If PyTorch does not record who frees a block, it repeats who made it.
    if (site.stack == found->second.stack) site.stack = 0;
    add(Kind::free, event, place, {site.stack, 0});
  }

  void take_block(const PickledValue& block, uint64_t address, uint64_t bytes, uint64_t stream) {
    if (pickled_.text(block, "state") != "active_allocated" || blocks_.contains(address)) return;
    const std::optional<uint64_t> requested = pickled_.number(block, "requested_size");
    const uint64_t size = requested ? size_of(block, "requested_size") : bytes;
    if (size != 0) add_old(checked(block, {address, size}), stream, stacks_.site_of(block));
  }

  /// A block that was live before the first event.
  void add_old(Place place, uint64_t stream, TorchStacks::Site site) {
    has_blocks_ = true;
    old_.try_emplace(place.address, happened(Kind::have, place, stream, site));
  }

  const Pickled& pickled_;
  TorchStacks& stacks_;
  const uint64_t pool_;
  const uint64_t start_us_;
  uint64_t ns_ = 0;
  std::vector<Happened> events_;
  std::map<uint64_t, Block> blocks_;  // by address: all that the trace tells of
  std::map<uint64_t, Happened> old_;  // by address
  MappedRanges mapped_;               // at the end, and in finish() at the beginning
  bool has_blocks_ = false;
};

class ImportedSnapshot {
 public:
  ImportedSnapshot(const std::string& label, std::string bytes)
      : pickled_(label, std::move(bytes)), stacks_(pickled_, made_) {
    made_.file = label;
    made_.command = "PyTorch's snapshot " + label;
    made_.library = "imported";
    made_.is_ended = true;
    made_.threads.push_back({1, "imported"});
  }

  Recording read(std::optional<uint32_t> wanted) {
    find_traces();
    find_start();
    find_segments();
    for (uint32_t device = 0; device < traces_.size(); ++device) {
      if (!wanted || *wanted == device) read_device(device);
    }
    if (made_.pools.empty()) {
      throw pickled_.refuse(pickled_.root(), wanted
                                                 ? fmt::format("device {} has no blocks in it", *wanted)
                                                 : "nothing was allocated: was _record_memory_history on?");
    }
    sort_events();
    return std::move(made_);
  }

 private:
  /// Sorts by time, and events of one time in the order in which they were added.
  void sort_events() {
    std::vector<Happened>& events = made_.events;
    const auto number = [&] {
      for (size_t i = 0; i < events.size(); ++i) events[i].place = static_cast<uint32_t>(i);
    };
    number();
    std::sort(events.begin(), events.end(), [](const Happened& a, const Happened& b) {
      return std::tie(a.ns, a.place) < std::tie(b.ns, b.place);
    });
    number();
  }

  void find_traces() {
    const PickledValue* traces = pickled_.list(pickled_.root(), "device_traces");
    if (traces == nullptr)
      throw pickled_.refuse(pickled_.root(), "this is no snapshot of PyTorch: it has no list device_traces");
    for (const PickledValue& trace : pickled_.elements(*traces)) traces_.push_back(&pickled_.elements(trace));
  }

  /// The first moment of all devices.
  void find_start() {
    constexpr uint64_t kLatestUs = uint64_t{1} << 52;  // in 2112
    uint64_t first = kLatestUs;
    for (const auto* trace : traces_) {
      if (!trace->empty())
        first = std::min(first, pickled_.number(trace->front(), "time_us").value_or(first));
    }
    start_us_ = first == kLatestUs ? 0 : first;
    made_.start_realtime_ns = start_us_ * 1000;
  }

  void find_segments() {
    const PickledValue* segments = pickled_.list(pickled_.root(), "segments");
    if (segments == nullptr) return;
    for (const PickledValue& segment : pickled_.elements(*segments))
      segments_[pickled_.number(segment, "device").value_or(0)].push_back(&segment);
  }

  void read_device(uint32_t device) {
    DeviceTrace trace(pickled_, stacks_, device, start_us_);
    Progress progress;
    progress.begin(fmt::format("what device {} did", device), traces_[device]->size());
    uint64_t taken = 0;
    for (const PickledValue& event : *traces_[device]) {
      trace.take(event);
      progress.set(++taken);
    }
    for (const PickledValue* segment : segments_[device]) trace.take_segment(*segment);
    if (!trace.has_blocks()) return;
    trace.finish(made_);
    RecordedPool pool;
    pool.device = fmt::format("cuda:{}", device);
    pool.name = "imported from PyTorch";
    made_.pools.emplace(device + uint64_t{1}, pool);
  }

  Pickled pickled_;
  Recording made_;
  TorchStacks stacks_;
  uint64_t start_us_ = 0;
  std::vector<const std::vector<PickledValue>*> traces_;           // by device
  std::map<uint64_t, std::vector<const PickledValue*>> segments_;  // by device
};

}  // namespace

bool is_pickle(std::string_view begin) noexcept {
  return begin.starts_with('\x80') || begin.starts_with('(') || begin.starts_with('}') ||
         begin.starts_with("PK");
}

Recording recording_of_snapshot(const std::string& label, std::string bytes, std::optional<uint32_t> device) {
  return ImportedSnapshot(label, std::move(bytes)).read(device);
}

}  // namespace gpupool::cli
