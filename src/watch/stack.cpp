// SPDX-License-Identifier: Apache-2.0
#include "watch/stack.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/valgrind.hpp"
#include "os/mutex.hpp"
#include "os/stack.hpp"
#include "watch/frame_names.hpp"

namespace gpupool::internal {
namespace {

constexpr size_t kFramesMax = 4096;

/// A stack as it was first seen.
struct Taken {
  os::Stack native;
  char text[kFramesMax];
  size_t length = 0;

  std::string_view words() const noexcept { return {text, length}; }
};

struct Kept {
  std::vector<void*> frames;
  std::string words;
  std::string description;  // once it was requested
};

/// All stacks seen so far. Stacks with equal 64-bit hashes count as equal.
struct Book {
  std::unordered_map<uint64_t, StackId> numbers;
  std::vector<Kept> stacks;
};

constinit os::Mutex book_mutex;
constinit Book* the_book = nullptr;  // created on first use, and leaked

/// With its mutex. Throws std::bad_alloc.
Book& book() {
  if (the_book == nullptr) the_book = new Book;
  return *the_book;
}

struct Teller {
  gpupool_stack_fn_t fn;
  void* user;
};

/// Changed with book_mutex.
struct SharedTeller {
  std::atomic<uint32_t> changes{0};  // odd during one
  std::atomic<gpupool_stack_fn_t> fn{nullptr};
  std::atomic<void*> user{nullptr};
};
constinit SharedTeller teller;

/// No function is called with the `user` of another: during a change there is none.
Teller current_teller() noexcept {
  const uint32_t before = teller.changes.load();
  const Teller found{teller.fn.load(), teller.user.load()};
  const bool is_whole = before % 2 == 0 && teller.changes.load() == before;
  return is_whole ? found : Teller{};
}

/// The thread is inside take_stack: its allocations there have no stack.
constinit thread_local bool is_taking = false;

/// Looked up once or, if several threads come first, by each of them: the range of this library's code.
constinit std::atomic<bool> is_own_known{false};
constinit std::atomic<uintptr_t> own_begin{0};
constinit std::atomic<uintptr_t> own_bytes{0};

bool is_own(const void* frame) noexcept {
  if (!is_own_known.load(std::memory_order_acquire)) {
    const os::Span span = os::own_code();
    own_begin.store(span.begin, std::memory_order_relaxed);
    own_bytes.store(span.end - span.begin, std::memory_order_relaxed);
    is_own_known.store(true, std::memory_order_release);
  }
  return reinterpret_cast<uintptr_t>(frame) - own_begin.load(std::memory_order_relaxed) <
         own_bytes.load(std::memory_order_relaxed);
}

/// Omits the library's own frames, so that all paths through it are one call site.
void trim(os::Stack& stack) noexcept {
  const auto begin = stack.frames.begin();
  const auto end = begin + static_cast<ptrdiff_t>(stack.count);
  const auto first = std::find_if_not(begin, end, is_own);
  stack.count = static_cast<size_t>(std::copy(first, end, begin) - begin);
}

/// In four lanes, since each step of one waits for the step before: 2.5 KiB take 0.2 us, not 0.4.
uint64_t hash_of(const Taken& taken) noexcept {
  constexpr size_t kLanes = 4;
  uint64_t lanes[kLanes] = {0xcbf29ce484222325, 0x84222325cbf29ce4, 0x2325cbf29ce48422, 0xe4842223cbf29c25};
  const auto add = [](uint64_t& hash, uint64_t word) {
    hash = (hash ^ word) * 0x9e3779b97f4a7c15 ^ (hash >> 29);
  };
  const os::Stack& native = taken.native;
  for (size_t i = 0; i < native.count; ++i)
    add(lanes[i % kLanes], reinterpret_cast<uintptr_t>(native.frames[i]));
  uint64_t block[kLanes];
  std::string_view words = taken.words();
  for (; words.size() >= sizeof block; words.remove_prefix(sizeof block)) {
    std::memcpy(block, words.data(), sizeof block);
    for (size_t i = 0; i < kLanes; ++i) add(lanes[i], block[i]);
  }
  for (const char c : words) add(lanes[0], static_cast<unsigned char>(c));
  for (size_t i = 1; i < kLanes; ++i) add(lanes[0], lanes[i]);
  return lanes[0];
}

std::string describe(const std::vector<void*>& frames, const std::string& words) {
  const std::string names = frame_names(frames);
  return words.empty() || names.empty() ? words + names : words + '\n' + names;
}

StackId remember(const Taken& taken) {
  const uint64_t hash = hash_of(taken);
  const std::lock_guard lock(book_mutex);
  Book& all = book();
  if (const auto found = all.numbers.find(hash); found != all.numbers.end()) return found->second;
  if (all.stacks.size() + 1 >= kStacks) return 0;
  // If the second of these throws, a stack remains that no hash leads to.
  const auto begin = taken.native.frames.begin();
  all.stacks.push_back(
      {{begin, begin + static_cast<ptrdiff_t>(taken.native.count)}, std::string(taken.words()), {}});
  const auto number = static_cast<StackId>(all.stacks.size());
  all.numbers.emplace(hash, number);
  return number;
}

StackId number_of(Taken& taken) noexcept {
  trim(taken.native);
  if (taken.native.count == 0 && taken.length == 0) return 0;
  try {
    return remember(taken);
  } catch (const std::bad_alloc&) {
    return 0;
  }
}

/// A stack that the thread took before has its number as its mark: no lock, no hash.
StackId number_native(Taken& taken) noexcept {
  uintptr_t* const mark = taken.native.mark;
  if (mark == nullptr) return number_of(taken);
  if (*mark == 0) *mark = number_of(taken);
  return static_cast<StackId>(*mark);
}

StackId number_with(const Teller& told, Taken& taken) noexcept {
  taken.length = std::min(told.fn(told.user, taken.text, kFramesMax), kFramesMax);
  while (taken.length != 0 && taken.text[taken.length - 1] == '\n') --taken.length;
  return number_of(taken);
}

}  // namespace

void set_stack_fn(gpupool_stack_fn_t fn, void* user) noexcept {
  const std::lock_guard lock(book_mutex);
  teller.changes.fetch_add(1);
  teller.user.store(user);
  teller.fn.store(fn);
  teller.changes.fetch_add(1);
}

StackKinds kinds_to_take(StackKinds wanted) noexcept {
  return {wanted.native, wanted.language && teller.fn.load(std::memory_order_relaxed) != nullptr};
}

StackId take_stack(StackKinds kinds) noexcept {
  if (is_taking) return 0;
  is_taking = true;
  Taken taken;
  if (kinds.native) os::take_frames(taken.native, is_under_valgrind());
  const Teller told = kinds.language ? current_teller() : Teller{};
  const StackId number = told.fn == nullptr ? number_native(taken) : number_with(told, taken);
  is_taking = false;
  return number;
}

std::string describe_stack(StackId stack) {
  if (stack == 0) return {};
  std::unique_lock lock(book_mutex);
  Book& all = book();
  if (stack > all.stacks.size()) return {};
  if (const std::string& known = all.stacks[stack - 1].description; !known.empty()) return known;
  const std::vector<void*> frames = all.stacks[stack - 1].frames;
  const std::string words = all.stacks[stack - 1].words;
  lock.unlock();  // the loader and the names have their own locks
  std::string text = describe(frames, words);
  lock.lock();
  all.stacks[stack - 1].description = text;
  return text;
}

std::string describe_site(StackId stack) {
  const std::string text = describe_stack(stack);
  return text.substr(0, text.find('\n'));
}

void lock_stacks() noexcept {
  lock_frame_names();
  book_mutex.lock();
}

void unlock_stacks() noexcept {
  book_mutex.unlock();
  unlock_frame_names();
}

}  // namespace gpupool::internal
