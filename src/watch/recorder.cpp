// SPDX-License-Identifier: Apache-2.0
#include "watch/recorder.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "os/thread.hpp"
#include "watch/journal.hpp"

namespace gpupool::internal {

constinit std::atomic<uint32_t> Recorder::generation_{0};
constinit std::atomic<bool> Recorder::by_processor_{false};
constinit std::atomic<StackKinds> Recorder::stacks_{StackKinds{}};
constinit std::atomic<uint64_t> Recorder::due_{UINT64_MAX};
constinit std::atomic<Recorder::TakeTurn> Recorder::turn_{nullptr};

namespace {

/// Longer texts are cut.
constexpr size_t kTextMax = 16 * 1024;
/// The maximum length of an event without a text.
constexpr size_t kEventMax = 64;

/// A set of small numbers to which threads add.
template <size_t Count>
class AtomicSet {
 public:
  /// False if it was in there.
  bool add(size_t number) noexcept {
    const uint64_t bit = uint64_t{1} << number % 64;
    std::atomic<uint64_t>& word = words_[number / 64];
    return (word.load(std::memory_order_relaxed) & bit) == 0 &&
           (word.fetch_or(bit, std::memory_order_relaxed) & bit) == 0;
  }
  void remove(size_t number) noexcept {
    words_[number / 64].fetch_and(~(uint64_t{1} << number % 64), std::memory_order_relaxed);
  }

 private:
  std::array<std::atomic<uint64_t>, Count / 64> words_{};
};

struct Recording {
  Journal journal;
  AtomicSet<kTagNames> tags;
  AtomicSet<kStacks> stack_texts;
  Plan plan;  // read and written within a change only
  uint32_t generation = 0;
  // When a ring's file makes way: at this time, in ticks, or with so many chunks full of events that count.
  uint64_t due = UINT64_MAX;
  uint64_t chunks_due = UINT64_MAX;
  std::atomic<uint64_t> full_chunks{0};
  // Who may still come to it: each thread that has had a chunk of it, until it takes one of another recording
  // or ends; and, while it is under way, all. The last one deletes it, so however many recordings end, no
  // more are there than threads.
  std::atomic<uint32_t> users{1};

  bool is_full() const noexcept { return full_chunks.load(std::memory_order_relaxed) >= chunks_due; }
};

/// The one under way. Changes within a change only.
constinit Recording* current_recording = nullptr;
constinit os::Mutex current_mutex;
/// A malloc has failed since the recording began, and no file was put aside for that.
constinit std::atomic<bool> has_failure{false};

constinit os::Mutex change_mutex;

void drop(Recording* recording) noexcept {
  if (recording != nullptr && recording->users.fetch_sub(1, std::memory_order_acq_rel) == 1) delete recording;
}

void make_current(Recording* recording) noexcept {
  const std::lock_guard lock(current_mutex);
  current_recording = recording;
}

/// From here on, no thread begins to hold it.
Recording* take_current() noexcept {
  const std::lock_guard lock(current_mutex);
  return std::exchange(current_recording, nullptr);
}

/// Where the thread writes next, and its last event.
struct Writer {
  Recording* held;
  uint32_t generation;  // of the recording that has the chunk; 0: no chunk
  uint8_t* at;
  uint8_t* end;
  uint64_t time;  // shifted
  uint64_t pool;
  uint64_t stream;
  uint64_t address;
  TagId tag;
};
constinit thread_local Writer writer{};

/// Looked up by a call, once per event: the compiler would otherwise look it up at each use.
[[gnu::noinline]] Writer& own_writer() noexcept {
  return writer;
}

using wire::recording::kAddressUnit;
using wire::recording::kHasStack;
using wire::recording::kSamePool;
using wire::recording::kSameStream;
using wire::recording::kSameTag;
constexpr uint8_t kAllSame = kSamePool | kSameStream | kSameTag;

uint8_t* put(uint8_t* at, uint64_t number) noexcept {
  for (; number >= 0x80; number >>= 7) *at++ = static_cast<uint8_t>(number | 0x80);
  *at++ = static_cast<uint8_t>(number);
  return at;
}

uint8_t* put_text(uint8_t* at, const char* text, size_t length) noexcept {
  at = put(at, length);
  std::memcpy(at, text, length);
  return at + length;
}

constinit std::atomic<uint64_t> recording_end_key{os::kNoKey};

/// At the thread's end. `held` may be a copy.
void drop_at_end(void* held) noexcept {
  Recording* const last = *static_cast<Recording**>(held);
  if (own_writer().held == last) own_writer() = {};
  drop(last);
}

/// Holds the recording of this generation; null: it has ended.
[[gnu::noinline]] Recording* hold(Writer& to, uint32_t generation) noexcept {
  if (to.held != nullptr && to.held->generation == generation) return to.held;
  Recording* const before = to.held;
  to = {};
  {
    const std::lock_guard lock(current_mutex);
    if (current_recording != nullptr && current_recording->generation == generation) {
      to.held = current_recording;
      to.held->users.fetch_add(1, std::memory_order_relaxed);
    }
  }
  os::at_thread_end(recording_end_key, drop_at_end, &to.held, sizeof(Recording*));
  drop(before);
  return to.held;
}

/// Begins a chunk with this event, which omits nothing there. False if its recording has ended, or if the
/// disk has no room; then the event is counted as lost, unless it is a name, which comes later.
[[gnu::noinline, gnu::cold]] bool begin_chunk(Writer& to, const Entry& event) noexcept {
  const bool has_filled_one = to.generation == event.recording && to.at != nullptr;
  Recording* const recording = hold(to, event.recording);
  if (recording == nullptr) return false;
  if (has_filled_one) {
    recording->full_chunks.fetch_add(1, std::memory_order_relaxed);
    if (recording->is_full()) Recorder::ask_again();
  }
  uint8_t* chunk = recording->journal.claim_chunk(event.time);
  if (chunk == nullptr) {
    if (event.kind < EventKind::tag_name)
      std::atomic_ref(recording->journal.header().lost).fetch_add(1, std::memory_order_relaxed);
    return false;
  }
  if (has_filled_one) Journal::end_chunk(to.end - kJournalChunk, to.at);
  const auto* head = reinterpret_cast<const ChunkHeader*>(chunk);
  to = {};
  to.held = recording;
  to.generation = event.recording;
  to.at = chunk + sizeof(ChunkHeader);
  to.end = chunk + kJournalChunk;
  to.time = head->first_ticks >> kTickShift;
  to.pool = ~event.pool;
  to.stream = ~event.stream;
  to.tag = static_cast<TagId>(~event.tag);
  return true;
}

/// What differs from the thread's last event.
[[gnu::noinline]] uint8_t* put_context(uint8_t* at, uint8_t& token, const Entry& event, Writer& to) noexcept {
  const auto put_changed = [&](uint8_t flag, auto& last, auto now) {
    if (last == now) return;
    token = static_cast<uint8_t>(token & ~flag);
    at = put(at, now);
    last = now;
  };
  put_changed(kSamePool, to.pool, event.pool);
  put_changed(kSameStream, to.stream, event.stream);
  put_changed(kSameTag, to.tag, event.tag);
  if (event.stack != 0) {
    token |= kHasStack;
    at = put(at, event.stack);
  }
  return at;
}

/// Writes an event with what `tail` adds to it, at most `room` bytes. Its first byte is written last: until
/// then the file ends before it. False: the file has it not.
template <typename Tail>
bool append(const Entry& event, size_t room, Tail tail) noexcept {
  Writer& to = own_writer();
  const bool has_room = to.generation == event.recording && static_cast<size_t>(to.end - to.at) >= room;
  if (!has_room && !begin_chunk(to, event)) [[unlikely]]
    return false;
  // Events from the malloc's stack callback were written before the malloc.
  const uint64_t time = std::max(event.time >> kTickShift, to.time);
  auto token = static_cast<uint8_t>(static_cast<uint8_t>(event.kind) | kAllSame);
  uint8_t* at = put(to.at + 1, time - to.time);
  const bool differs = (event.pool ^ to.pool) | (event.stream ^ to.stream) |
                       static_cast<uint64_t>(event.tag ^ to.tag) | event.stack;
  if (differs) at = put_context(at, token, event, to);
  at = tail(at, to);
  std::atomic_ref(*to.at).store(token, std::memory_order_release);
  to.at = at;
  to.time = time;
  return true;
}

/// An event of the library's own about names, which belongs to no pool.
bool append_text(EventKind kind, uint32_t recording, uint64_t number, const char* text,
                 size_t length) noexcept {
  length = std::min(length, kTextMax);
  return append({kind, recording, Recorder::now(), 0, 0, 0, 0}, kEventMax + length,
                [&](uint8_t* at, const Writer&) { return put_text(put(at, number), text, length); });
}

bool name_stack(uint32_t recording, StackId stack) noexcept {
  try {
    const std::string text = describe_stack(stack);
    return append_text(EventKind::stack_text, recording, stack, text.data(), text.size());
  } catch (const std::bad_alloc&) {
    return append_text(EventKind::stack_text, recording, stack, "", 0);
  }
}

}  // namespace

std::unique_lock<os::Mutex> Recorder::begin_change() noexcept {
  return std::unique_lock(change_mutex);
}

std::unique_lock<os::Mutex> Recorder::try_change() noexcept {
  return {change_mutex, std::try_to_lock};
}

Status Recorder::start(Plan plan) {
  auto made = std::make_unique<Recording>();
  by_processor_.store(has_processor_clock());
  if (const Status status = made->journal.create(plan.path.c_str(), by_processor_.load()); status != kSuccess)
    return status;
  const JournalHeader& head = made->journal.header();
  if (plan.part_ns != 0)
    made->due = head.start_ticks + static_cast<uint64_t>(static_cast<double>(plan.part_ns) * 1e-9 *
                                                         static_cast<double>(head.ticks_per_second));
  if (plan.is_ring())
    made->chunks_due = std::min(plan.part_bytes, made->journal.capacity() / 2) / kJournalChunk;
  made->plan = std::move(plan);
  made->generation = generation_.load() + 1;
  due_.store(made->due);
  make_current(made.release());
  generation_.fetch_add(1, std::memory_order_release);
  return kSuccess;
}

void Recorder::prepare(StackKinds stacks, TakeTurn turn) noexcept {
  stacks_.store(stacks);
  turn_.store(turn);
  has_failure.store(false);
}

void Recorder::begin_count() noexcept {
  current_recording->full_chunks.store(0, std::memory_order_relaxed);
  if (has_failure.load()) ask_again();  // one while the files changed
}

void Recorder::end() noexcept {
  generation_.fetch_add(1, std::memory_order_release);
  due_.store(UINT64_MAX);
}

void Recorder::close() noexcept {
  Recording* const ended = take_current();
  ended->journal.close(now());
  drop(ended);
}

void Recorder::discard() noexcept {
  Recording* const ended = take_current();
  ended->journal.discard(now());
  drop(ended);
}

Status Recorder::close_part(Plan& plan) noexcept {
  plan = std::move(current_recording->plan);
  close();
  return put_aside(plan, has_failure.exchange(false) && !plan.failed_path.empty());
}

bool Recorder::is_part_due() noexcept {
  const Recording* const current = current_recording;
  const bool is_ring = current != nullptr && current->plan.is_ring();
  const bool is_due = is_ring && (current->is_full() || now() >= current->due ||
                                  (has_failure.load() && !current->plan.failed_path.empty()));
  if (!is_due) due_.store(is_ring ? current->due : UINT64_MAX);
  return is_due;
}

void Recorder::keep_failure() noexcept {
  has_failure.store(true);
  ask_again();
}

/// A malloc may have failed before there was any recording.
void Recorder::take_turn() noexcept {
  if (const TakeTurn turn = turn_.load()) turn();
}

void Recorder::write(const Entry& event) noexcept {
  (void)append(event, kEventMax, [&](uint8_t* at, Writer& to) {
    at = put(at, wire::recording::fold_sign(event.address / kAddressUnit - to.address));
    to.address = event.address / kAddressUnit;
    return wire::recording::has_bytes(event.kind) ? put(at, event.bytes) : at;
  });
}

void Recorder::write_names(const Entry& event) noexcept {
  Recording* const recording = hold(own_writer(), event.recording);
  if (recording == nullptr) return;
  if (event.tag != 0 && recording->tags.add(event.tag)) {
    const char* name = tag_name(event.tag);
    if (!append_text(EventKind::tag_name, event.recording, event.tag, name, std::strlen(name)))
      recording->tags.remove(event.tag);
  }
  if (event.stack != 0 && recording->stack_texts.add(event.stack) &&
      !name_stack(event.recording, event.stack))
    recording->stack_texts.remove(event.stack);
}

void Recorder::mark(const char* text) noexcept {
  const auto no_change = begin_change();
  (void)append_text(EventKind::mark, generation(), 0, text, std::strlen(text));
}

bool Recorder::name_pool(uint32_t generation, uint64_t pool, const char* text) noexcept {
  return append_text(EventKind::pool_name, generation, pool, text, std::strlen(text));
}

void Recorder::lock_changes() noexcept {
  change_mutex.lock();
}

void Recorder::unlock_changes() noexcept {
  change_mutex.unlock();
}

void Recorder::lock() noexcept {
  current_mutex.lock();
  if (current_recording != nullptr) current_recording->journal.lock();
}

void Recorder::unlock() noexcept {
  if (current_recording != nullptr) current_recording->journal.unlock();
  current_mutex.unlock();
}

/// The parent's other threads, which held it too, are not here.
void Recorder::forget() noexcept {
  if (!is_on()) return;
  generation_.fetch_add(1);
  due_.store(UINT64_MAX);
  Recording* const parents = std::exchange(current_recording, nullptr);
  if (own_writer().held == parents) own_writer() = {};
  parents->journal.abandon();
  delete parents;
}

}  // namespace gpupool::internal
