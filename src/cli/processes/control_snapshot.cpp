// SPDX-License-Identifier: Apache-2.0
#include "cli/processes/control_snapshot.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>
#include <string_view>

#include "cli/base/bytes.hpp"
#include "cli/base/utf8.hpp"
#include "gpupool/gpupool.h"
#include "wire/control.hpp"

namespace gpupool::cli {
namespace {

using Json = nlohmann::ordered_json;

using wire::control::HolderHeader;
using wire::control::PoolHeader;

/// A stack has hundreds of frames at most, if the process is what it says it is.
constexpr size_t kMostFrames = 1000;

/// All of a file, which must stay as long as it says it is.
std::string read_snapshot(int file) {
  struct stat about {};
  if (file < 0 || fstat(file, &about) != 0 || !S_ISREG(about.st_mode))
    throw std::runtime_error("the process has sent no snapshot");
  std::string bytes(static_cast<size_t>(about.st_size), '\0');
  for (size_t at = 0; at < bytes.size();) {
    const ssize_t count = pread(file, bytes.data() + at, bytes.size() - at, static_cast<off_t>(at));
    if (count <= 0) throw std::runtime_error("the snapshot is cut short");
    at += static_cast<size_t>(count);
  }
  return bytes;
}

/// Cuts `count` elements of `size` bytes off the front.
std::string_view cut_front(std::string_view& rest, uint64_t count, uint64_t size) {
  if (size != 0 && count > rest.size() / size) throw std::runtime_error("the snapshot is cut short");
  const std::string_view front = rest.substr(0, count * size);
  rest.remove_prefix(front.size());
  return front;
}

/// Visits elements, which a newer library may have made longer.
template <typename Element, typename Visit>
void for_elements(std::string_view bytes, uint32_t size, Visit visit) {
  for (size_t at = 0; at < bytes.size(); at += size) {
    Element element;
    std::memcpy(&element, bytes.data() + at, sizeof element);
    visit(element);
  }
}

const char* state_name(int32_t state) {
  switch (state) {
    case GPUPOOL_BLOCK_LIVE: return "live";
    case GPUPOOL_BLOCK_CACHED: return "cached";
    case GPUPOOL_BLOCK_PENDING: return "pending";
    case GPUPOOL_BLOCK_ASLEEP: return "asleep";
    default: return "unknown";
  }
}

std::vector<std::string> frames_in(const std::string& stack) {
  std::vector<std::string> frames;
  std::istringstream lines(stack);
  for (std::string line; frames.size() < kMostFrames && std::getline(lines, line);)
    frames.push_back(harmless(line));
  if (frames.empty()) frames.emplace_back("(no stack)");
  return frames;
}

std::string json_of_pool(const PoolHeader& header, std::string_view segments, std::string_view blocks,
                         uint64_t pid) {
  Json all_segments = Json::array();
  for_elements<gpupool_segment_t>(segments, header.segment_bytes, [&](const gpupool_segment_t& each) {
    all_segments.push_back({{"address", each.address},
                            {"bytes", each.size_bytes},
                            {"stream", each.stream},
                            {"blocks", each.blocks},
                            {"is_small", each.is_small != 0}});
  });
  Json all_blocks = Json::array();
  for_elements<gpupool_block_t>(blocks, header.block_bytes, [&](const gpupool_block_t& each) {
    all_blocks.push_back({{"address", each.address},
                          {"requested_bytes", each.requested_bytes},
                          {"allocated_bytes", each.allocated_bytes},
                          {"stream", each.stream},
                          {"state", state_name(each.state)}});
  });
  const Json object = {{"pid", pid},
                       {"pool", header.pool},
                       {"name", valid_utf8(text_of(header.name))},
                       {"segments", std::move(all_segments)},
                       {"blocks", std::move(all_blocks)}};
  return harmless_json(object.dump()) + "\n";
}

}  // namespace

std::string text_of_snapshot(int file, uint64_t pid, bool as_report) {
  const std::string bytes = read_snapshot(file);
  std::string text;
  for (std::string_view rest = bytes; !rest.empty();) {
    PoolHeader header{};
    std::memcpy(&header, cut_front(rest, 1, sizeof header).data(), sizeof header);
    if (header.segment_bytes < sizeof(gpupool_segment_t) || header.block_bytes < sizeof(gpupool_block_t))
      throw std::runtime_error("the snapshot is of another version of gpupool");
    const std::string_view segments = cut_front(rest, header.segments, header.segment_bytes);
    const std::string_view blocks = cut_front(rest, header.blocks, header.block_bytes);
    const std::string_view report = cut_front(rest, header.report_bytes, 1);
    if (as_report) {
      text += fmt::format("pool {}:\n", header.pool);
      std::istringstream lines{std::string(report.substr(0, report.find('\0')))};
      for (std::string line; std::getline(lines, line);) text += fmt::format("  {}\n", harmless(line));
    } else {
      text += json_of_pool(header, segments, blocks, pid);
    }
  }
  return text;
}

std::vector<ShownHolder> read_holders(int file) {
  constexpr uint64_t kAlignment = 8;
  const std::string bytes = read_snapshot(file);
  std::vector<ShownHolder> holders;
  for (std::string_view rest = bytes; !rest.empty();) {
    HolderHeader header{};
    std::memcpy(&header, cut_front(rest, 1, sizeof header).data(), sizeof header);
    const uint64_t length = uint64_t{header.tag_bytes} + header.stack_bytes;
    const std::string_view texts = cut_front(rest, (length + kAlignment - 1) / kAlignment, kAlignment);
    holders.push_back({header.pool, header.live_bytes, header.samples, header.oldest_ns, header.newest_ns,
                       harmless(texts.substr(0, header.tag_bytes)),
                       frames_in(std::string(texts.substr(header.tag_bytes, header.stack_bytes)))});
  }
  return holders;
}

}  // namespace gpupool::cli
