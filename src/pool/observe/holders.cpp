// SPDX-License-Identifier: Apache-2.0
#include "pool/observe/holders.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <utility>

#include "base/size_text.hpp"
#include "watch/clock.hpp"
#include "watch/sampler.hpp"
#include "watch/stack.hpp"
#include "watch/tags.hpp"

namespace gpupool::internal {
namespace {

std::string short_age(uint64_t nanoseconds) {
  const double seconds = static_cast<double>(nanoseconds) / 1e9;
  char text[32];
  if (seconds < 120) {
    std::snprintf(text, sizeof text, "%.1f s", seconds);
  } else {
    std::snprintf(text, sizeof text, "%.0f min", seconds / 60);
  }
  return text;
}

template <size_t Size>
void copy_to(char (&to)[Size], const std::string& from) noexcept {
  const size_t length = std::min(from.size(), Size - 1);
  std::memcpy(to, from.data(), length);
  to[length] = '\0';
}

}  // namespace

std::vector<gpupool_holder_t> find_holders(const Sampler& sampler) {
  // By what stacks are called: in a program that the library is part of, several lead through it from one
  // call site.
  std::map<StackId, std::string> texts;
  std::map<std::pair<std::string, TagId>, gpupool_holder_t> found;
  const uint64_t now = clock_ns();
  for (const Sample& sample : sampler.all()) {
    const auto [text, is_new] = texts.try_emplace(sample.stack);
    if (is_new) text->second = describe_stack(sample.stack);
    gpupool_holder_t& holder = found[{text->second, sample.tag}];
    const uint64_t age = now - std::min(now, sample.born_ns);
    holder.live_bytes += sample.weight;
    holder.oldest_nanoseconds = std::max(holder.oldest_nanoseconds, age);
    holder.newest_nanoseconds = holder.samples == 0 ? age : std::min(holder.newest_nanoseconds, age);
    ++holder.samples;
  }
  std::vector<gpupool_holder_t> holders;
  holders.reserve(found.size());
  for (auto& [key, holder] : found) {
    copy_to(holder.tag, tag_name(key.second));
    copy_to(holder.stack, key.first);
    holders.push_back(holder);
  }
  std::sort(holders.begin(), holders.end(),
            [](const gpupool_holder_t& a, const gpupool_holder_t& b) { return a.live_bytes > b.live_bytes; });
  return holders;
}

std::string largest_holders(const Sampler& sampler, size_t count) {
  std::string text;
  for (const gpupool_holder_t& holder : find_holders(sampler)) {
    if (count-- == 0) break;
    const std::string stack = holder.stack;
    std::string line = "  " + size_text(holder.live_bytes);
    if (holder.tag[0] != '\0') line += " of \"" + std::string(holder.tag) + "\"";
    if (!stack.empty()) line += " from " + stack.substr(0, stack.find('\n'));
    line += ", the oldest for " + short_age(holder.oldest_nanoseconds);
    if (text.empty()) add_line(text, "Most is held by:");
    add_line(text, std::move(line));
  }
  return text;
}

Status name_holders(const Sampler& sampler, Status status) {
  constexpr size_t kNamed = 3;
  const std::string text = largest_holders(sampler, kNamed);
  if (!text.empty()) explain(text);
  return status;
}

}  // namespace gpupool::internal
