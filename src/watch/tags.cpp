// SPDX-License-Identifier: Apache-2.0
#include "watch/tags.hpp"

#include <array>
#include <atomic>
#include <cstring>
#include <mutex>
#include <string>
#include <unordered_map>

#include "os/mutex.hpp"

namespace gpupool::internal {
namespace {

/// The tags that a thread is inside. Trivially destructible, so that the thread's destructors may still push.
struct Pushed {
  std::array<TagId, kTagDepth> tags;
  uint32_t depth;
};
constinit thread_local Pushed pushed{};

using Numbers = std::unordered_map<std::string, TagId>;

constinit os::Mutex names_mutex;
constinit Numbers* numbers_by_name = nullptr;  // created on first use, and leaked, as the names are
constinit std::array<std::atomic<const char*>, kTagNames> names{};

TagId number_of(const char* name) {
  const std::lock_guard lock(names_mutex);
  if (numbers_by_name == nullptr) numbers_by_name = new Numbers;
  Numbers& numbers = *numbers_by_name;
  const auto next = static_cast<TagId>(numbers.size() + 1);
  // The last number stands for all names that come too late.
  const auto [found, is_new] =
      next < kTagNames ? numbers.try_emplace(name, next) : std::pair{numbers.find(name), false};
  if (found == numbers.end()) return kTagNames - 1;
  const bool is_last = found->second == kTagNames - 1;
  // Keys of the map never move, and none is ever removed.
  if (is_new) names[found->second].store(is_last ? kTooManyTags : found->first.c_str());
  return found->second;
}

constinit std::atomic<bool> is_any_named{false};

/// Not inlined, so that a thread's storage is not looked up where no thread is inside a tag.
[[gnu::noinline]] TagId innermost() noexcept {
  return pushed.depth == 0 ? TagId{0} : pushed.tags[pushed.depth - 1];
}

}  // namespace

Status push_tag(const char* name) {
  const size_t length = strnlen(name, kTagNameMax + 1);
  if (length == 0) return fail(GPUPOOL_ERROR_INVALID_ARGUMENT, "tag is empty");
  if (length > kTagNameMax) {
    return fail(GPUPOOL_ERROR_INVALID_ARGUMENT, "tag \"%.20s...\" is longer than %zu bytes", name,
                kTagNameMax);
  }
  if (pushed.depth == kTagDepth) {
    return fail(GPUPOOL_ERROR_INVALID_ARGUMENT,
                "this thread is inside %u tags already, the most there may be", kTagDepth);
  }
  pushed.tags[pushed.depth] = number_of(name);
  ++pushed.depth;
  if (!has_tags()) is_any_named.store(true, std::memory_order_relaxed);
  return kSuccess;
}

Status pop_tag() noexcept {
  if (pushed.depth == 0) return fail(GPUPOOL_ERROR_INVALID_ARGUMENT, "this thread is inside no tag");
  --pushed.depth;
  return kSuccess;
}

bool has_tags() noexcept {
  return is_any_named.load(std::memory_order_relaxed);
}

TagId current_tag() noexcept {
  return has_tags() ? innermost() : TagId{0};
}

const char* tag_name(TagId tag) noexcept {
  const char* name = tag < kTagNames ? names[tag].load(std::memory_order_acquire) : nullptr;
  return name != nullptr ? name : "";
}

void lock_tags() noexcept {
  names_mutex.lock();
}

void unlock_tags() noexcept {
  names_mutex.unlock();
}

}  // namespace gpupool::internal
