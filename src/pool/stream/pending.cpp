// SPDX-License-Identifier: Apache-2.0
#include "pool/stream/pending.hpp"

#include <algorithm>
#include <utility>

namespace gpupool::internal {

static_assert(alignof(BlockUse) >= 16, "a block's marks are beside a pointer to its uses");

// ---- uses

void Pending::prepare() {
  constexpr size_t kSlab = 128;
  if (spare_ != nullptr) return;
  slabs_.push_back(std::make_unique<BlockUse[]>(kSlab));
  for (size_t i = 0; i < kSlab; ++i) {
    BlockUse& use = slabs_.back()[i];
    use.next = spare_;
    spare_ = &use;
  }
}

void Pending::add_use(Range& block, StreamState* state) noexcept {
  for (const BlockUse* use = block.uses(); use != nullptr; use = use->next) {
    if (use->state == state) return;
  }
  BlockUse* use = spare_;
  spare_ = use->next;
  *use = {block.uses(), state, 0, nullptr, nullptr};
  block.set_uses(use);
}

void Pending::remove_use(Range& block) noexcept {
  BlockUse* use = block.uses();
  block.set_uses(use->next);
  use->next = spare_;
  spare_ = use;
}

void Pending::remove_uses(Range& block) noexcept {
  while (block.uses() != nullptr) remove_use(block);
}

void Pending::push(Range*& list, Range& block) noexcept {
  block.link = list;
  list = &block;
}

/// Puts a block that has left its queue among those that have passed.
void Pending::pass(Range& block) noexcept {
  remove_uses(block);
  push(passed_, block);
}

// ---- waiting

bool Pending::add(Range& block) noexcept {
  StreamState* home = &heap_of(block).state();
  (void)home->order.stamp();  // so that an event covers what it has queued for the block
  bool by_any = false;
  for (BlockUse* use = block.uses(); use != nullptr; use = use->next) {
    by_any = by_any || use->state == nullptr;
    if (use->state == nullptr) continue;
    use->epoch = use->state->order.stamp();
    use->state->order.expect_questions();
  }
  if (by_any) {
    remove_uses(block);
    if (streams_.all().size() == 1) return false;
    push(collecting_, block);
    collecting_bytes_ += block.size;
    if (asking_.first == nullptr) begin_batch();
    return true;
  }
  // The block's own stream needs no wait; nor does a stream whose state the block's own reuses.
  while (block.uses() != nullptr && block.uses()->state == home) remove_use(block);
  if (block.uses() == nullptr) return false;
  enqueue(block);
  return true;
}

void Pending::enqueue(Range& block) noexcept {
  BlockUse* use = block.uses();
  StreamState& state = *use->state;
  if (state.waiting_first == nullptr) waited_.push_back(&state);
  (state.waiting_first != nullptr ? state.waiting_last->behind : state.waiting_first) = use;
  state.waiting_last = use;
  use->block = &block;
  use->behind = nullptr;
}

// ---- passing

/// Takes up to `most` blocks that a state has passed from the front of its queue, each to the queue of its
/// next user or out.
void Pending::settle_front(StreamState& state, size_t& most) noexcept {
  for (; state.waiting_first != nullptr && most != 0; --most) {
    BlockUse* front = state.waiting_first;
    Range* block = front->block;
    // Every user is asked, since the first question makes it record the event that it must pass.
    bool passed = true;
    for (const BlockUse* use = block->uses(); use != nullptr; use = use->next) {
      passed = use->state->order.passed(use->epoch) && passed;
    }
    if (!state.order.passed(front->epoch)) return;
    state.waiting_first = front->behind;
    if (state.waiting_first == nullptr) waited_.remove(&state);
    if (passed) {
      pass(*block);
      continue;
    }
    while (block->uses()->state->order.passed(block->uses()->epoch)) remove_use(*block);
    enqueue(*block);
  }
}

/// A state that was looked at goes to the end of the list, so that all get their turn. One with more to take
/// stays in front.
size_t Pending::settle_queues(bool all) noexcept {
  size_t most = kBlocksAtATime;
  size_t looks = all ? waited_.count() : std::min(waited_.count(), kStreamsAtATime);
  for (; looks-- > 0 && !waited_.empty();) {
    StreamState* state = waited_.first();
    settle_front(*state, most);
    if (most == 0) break;
    if (state->waiting_first == nullptr) continue;
    waited_.remove(state);
    waited_.push_back(state);
  }
  return kBlocksAtATime - most;
}

/// From now on each stream's user leaves an event behind what it has queued by then. A stream that nobody has
/// seen counts for nothing.
void Pending::begin_batch() noexcept {
  asking_ = {std::exchange(collecting_, nullptr), 0, std::exchange(collecting_bytes_, 0)};
  for (const auto& state : streams_.all()) {
    state->batch_epoch = state->order.stream() == GPUPOOL_STREAM_UNKNOWN ? 0 : state->order.stamp();
    state->order.expect_questions();
  }
}

/// Asks the streams in turn about the oldest batch, until one has not passed or all have.
size_t Pending::ask_streams(bool all) noexcept {
  const auto& states = streams_.all();
  const size_t most = all ? kBlocksAtATime : kStreamsAtATime;
  for (size_t asked = 0; asked < most; ++asked) {
    if (passed_ != nullptr) return asked;
    if (asking_.first == nullptr) {
      if (collecting_ == nullptr) return asked;
      begin_batch();
    }
    if (asking_.at == states.size()) {
      passed_ = std::exchange(asking_.first, nullptr);
      asking_.bytes = 0;
      continue;
    }
    StreamState& state = *states[asking_.at];
    if (!state.order.passed(state.batch_epoch)) return asked;
    ++asking_.at;
  }
  return most;
}

uint64_t Pending::begin_wait() noexcept {
  const auto place =
      std::find_if(waits_.begin(), waits_.end(), [](const Wait& wait) { return wait.first == nullptr; });
  if (place != waits_.end()) {
    for (Range** list : {&asking_.first, &collecting_}) {
      for (Range* next = std::exchange(*list, nullptr); next != nullptr;)
        push(place->first, *std::exchange(next, next->link));
    }
    asking_.bytes = collecting_bytes_ = 0;
    place->number = wait_count_ + 1;
  }
  return is_waited_for() ? ++wait_count_ : 0;
}

void Pending::end_wait(uint64_t wait, bool have_passed) noexcept {
  for (Wait& each : waits_) {
    if (have_passed ? each.number > wait : each.number != wait) continue;
    for (Range* next = std::exchange(each.first, nullptr); next != nullptr;) {
      Range* block = std::exchange(next, next->link);
      push(have_passed ? passed_ : collecting_, *block);
      if (!have_passed) collecting_bytes_ += block->size;
    }
  }
}

bool Pending::is_valid() const noexcept {
  const auto good = [](const Range* list) {
    for (; list != nullptr; list = list->link) {
      if (!list->is(State::pending)) return false;
    }
    return true;
  };
  bool valid = good(asking_.first) && good(collecting_) && good(passed_) &&
               std::all_of(waits_.begin(), waits_.end(), [&](const Wait& wait) { return good(wait.first); });
  for (const auto& state : streams_.all()) {
    for (const BlockUse* use = state->waiting_first; use != nullptr; use = use->behind) {
      valid =
          valid && use->state == state.get() && use->block->uses() == use && use->block->is(State::pending);
    }
  }
  return valid;
}

}  // namespace gpupool::internal
