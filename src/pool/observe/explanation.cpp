// SPDX-License-Identifier: Apache-2.0
#include "pool/observe/explanation.hpp"

#include <algorithm>
#include <cinttypes>
#include <cstdarg>
#include <cstdio>
#include <mutex>
#include <vector>

#include "core/space.hpp"
#include "pool/debug/debugger.hpp"
#include "pool/debug/descriptions.hpp"
#include "pool/stream/streams.hpp"
#include "watch/clock.hpp"
#include "watch/sampler.hpp"
#include "watch/tags.hpp"

namespace gpupool::internal {
namespace {

[[gnu::format(printf, 2, 3)]] void add(std::string& text, const char* format, ...) {
  char line[512];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  text += line;
}

void add_stack(std::string& text, StackId stack) {
  std::string frames = describe_stack(stack);
  if (frames.empty()) frames = "(no stack)";
  for (size_t at = 0; at < frames.size();) {
    const size_t end = std::min(frames.find('\n', at), frames.size());
    text += "    " + frames.substr(at, end - at) + "\n";
    at = end + 1;
  }
}

void add_event(std::string& text, const char* what, uint64_t when_ns, uint32_t thread, Stream stream,
               StackId stack) {
  const double ago = static_cast<double>(clock_ns() - when_ns) / 1e9;
  if (when_ns != 0) {
    add(text, "  %s %.3f s ago by thread %u on stream 0x%" PRIxPTR ":\n", what, ago, thread, stream);
  } else {
    add(text, "  %s by somebody: it is not among the samples, and GPUPOOL_DEBUG was not set\n", what);
    return;
  }
  add_stack(text, stack);
}

void add_neighbour(std::string& text, const char* where, const std::optional<BlockRecord>& block,
                   uint64_t distance) {
  if (!block) return;
  add(text, "  %s, %" PRIu64 " bytes away: %s\n", where, distance, describe_life(*block).c_str());
}

/// What the pool knows of a block without a history.
std::optional<BlockRecord> record_of(const Range& range) {
  ThreadCache* owner = owner_of(range);
  if (owner == nullptr) return std::nullopt;
  const std::lock_guard owner_lock(owner->lock);
  if (!range.is(State::live) && !range.is(State::pending)) return std::nullopt;
  BlockRecord record;
  record.address = range.address;
  record.requested = range.requested();
  record.room = range.size;
  record.stream = heap_of(range).state().order.stream();
  if (range.is(State::pending)) record.died_ns = 1;
  return record;
}

std::optional<BlockRecord> known(const BlockRecord* record) {
  return record != nullptr ? std::optional(*record) : std::nullopt;
}

}  // namespace

void Explanation::find(const Space& space, const Debugger* debugger) {
  has_book_ = debugger != nullptr;
  if (debugger != nullptr && debugger->modes().slows()) {
    find_in_book(debugger->book());
  } else {
    const Range* at = space.map.find_at_or_before(address_);
    if (at != nullptr && address_ < at->end()) block_ = record_of(*at);
    if (debugger != nullptr && block_) {
      if (const BlockRecord* record = debugger->book().holder(address_)) block_ = *record;
    }
  }
  if (block_) {
    sureness_ = block_->died_ns == 0 ? kInUse : kGone;
    return;
  }
  const auto region = std::find_if(space.regions.begin(), space.regions.end(), [&](const Region& each) {
    return address_ >= each.base && address_ < each.end();
  });
  if (region == space.regions.end()) return;
  const bool is_backed = region->chunk_at(region->page_of(address_)) != nullptr || region->is_segment;
  sureness_ = is_backed ? kFreeMemory : kNear;
}

void Explanation::find_in_book(const BlockHistory& book) {
  block_ = known(book.holder(address_));
  below_ = known(book.below(block_ ? block_->address : address_));
  above_ = known(book.above(address_));
}

/// Adds what a sample says of the block.
void Explanation::find_in_samples(const Sampler& sampler) {
  if (!block_ || block_->number != 0) return;
  const std::vector<Sample> samples = sampler.all();
  const auto sample = std::find_if(samples.begin(), samples.end(),
                                   [&](const Sample& each) { return each.address == block_->address; });
  if (sample == samples.end()) return;
  block_->tag = sample->tag;
  block_->made_by = sample->stack;
  block_->born_ns = sample->born_ns;
}

int Explanation::tell(uint64_t pool, const DeviceInfo& info, const Sampler& sampler, std::string& text) {
  if (sureness_ == kUnheardOf) return kUnheardOf;
  find_in_samples(sampler);
  add(text, "0x%" PRIx64 " is in pool %" PRIu64 " of %s:%d", address_, pool, info.backend_name, info.ordinal);
  if (!block_) {
    text += sureness_ == kFreeMemory ? ", in free memory" : ", where nothing is mapped";
    text += has_book_ ? ", and no block is known to have been there\n"
                      : "; what was there before is known with GPUPOOL_DEBUG, or from a recording\n";
  } else {
    tell_block(*block_, text);
  }
  if (below_) add_neighbour(text, "in front", below_, address_ - std::min(address_, below_->end()));
  if (above_) add_neighbour(text, "behind", above_, above_->address - address_);
  return sureness_;
}

void Explanation::tell_block(const BlockRecord& block, std::string& text) const {
  const uint64_t offset = address_ - block.address;
  add(text, ", %" PRIu64 " bytes into a %s block of %" PRIu64 " bytes at 0x%" PRIx64, offset,
      block.died_ns == 0 ? "live" : "freed", block.requested, block.address);
  if (offset >= block.requested) add(text, ": %" PRIu64 " bytes beyond its end", offset - block.requested);
  if (block.tag != 0) text += ", of \"" + std::string(tag_name(block.tag)) + "\"";
  text += "\n";
  add_event(text, "allocated", block.born_ns, block.made_in, block.stream, block.made_by);
  if (block.died_ns > 1)
    add_event(text, "freed", block.died_ns, block.freed_in, block.freed_on, block.freed_by);
}

}  // namespace gpupool::internal
