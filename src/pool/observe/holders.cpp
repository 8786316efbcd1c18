// SPDX-License-Identifier: Apache-2.0
#include "pool/observe/holders.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
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

}  // namespace

std::vector<Holder> find_holders(const Sampler& sampler) {
  // By what stacks are called: in a program that the library is part of, several lead through it from one
  // call site.
  std::map<StackId, std::string> texts;
  std::map<std::pair<std::string, TagId>, Holder> found;
  const uint64_t now = clock_ns();
  for (const Sample& sample : sampler.all()) {
    const auto [text, is_new] = texts.try_emplace(sample.stack);
    if (is_new) text->second = describe_stack(sample.stack);
    Holder& holder = found[{text->second, sample.tag}];
    const uint64_t age = now - std::min(now, sample.born_ns);
    holder.live_bytes += sample.mark.weight;
    holder.variance += sample.mark.variance;
    holder.oldest_ns = std::max(holder.oldest_ns, age);
    holder.newest_ns = holder.samples == 0 ? age : std::min(holder.newest_ns, age);
    ++holder.samples;
  }
  std::vector<Holder> holders;
  holders.reserve(found.size());
  for (auto& [key, holder] : found) {
    holder.tag = tag_name(key.second);
    holder.stack = key.first;
    holders.push_back(std::move(holder));
  }
  std::sort(holders.begin(), holders.end(),
            [](const Holder& a, const Holder& b) { return a.live_bytes > b.live_bytes; });
  return holders;
}

std::string largest_holders(const Sampler& sampler, size_t count) {
  std::string text;
  for (const Holder& holder : find_holders(sampler)) {
    if (count-- == 0) break;
    std::string line = "  " + size_text(holder.live_bytes, std::sqrt(holder.variance));
    if (!holder.tag.empty()) line += " of \"" + holder.tag + "\"";
    if (!holder.stack.empty()) line += " from " + holder.stack.substr(0, holder.stack.find('\n'));
    line += ", the oldest for " + short_age(holder.oldest_ns);
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
