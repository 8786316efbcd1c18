// SPDX-License-Identifier: Apache-2.0
// Who may sleep when; names; and what a sleeping pool can be asked.
#include "pool/sleep/sleeper.hpp"

#include <chrono>
#include <cinttypes>
#include <cstring>
#include <thread>

#include "pool/debug/debugger.hpp"
#include "pool/memory/blocks.hpp"
#include "pool/request/reclaimer.hpp"
#include "pool/sleep/backup_reader.hpp"
#include "pool/sleep/fall_asleep.hpp"
#include "pool/sleep/sleep_block.hpp"
#include "pool/sleep/sleep_parts.hpp"
#include "pool/sleep/sleep_target.hpp"
#include "pool/sleep/wake.hpp"
#include "pool/sleep/wake_queue.hpp"

namespace gpupool::internal {
namespace {

constexpr size_t kLongestName = 63;

/// How long a sleep waits for mallocs that have waited for the wake: they take microseconds, unless one of
/// them, by way of the log's receiver, is in this very sleep.
constexpr std::chrono::seconds kForMallocs{1};

}  // namespace

// ---- turns

Status Sleeper::SleepTurn::begin() {
  Sleeper& self = sleeper_;
  Gate& gate = self.pool_.gate;
  if (self.busy_ && gate.owner == std::this_thread::get_id()) {
    return fail(GPUPOOL_ERROR_UNAVAILABLE, "this thread is inside a sleep or wake of the same pool");
  }
  const Status status = wait_until_ready(gate.changed, lock_, GPUPOOL_WAIT_TURN, [&] { return !self.busy_; });
  if (status != kSuccess) return status;
  self.busy_ = has_it_ = true;
  gate.owner = std::this_thread::get_id();
  self.pool_.streams.next_round();
  return kSuccess;
}

/// However a transition ended, what is away says whether the pool is asleep.
Sleeper::SleepTurn::~SleepTurn() {
  if (!has_it_) return;
  Sleeper& self = sleeper_;
  Gate& gate = self.pool_.gate;
  if (gate.state == GPUPOOL_SLEEP_STATE_WAKING) gate.state = GPUPOOL_SLEEP_STATE_ASLEEP;
  if (gate.state == GPUPOOL_SLEEP_STATE_FALLING_ASLEEP) {
    gate.state = GPUPOOL_SLEEP_STATE_ASLEEP;
    if (self.in_.chunks.away() == 0) self.become_awake();
  }
  self.busy_ = false;
  gate.owner = {};
  gate.changed.notify_all();
}

// ---- the calls

/// Whether a pool of this kind can sleep in this way.
Status Sleeper::check_kind(const SleepOptions& options) const {
  if (!pool_.options.vmm) {
    return fail(GPUPOOL_ERROR_UNSUPPORTED,
                "only a pool in vmm mode can sleep: other memory cannot return to its addresses");
  }
  if (pool_.options.debug.has_fences()) {
    return fail(GPUPOOL_ERROR_UNSUPPORTED, "a pool in debug mode fence or guard cannot sleep");
  }
  const DeviceInfo& info = pool_.device.info();
  if ((info.capabilities & GPUPOOL_CAPABILITY_INTEGRATED) != 0 && !options.drops) {
    return fail(
        GPUPOOL_ERROR_UNSUPPORTED,
        "device %d uses the host's memory, where saved contents would stay: sleep with mode 1 (drop), and "
        "keep the blocks that matter",
        info.ordinal);
  }
  return kSuccess;
}

Status Sleeper::refuse_woken() const {
  return fail(GPUPOOL_ERROR_UNAVAILABLE,
              "blocks of the sleeping pool were woken: wake it before it sleeps again");
}

Status Sleeper::sleep(const SleepOptions& options, Result& result) {
  if (const Status status = check_kind(options); status != kSuccess) return status;
  Lock lock = pool_.enter();
  SleepTurn turn(*this, lock);
  if (const Status status = turn.begin(); status != kSuccess) return status;
  return sleep_now(lock, options, result);
}

/// The thread has its turn.
Status Sleeper::sleep_now(Lock& lock, const SleepOptions& options, Result& result) {
  if (in_.has_woken_blocks) return refuse_woken();
  if (!pool_.gate.is_awake()) return kSuccess;
  pool_.gate.changed.wait_for(lock, kForMallocs, [&] { return pool_.gate.waiting == 0; });
  in_.slept_at = WakePlace::next_step();
  if (options.target != 0) return TargetSleep(in_, lock, options).run(result);
  if (const Status status = check_own(in_, 0); status != kSuccess) return status;
  if (const Status status = check_no_capture(pool_.streams); status != kSuccess) return status;
  const bool is_new = in_.hooks.owe(0);
  if (const Status status = in_.hooks.before_release(lock, pool_.handle, 0); status != kSuccess) {
    if (is_new) in_.hooks.forget(0);
    return status;
  }
  const uint64_t start = pool_.device.now_ns();
  Result own{};
  const Status status = without_throwing([&] { return begin_sleep(lock, options, own); });
  if (status != kSuccess) {
    const KeepError keep_error;
    undo_sleep(lock);
    const interrupts::Off off;
    if (pool_.gate.is_awake()) (void)in_.hooks.after_map(lock, pool_.handle, 0);
    return status;
  }
  pool_.gate.state = GPUPOOL_SLEEP_STATE_ASLEEP;
  allowance_.end();
  ++sleeps_;
  ++result.pools;
  own.nanoseconds = pool_.device.now_ns() - start;
  add_to(result, own);
  return kSuccess;
}

Status Sleeper::begin_sleep(Lock& lock, const SleepOptions& options, Result& result) {
  pool_.streams.next_round();
  if (const Status status = check_own(in_, 0); status != kSuccess) return status;
  if (in_.debugger != nullptr) {
    in_.reclaimer.settle_all_pending(lock);
    (void)in_.debugger->release(true);
  }
  pool_.gate.state = GPUPOOL_SLEEP_STATE_FALLING_ASLEEP;
  ++pool_.gate.falls;
  pool_.gate.holds_mallocs = options.hold_mallocs;
  drops_ = options.drops;
  return FallAsleep(in_, lock, options).run(result);
}

/// Wakes what has gone, if anything has. What slept alone before sleeps on.
void Sleeper::undo_sleep(Lock& lock) {
  Result ignored{};
  // A wake may wait for others, and whoever waits for this sleep must not.
  if (pool_.gate.state == GPUPOOL_SLEEP_STATE_FALLING_ASLEEP) pool_.gate.state = GPUPOOL_SLEEP_STATE_WAKING;
  pool_.gate.changed.notify_all();
  if (in_.chunks.away() != 0) {
    const interrupts::Off off;
    (void)without_throwing([&] { return Waking(in_, lock, {}).run({0, true}, ignored); });
  }
  if (in_.chunks.away() != 0) return;
  become_awake();
  in_.saved.forget();
  in_.saved.release(lock);
}

Status Sleeper::wake(const SleepOptions& options, Result& result) {
  Lock lock = pool_.enter();
  SleepTurn turn(*this, lock);
  if (const Status status = turn.begin(); status != kSuccess) return status;
  allowance_.end();
  if (pool_.gate.is_awake()) return BlockSleep(in_, lock, options).wake_all(result);
  const uint64_t start = pool_.device.now_ns();
  pool_.gate.state = GPUPOOL_SLEEP_STATE_WAKING;
  Result own{};
  if (const Status status = Waking(in_, lock, options).run({}, own); status != kSuccess) return status;
  become_awake();
  in_.blocks.end_all();
  in_.has_woken_blocks = false;
  ++wakes_;
  pool_.gate.changed.notify_all();
  if (options.retain_backup) in_.saved.keep_all();
  in_.saved.release(lock);
  ++result.pools;
  own.nanoseconds = pool_.device.now_ns() - start;
  add_to(result, own);
  return BlockSleep(in_, lock, options).tell_awake();
}

Status Sleeper::wake_block(Address address, const SleepOptions& options, Result& result) {
  Lock lock = pool_.enter();
  SleepTurn turn(*this, lock);
  if (const Status status = turn.begin(); status != kSuccess) return status;
  const Range* block = find_live(pool_.space, address);
  if (block == nullptr) return not_a_block(pool_.space, address);
  if (!in_.chunks.are_in(*block)) return in_.hooks.after_map(lock, pool_.handle, address);
  BlockSleep block_sleep(in_, lock, options);
  const Status status = block_sleep.wake(address, result);
  block_sleep.note_taken(address);
  return status;
}

Status Sleeper::prepare(uint64_t bytes) {
  if (!pool_.options.vmm) return fail(GPUPOOL_ERROR_UNSUPPORTED, "only a pool in vmm mode can sleep");
  if (bytes > kSizeMax) {
    return fail(GPUPOOL_ERROR_HOST_OUT_OF_MEMORY, "%" PRIu64 " bytes are more than any host has", bytes);
  }
  Lock lock = pool_.enter();
  SleepTurn turn(*this, lock);
  if (const Status status = turn.begin(); status != kSuccess) return status;
  return in_.saved.set_kept(lock, bytes);
}

Status Sleeper::set_keep(Address address, bool keep) {
  const Lock lock = pool_.enter();
  Range* block = pool_.space.map.find(address);
  if (block == nullptr || block->owner() == nullptr || block->address != address || !block->is(State::live))
    return not_a_block(pool_.space, address);
  return in_.blocks.set_keep(*block, keep);
}

void Sleeper::set_hooks(gpupool_sleep_hook_fn_t before, gpupool_sleep_hook_fn_t after, void* user) {
  const Lock lock = pool_.look();
  in_.hooks.set(before, after, user);
}

Status Sleeper::backup(Address address, const void*& data, uint64_t& bytes) {
  const Lock lock = pool_.look();
  return find_backup(in_, address, data, bytes);
}

Status Sleeper::read_backup(Address address, void* data, uint64_t bytes) {
  Lock lock = pool_.look();
  return internal::read_backup(in_, lock, address, data, bytes);
}

void Sleeper::end(Lock& lock) noexcept {
  if (!pool_.gate.is_awake()) {
    in_.saved.wait_for_pending(lock);
    (void)in_.reclaimer.wait_for_streams(lock, "sleep", Reclaimer::Extent::everything);
    in_.reclaimer.settle_all_pending(lock);
    in_.chunks.end();
    become_awake();
    pool_.gate.changed.notify_all();
  }
  in_.saved.end(lock);
}

Status Sleeper::sleep_block(Address address, const SleepOptions& options, Result& result) {
  if (const Status status = check_kind(options); status != kSuccess) return status;
  Lock lock = pool_.enter();
  SleepTurn turn(*this, lock);
  if (const Status status = turn.begin(); status != kSuccess) return status;
  in_.slept_at = WakePlace::next_step();
  return BlockSleep(in_, lock, options).sleep(address, result);
}

Status Sleeper::check_target(const SleepOptions& options) {
  if (const Status status = check_kind(options); status != kSuccess) return status;
  const Lock lock = pool_.enter();
  return in_.has_woken_blocks ? refuse_woken() : check_no_capture(pool_.streams);
}

SleepOptions Sleeper::last_options() {
  const Lock lock = pool_.look();
  SleepOptions options;
  options.drops = drops_;
  options.hold_mallocs = pool_.gate.holds_mallocs;
  return options;
}

Status Sleeper::release_idle(uint64_t bytes, Result& result) {
  return internal::release_idle(in_, bytes, result);
}

Status Sleeper::check_awake(Address block) const {
  if (!pool_.gate.is_alone(block)) return kSuccess;
  return fail(GPUPOOL_ERROR_UNAVAILABLE, "the block at 0x%" PRIx64 " sleeps: wake it before it is exported",
              block);
}

/// The pool is awake. What was freed while it was not goes now.
void Sleeper::become_awake() noexcept {
  pool_.gate.state = GPUPOOL_SLEEP_STATE_AWAKE;
  in_.blocks.drop_freed();
}

// ---- for other pools of the process, and neighbours of the group, until the next wake

Status Sleeper::allow(const SleepOptions& options) {
  if (const Status status = check_kind(options); status != kSuccess) return status;
  Lock lock = pool_.enter();
  SleepTurn turn(*this, lock);
  if (const Status status = turn.begin(); status != kSuccess) return status;
  if (pool_.gate.is_awake()) allowance_.give(options);
  return kSuccess;
}

uint64_t Sleeper::allowed_since() {
  const Lock lock = pool_.look();
  return allowance_.since();
}

uint64_t Sleeper::sleep_for_others() {
  Result result{};
  Lock lock = pool_.enter();
  if (!allowance_.is_given()) return 0;
  if (pool_.gate.state == GPUPOOL_SLEEP_STATE_FALLING_ASLEEP &&
      pool_.gate.owner != std::this_thread::get_id()) {
    // On its way, it waits for no other pool and no hook.
    const Status status = wait_until_ready(pool_.gate.changed, lock, GPUPOOL_WAIT_TURN, [&] {
      return pool_.gate.state != GPUPOOL_SLEEP_STATE_FALLING_ASLEEP;
    });
    return status == kSuccess ? in_.chunks.bytes() : 0;
  }
  // A wake may wait for memory, and meanwhile neighbours still want an answer.
  if (busy_ || !pool_.gate.is_awake()) return 0;
  SleepTurn turn(*this, lock);
  if (turn.begin() != kSuccess) return 0;
  const SleepOptions options = allowance_.options();
  return sleep_now(lock, options, result) == kSuccess ? result.released_bytes : 0;
}

void Sleeper::end_allowance(Lock& lock) {
  pool_.gate.changed.wait(lock, [&] { return !busy_ || pool_.gate.owner == std::this_thread::get_id(); });
  allowance_.end();
}

// ---- names, and what is to be seen

gpupool_sleep_state_t Sleeper::state() {
  const Lock lock = pool_.look();
  return pool_.gate.state;
}

bool Sleeper::is_all_asleep() {
  const Lock lock = pool_.look();
  return pool_.gate.state == GPUPOOL_SLEEP_STATE_ASLEEP && !in_.has_woken_blocks;
}

/// Whether there is nothing to wake, nothing left of what was freed asleep, and nobody to be told.
bool Sleeper::is_all_awake() {
  const Lock lock = pool_.look();
  return pool_.gate.is_awake() && pool_.gate.alone.empty() && !in_.hooks.owes_any() &&
         !in_.saved.has_surplus();
}

Status Sleeper::set_name(const char* name) {
  const size_t length = name != nullptr ? strnlen(name, kLongestName + 1) : 0;
  if (length > kLongestName) {
    return fail(GPUPOOL_ERROR_INVALID_ARGUMENT, "the name is longer than %zu bytes", kLongestName);
  }
  std::string copy(name != nullptr ? name : "", length);
  const Lock lock = pool_.enter();
  pool_.gate.name.swap(copy);
  pool_.has_news = true;
  return kSuccess;
}

std::string Sleeper::name() {
  const Lock lock = pool_.look();
  return pool_.gate.name;
}

void Sleeper::add_stats(gpupool_stats_t& stats) const noexcept {
  stats.asleep_bytes = in_.chunks.bytes();
  stats.backup_bytes = in_.saved.capacity();
  stats.sleeps = sleeps_;
  stats.wakes = wakes_;
}

std::string Sleeper::describe() const {
  if (pool_.gate.is_awake() && pool_.gate.alone.empty()) return "";
  return (pool_.gate.is_awake() ? "Blocks of it are asleep: " : "It is asleep: ") +
         std::to_string(in_.chunks.bytes()) + " bytes are away, and " + std::to_string(in_.saved.capacity()) +
         " bytes of the host hold what was saved";
}

}  // namespace gpupool::internal
