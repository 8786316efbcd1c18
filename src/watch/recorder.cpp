// SPDX-License-Identifier: Apache-2.0
#include "watch/recorder.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <string>

#include "watch/journal.hpp"

namespace gpupool::internal {

constinit std::atomic<uint32_t> Recorder::generation_{0};
constinit std::atomic<bool> Recorder::by_processor_{false};
constinit std::atomic<StackKinds> Recorder::stacks_{StackKinds{}};

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
  Recording* before = nullptr;
};

/// The last one. Recordings are never deleted (see Journal): each leads to the one before it.
constinit std::atomic<Recording*> current_recording{nullptr};

constinit os::Mutex change_mutex;

/// Where the thread writes next, and its last event.
struct Writer {
  uint32_t generation;
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

constexpr uint8_t kSameStream = 0x10;
constexpr uint8_t kSameTag = 0x20;
constexpr uint8_t kHasStack = 0x40;
constexpr uint8_t kSamePool = 0x80;
constexpr uint8_t kAllSame = kSamePool | kSameStream | kSameTag;

uint8_t* put(uint8_t* at, uint64_t number) noexcept {
  for (; number >= 0x80; number >>= 7) *at++ = static_cast<uint8_t>(number | 0x80);
  *at++ = static_cast<uint8_t>(number);
  return at;
}

uint8_t* put_signed(uint8_t* at, uint64_t difference) noexcept {
  const auto value = static_cast<int64_t>(difference);
  return put(at, static_cast<uint64_t>(value) << 1 ^ static_cast<uint64_t>(value >> 63));
}

uint8_t* put_text(uint8_t* at, const char* text, size_t length) noexcept {
  at = put(at, length);
  std::memcpy(at, text, length);
  return at + length;
}

/// Begins a chunk with this event, which omits nothing there. False if no recording is on, or if the disk
/// has no room; then the event is counted as lost, unless it is a name, which comes later.
[[gnu::noinline, gnu::cold]] bool begin_chunk(Writer& to, const Entry& event) noexcept {
  const uint32_t generation = Recorder::generation();
  Recording* recording = current_recording.load(std::memory_order_acquire);
  if ((generation & 1) == 0 || recording == nullptr) return false;
  uint8_t* chunk = recording->journal.claim_chunk(event.time);
  if (chunk == nullptr) {
    if (event.kind < Happening::tag_name)
      recording->journal.header().lost.fetch_add(1, std::memory_order_relaxed);
    return false;
  }
  const auto* head = reinterpret_cast<const ChunkHeader*>(chunk);
  to = {};
  to.generation = generation;
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
  // A recording that has ended has another number.
  const bool has_room =
      to.generation == Recorder::generation() && static_cast<size_t>(to.end - to.at) >= room;
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
bool append_text(Happening kind, uint64_t number, const char* text, size_t length) noexcept {
  length = std::min(length, kTextMax);
  return append({kind, Recorder::now(), 0, 0, 0, 0}, kEventMax + length,
                [&](uint8_t* at, const Writer&) { return put_text(put(at, number), text, length); });
}

bool name_stack(StackId stack) noexcept {
  try {
    const std::string text = describe_stack(stack);
    return append_text(Happening::stack_text, stack, text.data(), text.size());
  } catch (const std::bad_alloc&) {
    return append_text(Happening::stack_text, stack, "", 0);
  }
}

}  // namespace

std::unique_lock<os::Mutex> Recorder::begin_change() noexcept {
  return std::unique_lock(change_mutex);
}

Status Recorder::start(const char* path, StackKinds stacks) {
  if (is_on()) return fail(GPUPOOL_ERROR_INVALID_ARGUMENT, "a recording is under way already");
  auto made = std::make_unique<Recording>();
  by_processor_.store(has_processor_clock());
  if (const Status status = made->journal.create(path, by_processor_.load()); status != kSuccess)
    return status;
  stacks_.store(stacks);
  made->before = current_recording.load();
  current_recording.store(made.release(), std::memory_order_release);
  generation_.fetch_add(1, std::memory_order_release);
  return kSuccess;
}

Status Recorder::stop() noexcept {
  if (!is_on()) return fail(GPUPOOL_ERROR_INVALID_ARGUMENT, "no recording is under way");
  generation_.fetch_add(1, std::memory_order_release);
  current_recording.load()->journal.close(now());
  return kSuccess;
}

void Recorder::discard() noexcept {
  generation_.fetch_add(1, std::memory_order_release);
  current_recording.load()->journal.discard(now());
}

void Recorder::write(const Entry& event) noexcept {
  (void)append(event, kEventMax, [&](uint8_t* at, Writer& to) {
    at = put_signed(at, event.address / 512 - to.address);
    to.address = event.address / 512;
    const bool has_bytes = event.kind != Happening::free && event.kind != Happening::use;
    return has_bytes ? put(at, event.bytes) : at;
  });
}

void Recorder::write_names(const Entry& event) noexcept {
  Recording* recording = current_recording.load(std::memory_order_acquire);
  if (recording == nullptr) return;
  if (event.tag != 0 && recording->tags.add(event.tag)) {
    const char* name = tag_name(event.tag);
    if (!append_text(Happening::tag_name, event.tag, name, std::strlen(name)))
      recording->tags.remove(event.tag);
  }
  if (event.stack != 0 && recording->stack_texts.add(event.stack) && !name_stack(event.stack))
    recording->stack_texts.remove(event.stack);
}

void Recorder::mark(const char* text) noexcept {
  (void)append_text(Happening::mark, 0, text, std::strlen(text));
}

bool Recorder::name_pool(uint64_t pool, const char* text) noexcept {
  return append_text(Happening::pool_name, pool, text, std::strlen(text));
}

void Recorder::lock_changes() noexcept {
  change_mutex.lock();
}

void Recorder::unlock_changes() noexcept {
  change_mutex.unlock();
}

void Recorder::lock() noexcept {
  if (Recording* recording = current_recording.load(); recording != nullptr) recording->journal.lock();
}

void Recorder::unlock() noexcept {
  if (Recording* recording = current_recording.load(); recording != nullptr) recording->journal.unlock();
}

void Recorder::forget() noexcept {
  if (!is_on()) return;
  generation_.fetch_add(1);
  current_recording.load()->journal.abandon();
}

}  // namespace gpupool::internal
