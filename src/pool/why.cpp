// SPDX-License-Identifier: Apache-2.0
// What is at an address, or was, in words.
#include <algorithm>
#include <cinttypes>
#include <cstdarg>
#include <cstdio>
#include <optional>

#include "pool/pool.hpp"
#include "pool/story.hpp"

namespace gpupool::internal {
namespace {

/// How sure an answer is.
enum Sureness : int { kUnheardOf, kNear, kFreeMemory, kGone, kInUse };

/// What was found under the lock. It is told without the lock, since stacks ask the loader for names.
struct Answer {
  int sureness = kUnheardOf;
  std::optional<BlockRecord> block;  // the block that holds the address
  std::optional<BlockRecord> below;
  std::optional<BlockRecord> above;
};

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

}  // namespace

int Pool::explain(Address address, std::string& text) {
  Answer answer;
  {
    const Lock lock = enter();
    // What the pool knows of a block without an address book.
    const auto record_of = [&](const Range* range) -> std::optional<BlockRecord> {
      ThreadCache* owner = range != nullptr ? owner_of(*range) : nullptr;
      if (owner == nullptr) return std::nullopt;
      const std::lock_guard owner_lock(owner->lock);
      if (!range->is(State::live) && !range->is(State::pending)) return std::nullopt;
      BlockRecord record;
      record.address = range->address;
      record.requested = range->requested();
      record.room = range->size;
      record.stream = heap_of(*range).state().order.stream();
      if (range->is(State::pending)) record.died_ns = 1;
      return record;
    };
    const auto known = [&](const BlockRecord* record) {
      return record != nullptr ? std::optional(*record) : std::nullopt;
    };
    if (debugger_ != nullptr && debugger_->modes().slows()) {
      const AddressBook& book = debugger_->book();
      answer.block = known(book.holder(address));
      if (answer.block) answer.sureness = answer.block->died_ns == 0 ? kInUse : kGone;
      answer.below = known(book.below(answer.block ? answer.block->address : address));
      answer.above = known(book.above(address));
    } else {
      const Range* at = space_.map.find_at_or_before(address);
      if (at != nullptr && address < at->end()) answer.block = record_of(at);
      if (answer.block) answer.sureness = answer.block->died_ns == 0 ? kInUse : kGone;
      if (debugger_ != nullptr && answer.block) {
        if (const BlockRecord* record = debugger_->book().holder(address)) answer.block = *record;
      }
    }
    const auto region = std::find_if(space_.regions.begin(), space_.regions.end(), [&](const Region& each) {
      return address >= each.base && address < each.end();
    });
    if (answer.sureness == kUnheardOf && region != space_.regions.end()) {
      answer.sureness =
          region->chunk_at(region->page_of(address)) != nullptr || region->is_segment ? kFreeMemory : kNear;
    }
  }
  if (answer.sureness == kUnheardOf) return kUnheardOf;
  if (answer.block && answer.block->number == 0) {
    const std::vector<Sample> samples = sampler_.all();
    const auto sample = std::find_if(samples.begin(), samples.end(), [&](const Sample& each) {
      return each.address == answer.block->address;
    });
    if (sample != samples.end()) {
      answer.block->tag = sample->tag;
      answer.block->made_by = sample->stack;
      answer.block->born_ns = sample->born_ns;
    }
  }
  const DeviceInfo& info = device_.info();
  add(text, "0x%" PRIx64 " is in pool %" PRIu64 " of %s:%d", address, id_,
      info.backend == GPUPOOL_BACKEND_CUDA ? "cuda" : "sim", info.ordinal);
  if (!answer.block) {
    text += answer.sureness == kFreeMemory ? ", in free memory" : ", where nothing is mapped";
    text += debugger_ != nullptr
                ? ", and no block is known to have been there\n"
                : "; what was there before is known with GPUPOOL_DEBUG, or from a recording\n";
  } else {
    const BlockRecord& block = *answer.block;
    const uint64_t offset = address - block.address;
    add(text, ", %" PRIu64 " bytes into a %s block of %" PRIu64 " bytes at 0x%" PRIx64, offset,
        block.died_ns == 0 ? "live" : "freed", block.requested, block.address);
    if (offset >= block.requested) add(text, ": %" PRIu64 " bytes beyond its end", offset - block.requested);
    if (block.tag != 0) text += ", of \"" + std::string(tag_name(block.tag)) + "\"";
    text += "\n";
    add_event(text, "allocated", block.born_ns, block.made_in, block.stream, block.made_by);
    if (block.died_ns > 1)
      add_event(text, "freed", block.died_ns, block.freed_in, block.freed_on, block.freed_by);
  }
  if (answer.below)
    add_neighbour(text, "in front", answer.below, address - std::min(address, answer.below->end()));
  if (answer.above) add_neighbour(text, "behind", answer.above, answer.above->address - address);
  return answer.sureness;
}

}  // namespace gpupool::internal
