// SPDX-License-Identifier: Apache-2.0
// Who may sleep when; names; and what a sleeping pool can be asked.
#include "pool/sleeper.hpp"

#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <cstring>
#include <thread>
#include <utility>

#include "pool/backup_reader.hpp"
#include "pool/blocks.hpp"
#include "pool/fall_asleep.hpp"
#include "pool/pool.hpp"
#include "pool/sleep_block.hpp"
#include "pool/sleep_parts.hpp"
#include "pool/sleep_target.hpp"
#include "pool/sleep_turn.hpp"
#include "pool/wake.hpp"
#include "pool/wake_queue.hpp"

namespace gpupool::internal {
namespace {

constexpr size_t kLongestName = 63;

/// How long a sleep waits for mallocs that are guests: they take microseconds, unless one of them, by way of
/// the log's receiver, is in this very sleep.
constexpr std::chrono::seconds kForGuests{1};

}  // namespace

Sleeper::Sleeper(Pool& pool)
    : pool_(pool),
      device_(pool.device_),
      allowance_(pool.company_),
      saved_(pool.device_, pool.space_),
      chunks_(pool.rooms_, pool.backing_),
      blocks_(pool.space_, chunks_, saved_, hooks_, state_),
      bedroom_{pool.rooms_,
               pool.backing_,
               pool.pending_,
               pool.source_,
               pool.way_back_,
               pool.others_,
               pool.oom_handler_,
               pool.stock_,
               pool.exports_,
               pool.protections_,
               pool.debugger_,
               pool.handle_,
               saved_,
               chunks_,
               blocks_,
               hooks_,
               name_,
               state_,
               has_woken_blocks_,
               slept_at_,
               changed_} {}

// ---- turns

Status Sleeper::Turn::begin() {
  Sleeper& self = sleeper_;
  if (self.busy_ && self.owner_ == std::this_thread::get_id()) {
    return fail(GPUPOOL_ERROR_UNAVAILABLE, "this thread is inside a sleep or wake of the same pool");
  }
  self.changed_.wait(lock_, [&] { return !self.busy_; });
  self.busy_ = has_it_ = true;
  self.owner_ = std::this_thread::get_id();
  self.pool_.streams_.next_round();
  return kSuccess;
}

/// However a transition ended, what is away says whether the pool is asleep.
Sleeper::Turn::~Turn() {
  if (!has_it_) return;
  Sleeper& self = sleeper_;
  if (self.state_ == GPUPOOL_SLEEP_STATE_WAKING) self.state_ = GPUPOOL_SLEEP_STATE_ASLEEP;
  if (self.state_ == GPUPOOL_SLEEP_STATE_FALLING_ASLEEP) {
    self.state_ = GPUPOOL_SLEEP_STATE_ASLEEP;
    if (self.chunks_.away() == 0) self.become_awake();
  }
  self.busy_ = false;
  self.owner_ = {};
  self.changed_.notify_all();
}

/// Answers a malloc of a pool that is not awake.
Status Sleeper::refuse_or_wait(Lock& lock, Guest& guest) {
  if (hold_mallocs_ && owner_ != std::this_thread::get_id()) {
    if (!std::exchange(guest.has_waited_, true)) ++guests_;
    changed_.wait(lock, [&] { return is_awake(); });
    pool_.streams_.next_round();
    return kSuccess;
  }
  return fail(GPUPOOL_ERROR_ASLEEP, "the pool%s%s%s is asleep: wake it first", name_.empty() ? "" : " '",
              name_.c_str(), name_.empty() ? "" : "'");
}

void Sleeper::end_guest(Guest& guest) noexcept {
  guest.has_waited_ = false;
  if (--guests_ == 0) changed_.notify_all();
}

// ---- the calls

/// Whether a pool of this kind can sleep.
Status Sleeper::check_kind() const {
  if (!pool_.options_.vmm) {
    return fail(GPUPOOL_ERROR_UNSUPPORTED,
                "only a pool in vmm mode can sleep: other memory cannot return to its addresses");
  }
  if (pool_.debugger_ != nullptr && pool_.debugger_->has_fences()) {
    return fail(GPUPOOL_ERROR_UNSUPPORTED, "a pool in debug mode fence or guard cannot sleep");
  }
  return kSuccess;
}

Status Sleeper::refuse_woken() const {
  return fail(GPUPOOL_ERROR_UNAVAILABLE,
              "blocks of the sleeping pool were woken: wake it before it sleeps again");
}

Status Sleeper::sleep(const SleepOptions& options, Result& result) {
  if (const Status status = check_kind(); status != kSuccess) return status;
  Lock lock = pool_.enter();
  Turn turn(*this, lock);
  if (const Status status = turn.begin(); status != kSuccess) return status;
  return sleep_now(lock, options, result);
}

/// The thread has its turn.
Status Sleeper::sleep_now(Lock& lock, const SleepOptions& options, Result& result) {
  if (has_woken_blocks_) return refuse_woken();
  if (!is_awake()) return kSuccess;
  changed_.wait_for(lock, kForGuests, [&] { return guests_ == 0; });
  slept_at_ = WakePlace::next_step();
  if (options.target != 0) return TargetSleep(bedroom_, lock, options).run(result);
  if (const Status status = check_own(bedroom_, 0); status != kSuccess) return status;
  if (const Status status = check_no_capture(pool_.streams_); status != kSuccess) return status;
  const bool is_new = hooks_.owe(0);
  if (const Status status = hooks_.before_release(lock, pool_.handle_, 0); status != kSuccess) {
    if (is_new) hooks_.forget(0);
    return status;
  }
  const uint64_t start = device_.raw().now_ns();
  Result own{};
  const Status status = without_throwing([&] { return begin_sleep(lock, options, own); });
  if (status != kSuccess) {
    const ErrorRecord cause = last_error();
    undo_sleep(lock);
    if (is_awake()) (void)hooks_.after_map(lock, pool_.handle_, 0);
    last_error() = cause;
    return status;
  }
  state_ = GPUPOOL_SLEEP_STATE_ASLEEP;
  allowance_.end();
  ++sleeps_;
  ++result.pools;
  own.nanoseconds = device_.raw().now_ns() - start;
  add_to(result, own);
  return kSuccess;
}

Status Sleeper::begin_sleep(Lock& lock, const SleepOptions& options, Result& result) {
  pool_.streams_.next_round();
  if (const Status status = check_own(bedroom_, 0); status != kSuccess) return status;
  if (pool_.debugger_ != nullptr) {
    pool_.way_back_.settle_all_pending(lock);
    (void)pool_.debugger_->empty_quarantine();
  }
  state_ = GPUPOOL_SLEEP_STATE_FALLING_ASLEEP;
  hold_mallocs_ = options.hold_mallocs;
  drops_ = options.drops;
  return FallAsleep(bedroom_, lock, options).run(result);
}

/// Wakes what has gone, if anything has. What slept alone before sleeps on.
void Sleeper::undo_sleep(Lock& lock) {
  Result ignored{};
  // A wake may wait for others, and whoever waits for this sleep must not.
  if (state_ == GPUPOOL_SLEEP_STATE_FALLING_ASLEEP) state_ = GPUPOOL_SLEEP_STATE_WAKING;
  changed_.notify_all();
  if (chunks_.away() != 0)
    (void)without_throwing([&] { return Waking(bedroom_, lock, {}).run({0, true}, ignored); });
  if (chunks_.away() != 0) return;
  become_awake();
  saved_.forget();
  saved_.release(lock);
}

Status Sleeper::wake(const SleepOptions& options, Result& result) {
  Lock lock = pool_.enter();
  Turn turn(*this, lock);
  if (const Status status = turn.begin(); status != kSuccess) return status;
  allowance_.end();
  if (is_awake()) return BlockSleep(bedroom_, lock, options).wake_all(result);
  const uint64_t start = device_.raw().now_ns();
  state_ = GPUPOOL_SLEEP_STATE_WAKING;
  Result own{};
  if (const Status status = Waking(bedroom_, lock, options).run({}, own); status != kSuccess) return status;
  become_awake();
  blocks_.end_all();
  has_woken_blocks_ = false;
  ++wakes_;
  changed_.notify_all();
  if (options.retain_backup) saved_.keep_all();
  saved_.release(lock);
  ++result.pools;
  own.nanoseconds = device_.raw().now_ns() - start;
  add_to(result, own);
  return BlockSleep(bedroom_, lock, options).tell_awake();
}

Status Sleeper::wake_block(Address address, const SleepOptions& options, Result& result) {
  Lock lock = pool_.enter();
  Turn turn(*this, lock);
  if (const Status status = turn.begin(); status != kSuccess) return status;
  const Range* block = find_live(pool_.space_, address);
  if (block == nullptr) return not_a_block(pool_.space_, address);
  if (!is_asleep(*block)) return hooks_.after_map(lock, pool_.handle_, address);
  BlockSleep block_sleep(bedroom_, lock, options);
  const Status status = block_sleep.wake(address, result);
  block_sleep.note_taken(address);
  return status;
}

Status Sleeper::prepare(uint64_t bytes) {
  if (!pool_.options_.vmm) return fail(GPUPOOL_ERROR_UNSUPPORTED, "only a pool in vmm mode can sleep");
  if (bytes > kSizeMax) {
    return fail(GPUPOOL_ERROR_HOST_OUT_OF_MEMORY, "%" PRIu64 " bytes are more than any host has", bytes);
  }
  Lock lock = pool_.enter();
  Turn turn(*this, lock);
  if (const Status status = turn.begin(); status != kSuccess) return status;
  return saved_.set_kept(lock, bytes);
}

Status Sleeper::set_keep(Address address, bool keep) {
  const Lock lock = pool_.enter();
  Range* block = pool_.space_.map.find(address);
  if (block == nullptr || block->owner() == nullptr || block->address != address || !block->is(State::live))
    return not_a_block(pool_.space_, address);
  return blocks_.set_keep(*block, keep);
}

void Sleeper::set_hooks(gpupool_sleep_hook_fn_t before, gpupool_sleep_hook_fn_t after, void* user) {
  const Lock lock = pool_.door_.look();
  hooks_.set(before, after, user);
}

Status Sleeper::backup(Address address, const void*& data, uint64_t& bytes) {
  const Lock lock = pool_.door_.look();
  return find_backup(bedroom_, address, data, bytes);
}

Status Sleeper::read_backup(Address address, void* data, uint64_t bytes) {
  Lock lock = pool_.door_.look();
  return internal::read_backup(bedroom_, lock, address, data, bytes);
}

void Sleeper::end(Lock& lock) noexcept {
  if (!is_awake()) {
    saved_.wait_for_pending(lock);
    (void)pool_.way_back_.wait_for_streams(lock, "sleep");
    pool_.way_back_.settle_all_pending(lock);
    chunks_.end();
    become_awake();
    changed_.notify_all();
  }
  saved_.end(lock);
}

Status Sleeper::sleep_block(Address address, const SleepOptions& options, Result& result) {
  if (const Status status = check_kind(); status != kSuccess) return status;
  Lock lock = pool_.enter();
  Turn turn(*this, lock);
  if (const Status status = turn.begin(); status != kSuccess) return status;
  slept_at_ = WakePlace::next_step();
  return BlockSleep(bedroom_, lock, options).sleep(address, result);
}

Status Sleeper::check_target() {
  if (const Status status = check_kind(); status != kSuccess) return status;
  const Lock lock = pool_.enter();
  return has_woken_blocks_ ? refuse_woken() : check_no_capture(pool_.streams_);
}

SleepOptions Sleeper::last_options() {
  const Lock lock = pool_.door_.look();
  SleepOptions options;
  options.drops = drops_;
  options.hold_mallocs = hold_mallocs_;
  return options;
}

Status Sleeper::release_idle(uint64_t bytes, Result& result) {
  return internal::release_idle(bedroom_, bytes, result);
}

/// The pool is awake. What was freed while it was not goes now.
void Sleeper::become_awake() noexcept {
  state_ = GPUPOOL_SLEEP_STATE_AWAKE;
  blocks_.drop_freed();
}

// ---- for other pools of the process, and neighbours of the group, until the next wake

Status Sleeper::allow(const SleepOptions& options) {
  if (const Status status = check_kind(); status != kSuccess) return status;
  Lock lock = pool_.enter();
  Turn turn(*this, lock);
  if (const Status status = turn.begin(); status != kSuccess) return status;
  if (is_awake()) allowance_.give(options);
  return kSuccess;
}

uint64_t Sleeper::allowed_since() {
  const Lock lock = pool_.door_.look();
  return allowance_.since();
}

uint64_t Sleeper::sleep_for_others() {
  Result result{};
  Lock lock = pool_.enter();
  if (!allowance_.is_given()) return 0;
  if (state_ == GPUPOOL_SLEEP_STATE_FALLING_ASLEEP && owner_ != std::this_thread::get_id()) {
    // On its way, it waits for no other pool and no hook.
    changed_.wait(lock, [&] { return state_ != GPUPOOL_SLEEP_STATE_FALLING_ASLEEP; });
    return chunks_.bytes();
  }
  // A wake may wait for memory, and meanwhile neighbours still want an answer.
  if (busy_ || !is_awake()) return 0;
  Turn turn(*this, lock);
  if (turn.begin() != kSuccess) return 0;
  const SleepOptions options = allowance_.options();
  return sleep_now(lock, options, result) == kSuccess ? result.released_bytes : 0;
}

void Sleeper::end_allowance(Lock& lock) {
  changed_.wait(lock, [&] { return !busy_ || owner_ == std::this_thread::get_id(); });
  allowance_.end();
}

// ---- names, and what is to be seen

gpupool_sleep_state_t Sleeper::state() {
  const Lock lock = pool_.door_.look();
  return state_;
}

bool Sleeper::is_all_asleep() {
  const Lock lock = pool_.door_.look();
  return state_ == GPUPOOL_SLEEP_STATE_ASLEEP && !has_woken_blocks_;
}

/// Whether there is nothing to wake, and nobody to be told.
bool Sleeper::is_all_awake() {
  const Lock lock = pool_.door_.look();
  return is_awake() && !blocks_.any_alone() && !hooks_.owes_any();
}

Status Sleeper::set_name(const char* name) {
  const size_t length = name != nullptr ? strnlen(name, kLongestName + 1) : 0;
  if (length > kLongestName) {
    return fail(GPUPOOL_ERROR_INVALID_ARGUMENT, "the name is longer than %zu bytes", kLongestName);
  }
  std::string copy(name != nullptr ? name : "", length);
  {
    const Lock lock = pool_.door_.look();
    name_.swap(copy);
  }
  pool_.display_.show_again();
  return kSuccess;
}

std::string Sleeper::name() {
  const Lock lock = pool_.door_.look();
  return name_;
}

void Sleeper::add_stats(gpupool_stats_t& stats) const noexcept {
  stats.asleep_bytes = chunks_.bytes();
  stats.backup_bytes = saved_.capacity();
  stats.sleeps = sleeps_;
  stats.wakes = wakes_;
}

void Sleeper::describe(std::string& report) const {
  if (!name_.empty()) report += " Its name is '" + name_ + "'.";
  if (is_awake() && !blocks_.any_alone()) return;
  report += (is_awake() ? " Blocks of it are asleep: " : " It is asleep: ") +
            std::to_string(chunks_.bytes()) + " bytes are away, and " + std::to_string(saved_.capacity()) +
            " bytes of the host hold what was saved.";
}

}  // namespace gpupool::internal
