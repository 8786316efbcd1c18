// SPDX-License-Identifier: Apache-2.0
#include "pool/pending.hpp"

#include <algorithm>

namespace gpupool::internal {

static_assert(alignof(BlockUse) >= 8, "a block's marks are beside a pointer to its uses");

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

void Pending::take_use_off(Range& block) noexcept {
  BlockUse* use = block.uses();
  block.set_uses(use->next);
  use->next = spare_;
  spare_ = use;
}

void Pending::drop_uses(Range& block) noexcept {
  while (block.uses() != nullptr) take_use_off(block);
}

void Pending::push(Range*& list, Range& block) noexcept {
  block.link = list;
  list = &block;
}

/// A block that was in a queue.
void Pending::pass(Range& block) noexcept {
  drop_uses(block);
  push(passed_, block);
}

// ---- waiting

bool Pending::hold(Range& block) noexcept {
  const StreamState* home = &heap_of(block).state();
  bool by_any = false;
  for (BlockUse* use = block.uses(); use != nullptr; use = use->next) {
    by_any = by_any || use->state == nullptr;
    if (use->state != nullptr) use->epoch = use->state->order.stamp();
  }
  if (by_any) {
    drop_uses(block);
    if (streams_.all().size() == 1) return false;
    push(collecting_, block);
    return true;
  }
  // Its own stream needs no wait; nor does a stream that was taken over by its own.
  while (block.uses() != nullptr && block.uses()->state == home) take_use_off(block);
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

/// Takes blocks from the front of a state's queue as far as it has passed, to the next of their users or out.
void Pending::settle_front(StreamState& state) noexcept {
  while (BlockUse* front = state.waiting_first) {
    Range* block = front->block;
    // Each user is asked, since it records what it must pass when it is asked first.
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
    while (block->uses()->state->order.passed(block->uses()->epoch)) take_use_off(*block);
    enqueue(*block);
  }
}

/// Each state that is looked at goes to the end of the list, so that all get their turn.
void Pending::settle_queues(bool all) noexcept {
  size_t looks = all ? waited_.count() : std::min(waited_.count(), kStreamsAtATime);
  for (; looks-- > 0 && !waited_.empty();) {
    StreamState* state = waited_.first();
    settle_front(*state);
    if (state->waiting_first == nullptr) continue;
    waited_.remove(state);
    waited_.push_back(state);
  }
}

void Pending::ask_all(bool all) noexcept {
  const auto& states = streams_.all();
  for (size_t asked = 0; all || asked < kStreamsAtATime; ++asked) {
    if (asking_.first == nullptr) {
      if (collecting_ == nullptr) return;
      asking_ = {collecting_, 0, 0};
      collecting_ = nullptr;
    }
    if (asking_.at == states.size()) {
      while (Range* block = asking_.first) {
        asking_.first = block->link;
        push(passed_, *block);
      }
      continue;
    }
    StreamOrder& order = states[asking_.at]->order;
    if (asking_.epoch == 0) asking_.epoch = order.stamp();
    if (!order.passed(asking_.epoch)) return;
    ++asking_.at;
    asking_.epoch = 0;
  }
}

bool Pending::is_valid() const noexcept {
  const auto good = [](const Range* list) {
    for (; list != nullptr; list = list->link) {
      if (!list->is(State::pending)) return false;
    }
    return true;
  };
  bool valid = good(asking_.first) && good(collecting_) && good(passed_);
  for (const auto& state : streams_.all()) {
    for (const BlockUse* use = state->waiting_first; use != nullptr; use = use->behind) {
      valid =
          valid && use->state == state.get() && use->block->uses() == use && use->block->is(State::pending);
    }
  }
  return valid;
}

}  // namespace gpupool::internal
