// SPDX-License-Identifier: Apache-2.0
#include "pool/sleep/sleep_plan.hpp"

namespace gpupool::internal {
namespace {

uint64_t bytes_in(const std::vector<SavedRun>& runs, const SleepPlan::Batch& batch) {
  uint64_t bytes = 0;
  (void)for_parts(runs, batch, [&](Address, uint64_t size, uint64_t) {
    bytes += size;
    return kSuccess;
  });
  return bytes;
}

}  // namespace

void SleepPlan::add_chunk(Chunk* chunk) {
  Batch* last = batches.empty() ? nullptr : &batches.back();
  const bool joins = last != nullptr && chunk->address != 0 && last->start + last->size == chunk->address &&
                     last->size + chunk->size <= most_in_batch &&
                     entries.back().chunk->region == chunk->region;
  if (!joins) {
    batches.push_back({chunk->address, 0, entries.size(), 0, 0});
    last = &batches.back();
  }
  entries.push_back({chunk});
  if (chunk->address != 0) last->size += chunk->size;
  ++last->count;
  if (chunk->handle == 0) missing += chunk->size;
}

void SleepPlan::add_run(const Range& range, uint64_t most_gap) {
  saved += range.size;
  if (!runs.empty()) {
    SavedRun& last = runs.back();
    const Address end = last.address + last.size;
    const Range* before = range.prev;
    if (before != nullptr && before->is(State::hole) && before->size <= most_gap) before = before->prev;
    if (before != nullptr && before->end() == end && before->address >= last.address) {
      backup_bytes += range.end() - end;
      last.size = range.end() - last.address;
      return;
    }
  }
  runs.push_back({range.address, range.size, backup_bytes});
  backup_bytes += range.size;
}

void SleepPlan::count_contents() {
  for (const Batch& batch : batches) {
    saved += bytes_in(runs, batch);
    dropped += bytes_in(dropped_runs, batch);
  }
}

}  // namespace gpupool::internal
