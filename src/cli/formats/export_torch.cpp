// SPDX-License-Identifier: Apache-2.0
// A snapshot for PyTorch's memory_viz. Its viewer works backwards from the segments at the end, and fails on
// anything inconsistent: each block must be inside a segment whenever it is drawn, blocks must fill their
// segment without gaps, an unmapping must match a mapping for the same stream, and frames must have texts,
// never None. It would report events without frames as older than the recording.
#include <algorithm>
#include <cstdlib>
#include <deque>
#include <map>

#include "cli/formats/export_formats.hpp"
#include "cli/formats/pickle.hpp"
#include "cli/recording/frame.hpp"
#include "cli/recording/walk.hpp"

namespace gpupool::cli {
namespace {

/// A run of chunks of one stream without a gap, as an expandable segment of PyTorch's is.
struct Run {
  uint64_t begin;
  uint64_t end;
  uint64_t stream;
};

struct TorchEvent {
  const char* action;
  uint64_t address;
  uint64_t bytes;
  uint64_t stream;
  uint64_t ns;
  const Happened* made;  // whose frames are written; null: none
};

class TorchSnapshot {
 public:
  TorchSnapshot(const Recording& recording, uint64_t pool, uint64_t last)
      : recording_(recording), pool_(pool), last_(last), walk_(pool) {}

  std::string write(size_t end) {
    for (size_t i = 0; i < end; ++i) take(recording_.events[i]);
    find_runs();
    find_device();
    out_.begin_dictionary();
    out_.begin_items();
    out_.text("segments");
    list(runs_.size(), [&](size_t i) { write_segment(runs_[i]); });
    out_.text("device_traces");
    list(device_ + 1, [&](size_t device) {
      list(device == device_ ? events_.size() : 0, [&](size_t i) { write_event(events_[i]); });
    });
    out_.text("allocator_settings");
    out_.begin_dictionary();
    out_.end_items();
    return out_.finish();
  }

 private:
  void take(const Happened& event) {
    if (event.pool != pool_) return;
    if (event.kind == Kind::map)
      add({"segment_map", event.address, event.bytes, event.stream, event.ns, nullptr});
    if (event.kind == Kind::unmap)
      add({"segment_unmap", event.address, event.bytes, event.stream, event.ns, nullptr});
    if (event.kind == Kind::failed) add({"oom", 0, event.bytes, event.stream, event.ns, &event});
    walk_.take(
        event, [&](const LiveBlock& block) { tell_malloc(*block.made); },
        [&](const LiveBlock& block) { tell_free(*block.made, event.ns); });
  }

  void tell_malloc(const Happened& made) {
    if (made.kind == Kind::have) return;  // from before the first event
    add({"alloc", made.address, made.bytes, made.stream, made.ns, &made});
  }

  void tell_free(const Happened& made, uint64_t ns) {
    add({"free_requested", made.address, made.bytes, made.stream, ns, &made});
    add({"free_completed", made.address, made.bytes, made.stream, ns, &made});
  }

  void add(const TorchEvent& event) {
    events_.push_back(event);
    if (events_.size() > last_) events_.pop_front();
  }

  void find_runs() {
    for (const auto& [address, chunk] : walk_.chunks()) {
      if (!runs_.empty() && runs_.back().end == address && runs_.back().stream == chunk.stream) {
        runs_.back().end += chunk.bytes;
      } else {
        runs_.push_back({address, address + chunk.bytes, chunk.stream});
      }
    }
  }

  void find_device() {
    const auto about = recording_.pools.find(pool_);
    if (about == recording_.pools.end()) return;
    constexpr size_t kMostDevices = 1024;
    const std::string& name = about->second.device;
    const size_t colon = name.rfind(':');
    if (colon == std::string::npos) return;
    device_ = std::min<size_t>(std::strtoul(name.c_str() + colon + 1, nullptr, 10), kMostDevices);
  }

  template <typename Write>
  void list(size_t count, Write write) {
    out_.begin_list();
    for (size_t i = 0; i < count; i += Pickle::kBatch) {
      out_.begin_batch();
      for (size_t k = i; k < std::min(count, i + Pickle::kBatch); ++k) write(k);
      out_.end_batch();
    }
  }

  void entry(const char* key, uint64_t value) {
    key_of(key);
    out_.number(value);
  }
  void entry(const char* key, const char* value) {
    key_of(key);
    remembered(value);
  }
  void key_of(const char* key) { remembered(key); }

  /// Writes a text that comes again and again.
  void remembered(const char* text) {
    const auto found = texts_.find(text);
    if (found != texts_.end()) return out_.recall(found->second);
    out_.text(text);
    texts_.emplace(text, out_.remember());
  }

  void write_event(const TorchEvent& event) {
    out_.begin_dictionary();
    out_.begin_items();
    entry("action", event.action);
    entry("addr", event.address);
    entry("size", event.bytes);
    entry("stream", event.stream);
    entry("time_us", (recording_.start_realtime_ns + event.ns) / 1000);
    if (event.action == std::string_view("oom")) entry("device_free", uint64_t{0});
    key_of("frames");
    write_frames(event.made);
    out_.end_items();
  }

  /// Each list of frames is written once. An event without a stack gives its tag, to distinguish it from
  /// events before the recording.
  void write_frames(const Happened* made) {
    const std::pair<uint32_t, uint32_t> key = made == nullptr
                                                  ? std::pair<uint32_t, uint32_t>(0, 0)
                                                  : std::pair<uint32_t, uint32_t>(made->stack, made->tag);
    if (const auto found = frames_.find(key); found != frames_.end()) return out_.recall(found->second);
    std::vector<Frame> frames;
    if (made != nullptr && made->stack != 0) {
      for (const std::string& text : frames_of(recording_, made->stack)) frames.push_back(split_frame(text));
    }
    const std::string tag = made == nullptr ? "" : recording_.tag(made->tag);
    if (!tag.empty() || frames.empty()) frames.push_back({tag.empty() ? "(no stack)" : tag, "gpupool", 0});
    list(frames.size(), [&](size_t i) {
      out_.begin_dictionary();
      out_.begin_items();
      key_of("name");
      out_.text(frames[i].function);
      key_of("filename");
      out_.text(frames[i].file);
      entry("line", frames[i].line);
      out_.end_items();
    });
    frames_.emplace(key, out_.remember());
  }

  void write_segment(const Run& run) {
    std::vector<const Happened*> inside;
    uint64_t active = 0;
    uint64_t requested = 0;
    uint64_t at = run.begin;
    for (auto block = walk_.blocks().lower_bound(run.begin); block != walk_.blocks().end(); ++block) {
      const Happened& made = *block->second.made;
      if (block->first >= run.end) break;
      // If events were lost, a block may not lie within the run.
      if (block->first < at || block->first + rounded(made.bytes) > run.end) continue;
      inside.push_back(&made);
      active += rounded(made.bytes);
      requested += made.bytes;
      at = block->first + rounded(made.bytes);
    }
    out_.begin_dictionary();
    out_.begin_items();
    entry("device", device_);
    entry("address", run.begin);
    entry("total_size", run.end - run.begin);
    entry("allocated_size", active);
    entry("active_size", active);
    entry("requested_size", requested);
    entry("stream", run.stream);
    entry("segment_type", "large");
    key_of("segment_pool_id");
    out_.number(0);
    out_.number(0);
    out_.pair();
    key_of("is_expandable");
    out_.boolean(true);
    key_of("frames");
    out_.begin_list();
    key_of("blocks");
    write_blocks(run, inside);
    out_.end_items();
  }

  void write_blocks(const Run& run, const std::vector<const Happened*>& inside) {
    struct Piece {
      uint64_t begin;
      uint64_t bytes;
      const Happened* made;  // null: free
    };
    std::vector<Piece> pieces;
    uint64_t at = run.begin;
    for (const Happened* made : inside) {
      if (made->address > at) pieces.push_back({at, made->address - at, nullptr});
      pieces.push_back({made->address, rounded(made->bytes), made});
      at = made->address + rounded(made->bytes);
    }
    if (at < run.end) pieces.push_back({at, run.end - at, nullptr});
    list(pieces.size(), [&](size_t i) {
      const Piece& piece = pieces[i];
      out_.begin_dictionary();
      out_.begin_items();
      entry("address", piece.begin);
      entry("size", piece.bytes);
      entry("requested_size", piece.made == nullptr ? 0 : piece.made->bytes);
      entry("state", piece.made == nullptr ? "inactive" : "active_allocated");
      key_of("frames");
      if (piece.made == nullptr) {
        out_.begin_list();
      } else {
        write_frames(piece.made);
      }
      out_.end_items();
    });
  }

  const Recording& recording_;
  const uint64_t pool_;
  const uint64_t last_;
  PoolWalk walk_;
  std::deque<TorchEvent> events_;
  std::vector<Run> runs_;
  size_t device_ = 0;
  Pickle out_;
  std::map<std::string, size_t, std::less<>> texts_;
  std::map<std::pair<uint32_t, uint32_t>, size_t> frames_;
};

}  // namespace

std::string torch_snapshot_of(const Recording& recording, uint64_t pool, uint64_t last, bool at_peak) {
  const size_t end = at_peak ? events_until_peak(recording, pool) : recording.events.size();
  return TorchSnapshot(recording, pool, last).write(end);
}

}  // namespace gpupool::cli
