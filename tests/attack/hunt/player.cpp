// SPDX-License-Identifier: Apache-2.0
#include "attack/hunt/player.hpp"

#include <chrono>
#include <utility>

namespace hunt {

Player::Player(Allocator& allocator, size_t threads, size_t slots)
    : allocator_(allocator), addresses_(slots) {
  for (size_t i = 0; i < threads; ++i) turns_.push_back(std::make_unique<Turn>());
  for (size_t i = 0; i < threads; ++i) threads_.emplace_back([this, i] { run(i); });
}

Player::~Player() {
  steps_ = nullptr;
  for (const auto& turn : turns_) turn->release();
}

void Player::play(const std::vector<Step>& steps) {
  if (steps.empty()) return;
  steps_ = &steps;
  at_ = 0;
  nanoseconds_.assign(steps.size(), 0);
  turns_[steps.front().thread]->release();
  done_.acquire();
  if (thrown_) std::rethrow_exception(std::exchange(thrown_, nullptr));
}

void Player::run(size_t thread) {
  for (bool has_entered = false;;) {
    turns_[thread]->acquire();
    if (steps_ == nullptr) return;
    try {
      if (!std::exchange(has_entered, true)) allocator_.enter_thread();
      do_steps(thread);
    } catch (...) {
      thrown_ = std::current_exception();
      at_ = steps_->size();
    }
    (at_ == steps_->size() ? done_ : *turns_[(*steps_)[at_].thread]).release();
  }
}

void Player::do_steps(size_t thread) {
  for (; at_ < steps_->size() && (*steps_)[at_].thread == thread; ++at_) {
    const Step& step = (*steps_)[at_];
    if (step.kind == Kind::malloc || step.kind == Kind::free) {
      do_timed(step, nanoseconds_[at_]);
    } else {
      do_step(step);
    }
  }
}

void Player::do_timed(const Step& step, uint32_t& nanoseconds) {
  using Clock = std::chrono::steady_clock;
  uint64_t& address = addresses_[step.slot];
  const uint64_t locks = allocator_.locks_taken();
  const Clock::time_point begin = Clock::now();
  if (step.kind == Kind::malloc) {
    address = allocator_.malloc(step.pool, step.bytes, step.stream);
    ++mallocs_;
    if (address == 0) ++failures_;
  } else if (address != 0) {
    allocator_.free(step.pool, std::exchange(address, 0), step.bytes, step.stream);
  }
  nanoseconds = static_cast<uint32_t>(std::chrono::nanoseconds(Clock::now() - begin).count());
  locks_ += allocator_.locks_taken() - locks;
}

void Player::do_step(const Step& step) {
  const uint64_t address = addresses_[step.slot];
  switch (step.kind) {
    case Kind::record_stream:
      if (address != 0) allocator_.record_stream(step.pool, address, step.stream);
      break;
    case Kind::work:
      if (address != 0) allocator_.work(address, step.stream, step.bytes);
      break;
    case Kind::begin_capture: allocator_.begin_capture(step.stream); break;
    case Kind::end_capture: allocator_.end_capture(step.stream); break;
    case Kind::advance: allocator_.advance(step.bytes); break;
    case Kind::malloc:
    case Kind::free: break;
  }
}

}  // namespace hunt
