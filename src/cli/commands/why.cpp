// SPDX-License-Identifier: Apache-2.0
// gpupool why: what was at an address, from a recording.
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cctype>
#include <iostream>
#include <limits>
#include <string_view>

#include "cli/base/library.hpp"
#include "cli/commands/commands.hpp"
#include "cli/commands/options.hpp"
#include "cli/recording/frame.hpp"
#include "cli/recording/live.hpp"
#include "cli/recording/recording.hpp"

namespace gpupool::cli {
namespace {

struct WhyOptions {
  std::string what;  // an address, a line with one, or - for such lines on standard input
  std::string file;
};

/// An address that words name.
struct NamedAddress {
  uint64_t address = 0;
  uint64_t bytes = 1;  // that it may mean: the kernel names only the page
  std::string access;  // such as "write", if the words say so
};

constexpr uint64_t kKernelPage = 4096;

/// The number that words begin with: hexadecimal behind 0x, where the kernel puts underscores, else decimal.
/// 0: none.
uint64_t number_at(std::string_view words) {
  const bool is_hexadecimal = words.starts_with("0x") || words.starts_with("0X");
  if (is_hexadecimal) words.remove_prefix(2);
  uint64_t number = 0;
  for (const char letter : words) {
    if (is_hexadecimal && letter == '_') continue;
    const auto byte = static_cast<unsigned char>(letter);
    if (is_hexadecimal ? std::isxdigit(byte) == 0 : std::isdigit(byte) == 0) break;
    const uint64_t base = is_hexadecimal ? 16 : 10;
    const uint64_t digit = std::isdigit(byte) != 0 ? static_cast<uint64_t>(letter - '0')
                                                   : static_cast<uint64_t>(std::tolower(byte) - 'a') + 10;
    if (number > (std::numeric_limits<uint64_t>::max() - digit) / base) return 0;
    number = number * base + digit;
  }
  return number;
}

/// A block of the recording, from its malloc to its free.
struct BlockStory {
  const Happened* made = nullptr;
  const Happened* freed = nullptr;  // null: live at the end
  uint64_t number = 0;

  uint64_t end() const { return made->address + rounded(made->bytes); }
};

/// What a recording says of an address.
struct Neighbourhood {
  std::vector<BlockStory> holders;  // the newest first
  std::optional<BlockStory> below;  // live at the end
  std::optional<BlockStory> above;
  const Happened* mapped = nullptr;  // the last that backed it, or took that away
};

bool touches(const NamedAddress& named, uint64_t begin, uint64_t bytes) {
  return begin < named.address + named.bytes && named.address < begin + bytes;
}

Neighbourhood look_around(const Recording& recording, const NamedAddress& named) {
  Neighbourhood found;
  LiveBlocks live;
  for (const Happened& event : recording.events) {
    const bool is_mapping = event.kind == Kind::map || event.kind == Kind::unmap;
    if (is_mapping && touches(named, event.address, event.bytes)) found.mapped = &event;
    live.take(
        event, [](const LiveBlock&) {},
        [&](const LiveBlock& block, const Happened& by) {
          if (touches(named, block.made->address, rounded(block.made->bytes)))
            found.holders.push_back({block.made, &by, block.number});
        });
  }
  for (const auto& [key, block] : live.all()) {
    const BlockStory story{block.made, nullptr, block.number};
    if (touches(named, block.made->address, rounded(block.made->bytes))) {
      found.holders.push_back(story);
    } else if (story.made->address < named.address) {
      if (!found.below || found.below->made->address < story.made->address) found.below = story;
    } else if (!found.above || found.above->made->address > story.made->address) {
      found.above = story;
    }
  }
  std::sort(found.holders.begin(), found.holders.end(),
            [](const BlockStory& a, const BlockStory& b) { return a.number > b.number; });
  return found;
}

std::string name_of_block(const Recording& recording, const BlockStory& story) {
  const std::string tag = recording.tag(story.made->tag);
  return fmt::format("block {} of {} bytes at {:#x}{}", story.number, story.made->bytes, story.made->address,
                     tag.empty() ? "" : fmt::format(", of \"{}\"", one_line(tag)));
}

void print_event(const Recording& recording, const char* what, const Happened& event) {
  const std::string thread = recording.threads.size() > event.thread
                                 ? one_line(recording.threads[event.thread].name)
                                 : std::string("?");
  fmt::print("  {} at {:.6f} s by thread {} on stream {:#x}\n", what, static_cast<double>(event.ns) / 1e9,
             thread, event.stream);
  if (event.stack == 0 || !recording.stacks.contains(event.stack)) return;
  for (const std::string& frame : frames_of(recording, event.stack)) fmt::print("    {}\n", frame);
}

/// The last mark before an event: where the program was.
void print_last_mark(const Recording& recording, const Happened& event) {
  const Happened* last = nullptr;
  for (const Happened& each : recording.events) {
    if (each.ns > event.ns) break;
    if (each.kind == Kind::mark) last = &each;
  }
  if (last != nullptr) fmt::print("    after the mark \"{}\"\n", one_line(recording.marks[last->bytes]));
}

void print_holder(const Recording& recording, const NamedAddress& named, const BlockStory& story) {
  const uint64_t at = std::max(named.address, story.made->address);
  const uint64_t offset = at - story.made->address;
  fmt::print("{:#x} is {} bytes into {} {}", at, offset, story.freed == nullptr ? "live" : "freed",
             name_of_block(recording, story));
  if (offset >= story.made->bytes) fmt::print(": {} bytes beyond its end", offset - story.made->bytes);
  fmt::print("\n");
  print_event(recording, story.made->kind == Kind::have ? "there already" : "allocated", *story.made);
  if (story.freed == nullptr) return;
  print_event(recording, "freed", *story.freed);
  print_last_mark(recording, *story.freed);
}

/// Whether a block was found.
bool explain_address(const Recording& recording, const NamedAddress& named) {
  constexpr size_t kShown = 3;
  const Neighbourhood found = look_around(recording, named);
  if (named.bytes > 1)
    fmt::print("The kernel names the page {:#x}: what touches its {} bytes counts.\n", named.address,
               named.bytes);
  if (!named.access.empty()) fmt::print("The access was a {}.\n", named.access);
  if (found.holders.empty()) fmt::print("{:#x} was in no block of {}\n", named.address, recording.file);
  const size_t shown = std::min(found.holders.size(), kShown);
  for (size_t i = 0; i < shown; ++i) print_holder(recording, named, found.holders[i]);
  if (shown < found.holders.size())
    fmt::print("and before that in {} more blocks\n", found.holders.size() - shown);
  if (found.mapped == nullptr) {
    fmt::print("nothing was ever mapped there while it was recorded\n");
  } else if (found.mapped->kind == Kind::unmap) {
    fmt::print("nothing is mapped there since {:.6f} s\n", static_cast<double>(found.mapped->ns) / 1e9);
  }
  if (found.below) {
    fmt::print("in front, {} bytes away: {} by {}\n",
               named.address - std::min(named.address, found.below->end()),
               name_of_block(recording, *found.below), recording.site(found.below->made->stack));
  }
  if (found.above) {
    fmt::print("behind, {} bytes away: {} by {}\n", found.above->made->address - named.address,
               name_of_block(recording, *found.above), recording.site(found.above->made->stack));
  }
  return !found.holders.empty();
}

/// What the kernel says that was done, behind "ACCESS_TYPE_"; empty: nothing known here.
std::string access_in(std::string_view words) {
  constexpr std::string_view kAccess = "ACCESS_TYPE_";
  if (words.find("FAULT_RO_VIOLATION") != std::string_view::npos) return "write to what may only be read";
  const size_t at = words.find(kAccess);
  if (at == std::string_view::npos) return "";
  words.remove_prefix(at + kAccess.size());
  if (words.starts_with("VIRT_")) words.remove_prefix(5);  // old drivers do not say so
  for (const std::string_view access : {"READ", "WRITE", "ATOMIC", "PREFETCH"}) {
    if (!words.starts_with(access)) continue;
    std::string name(access);
    std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
    return name == "atomic" ? "atomic operation" : name;
  }
  return "";
}

/// Reads "0x7f8410b12345", "139742...", a line of the kernel's log with an Xid, or of compute-sanitizer.
std::optional<NamedAddress> find_address(const std::string& words) {
  constexpr std::string_view kFaulted = "faulted @ ";
  constexpr size_t kLeastDigits = 8;
  NamedAddress named;
  if (const size_t at = words.find(kFaulted); at != std::string::npos) {
    named.address = number_at(std::string_view(words).substr(at + kFaulted.size()));
    named.bytes = kKernelPage;
    named.access = access_in(std::string_view(words).substr(at));
    return named.address != 0 ? std::optional(named) : std::nullopt;
  }
  // Other numbers of such a line are of channels and registers.
  if (words.find("NVRM: Xid") != std::string::npos) return std::nullopt;
  const bool is_number = !words.empty() && words.find_first_not_of("0123456789") == std::string::npos;
  if (is_number) named.address = number_at(words);
  for (size_t at = words.find("0x"); !is_number && at != std::string::npos; at = words.find("0x", at + 1)) {
    const size_t end = words.find_first_not_of("0123456789abcdefABCDEF_", at + 2);
    const bool is_all = at == 0 && end == std::string::npos;
    if (!is_all && std::min(end, words.size()) - at < 2 + kLeastDigits) continue;
    named.address = number_at(std::string_view(words).substr(at));
    break;
  }
  return named.address != 0 ? std::optional(named) : std::nullopt;
}

int run_why(const WhyOptions& options) {
  std::vector<NamedAddress> wanted;
  if (options.what != "-") {
    const std::optional<NamedAddress> named = find_address(options.what);
    if (!named) throw InputError(fmt::format("\"{}\" names no address", one_line(options.what, 100)));
    wanted.push_back(*named);
  } else {
    for (std::string line; std::getline(std::cin, line);) {
      if (const std::optional<NamedAddress> named = find_address(line)) wanted.push_back(*named);
    }
    if (wanted.empty()) throw InputError("standard input names no address");
  }
  const Recording recording = read_recording(options.file);
  bool all = true;
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (i != 0) fmt::print("\n");
    all = explain_address(recording, wanted[i]) && all;
  }
  return all ? 0 : 1;
}

constexpr const char* kWhyAbout =
    "Say whose block was at an address\n\n"
    "Says what was at an address, from a recording: the block, how far into\n"
    "it the address is, who allocated it, when it was freed, and what lay\n"
    "beside it. In a program, gpupool_why says the same of the moment.\n";

constexpr const char* kWhyExamples =
    "Examples:\n"
    "  gpupool why 0x7f8410b12345 python.29228.gpt\n"
    "  sudo dmesg | grep Xid | gpupool why - python.29228.gpt\n"
    "  gpupool why 'NVRM: Xid ... faulted @ 0x7f84_10b12000 ...' python.29228.gpt\n"
    "\n"
    "Exit status: 0 a block was found; 1 none was; 2 bad input.";

}  // namespace

Command add_why(CLI::App& app) {
  auto [command, options, made] = new_command<WhyOptions>(app, "why", kWhyAbout, kWhyExamples, run_why);
  command
      .add_option("ADDRESS", options.what, "An address, a line with one, or - for lines on standard input")
      ->required()
      ->option_text(" ");
  file_option(command, options.file);
  return made;
}

}  // namespace gpupool::cli
