// SPDX-License-Identifier: Apache-2.0
#include "cli/formats/torch_stacks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

namespace gpupool::cli {
namespace {

/// A chunk of a recording has room for a stack of this many frames.
constexpr size_t kMostImportedFrames = 256;
constexpr size_t kLongestImportedName = 1000;
/// The most that the numbers of a recording allow.
constexpr size_t kMostImportedStacks = (size_t{1} << 20) - 1;
constexpr size_t kMostImportedTags = (size_t{1} << 16) - 1;
/// Stacks share frames, and frames share names, so as text they are larger than in the file. Ten to forty
/// times are usual.
constexpr uint64_t kMostStackGrowth = 128;
constexpr uint64_t kAlwaysAllowedText = uint64_t{1} << 20;

/// "step.py", "<stdin>".
bool is_python(std::string_view file) {
  return file.ends_with(".py") || (file.starts_with('<') && file.ends_with('>'));
}

}  // namespace

TorchStacks::Site TorchStacks::site_of(const PickledValue& owner) {
  Site site;
  if (const PickledValue* frames = pickled_.list(owner, "frames")) {
    const auto [found, is_new] = sites_.try_emplace(frames->bits);
    if (is_new) found->second = read_frames(*frames);
    site = found->second;
  }
  const std::string_view metadata = pickled_.text(owner, "user_metadata");
  if (!metadata.empty()) site.tag = number_of_tag(one_line(metadata, kLongestImportedName));
  return site;
}

TorchStacks::Site TorchStacks::read_frames(const PickledValue& frames) {
  Site site;
  std::string text;
  const std::vector<PickledValue>& all = pickled_.elements(frames);
  // The innermost native frames are PyTorch's own on the way to its allocator, the same for every site.
  const bool has_python = std::any_of(all.begin(), all.end(), [&](const PickledValue& frame) {
    return is_python(pickled_.text(frame, "filename"));
  });
  for (size_t i = 0; i < std::min(all.size(), kMostImportedFrames); ++i) {
    const std::string name = name_of(all[i], "name");
    const std::string file = name_of(all[i], "filename");
    const uint64_t line = pickled_.number(all[i], "line").value_or(0);
    const bool is_tag = i + 1 == all.size() && file == "gpupool" && line == 0;
    if (is_tag) {
      if (name != "(no stack)") site.tag = number_of_tag(name);
      continue;
    }
    if (has_python && !is_python(file)) continue;
    if (!text.empty()) text += '\n';
    text += name;
    // A native frame of which PyTorch has no name has two question marks as its file.
    if (file.empty() || file == "??") continue;
    text += line != 0 ? fmt::format(" ({}:{})", file, line) : fmt::format(" ({})", file);
  }
  if (!text.empty()) site.stack = number_of_stack(frames, std::move(text));
  return site;
}

std::string TorchStacks::name_of(const PickledValue& frame, std::string_view key) const {
  return one_line(pickled_.text(frame, key), kLongestImportedName);
}

uint32_t TorchStacks::number_of_stack(const PickledValue& frames, std::string text) {
  text_bytes_ += text.size();
  if (text_bytes_ > kAlwaysAllowedText + kMostStackGrowth * pickled_.size())
    throw pickled_.refuse(
        frames,
        fmt::format("with these frames, stacks are {} times as long as the file in all", kMostStackGrowth));
  const auto [found, is_new] =
      stacks_.try_emplace(std::move(text), static_cast<uint32_t>(stacks_.size() + 1));
  if (!is_new) return found->second;
  if (stacks_.size() > kMostImportedStacks)
    throw pickled_.refuse(frames, fmt::format("there are more than {} stacks", kMostImportedStacks));
  made_.stacks.emplace(found->second, found->first);
  return found->second;
}

/// Metadata may be different for each step. Once there are too many tags, the rest share the last one.
uint16_t TorchStacks::number_of_tag(std::string name) {
  if (const auto found = tags_.find(name); found != tags_.end()) return found->second;
  if (tags_.size() >= kMostImportedTags - 1) name = "(other)";
  const auto [found, is_new] = tags_.try_emplace(std::move(name), static_cast<uint16_t>(tags_.size() + 1));
  if (is_new) made_.tags.emplace(found->second, found->first);
  return found->second;
}

}  // namespace gpupool::cli
