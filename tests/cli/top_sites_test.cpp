// SPDX-License-Identifier: Apache-2.0
// The chart of one process, and the sums that are beside it.
#include "cli/top/sites.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <deque>
#include <stdexcept>
#include <string>
#include <vector>

#include "cli/base/process_files.hpp"
#include "cli/top/process.hpp"
#include "wire/control.hpp"

namespace gpupool::cli {
namespace {

ShownHolder holder(uint64_t bytes, std::vector<std::string> frames, uint64_t oldest_ns = 0) {
  ShownHolder made;
  made.live_bytes = bytes;
  made.oldest_ns = oldest_ns;
  made.frames = std::move(frames);
  return made;
}

std::vector<std::string> names_of(const std::vector<SiteLine>& lines) {
  std::vector<std::string> names;
  for (const SiteLine& line : lines) names.push_back(std::string(line.depth, '.') + line.name);
  return names;
}

using Names = std::vector<std::string>;

TEST(TopSites, AFunctionIsOneLineWhateverItsLinesAndOffsets) {
  const auto lines =
      functions_of({holder(4, {"load (a.py:1)"}), holder(2, {"load (a.py:9)"}), holder(1, {"f+0x1 (train)"}),
                    holder(8, {"f+0x22 (train)"}), holder(3, {"train+0x7"})},
                   SiteOrder::total);
  EXPECT_EQ(names_of(lines), (Names{"f (train)", "load (a.py)", "train+0x7"}));
  EXPECT_EQ(lines[0].own, 9U);
  EXPECT_EQ(lines[1].total, 6U);
}

TEST(TopSites, OrdersDiffer) {
  const std::vector<ShownHolder> holders = {holder(5, {"a", "main"}, 1), holder(3, {"b", "main"}, 9),
                                            holder(4, {"main"}, 2)};
  EXPECT_EQ(names_of(functions_of(holders, SiteOrder::total)), (Names{"main", "a", "b"}));
  EXPECT_EQ(names_of(functions_of(holders, SiteOrder::own)), (Names{"a", "main", "b"}));
  EXPECT_EQ(names_of(functions_of(holders, SiteOrder::oldest)), (Names{"main", "b", "a"}));
}

TEST(TopSites, TheTreeIndentsWhereItBranchesAndFolds) {
  const std::vector<ShownHolder> holders = {holder(5, {"c", "b", "main"}), holder(7, {"d", "b", "main"})};
  const auto lines = tree_of(holders, SiteOrder::total, {});
  EXPECT_EQ(names_of(lines), (Names{"main", "b", ".d", ".c"}));
  EXPECT_EQ(lines[0].total, 12U);
  EXPECT_EQ(lines[0].own, 0U);
  EXPECT_EQ(names_of(tree_of(holders, SiteOrder::total, {lines[1].key})), (Names{"main", "b"}));
  const std::vector<ShownHolder> later = {holder(50, {"c", "b", "main"}), holder(7, {"x"})};
  EXPECT_EQ(tree_of(later, SiteOrder::total, {})[1].key, lines[1].key);  // so it stays folded
}

TEST(TopSites, NativeFramesGoOnlyWhereThereAreOthers) {
  const auto left =
      without_native({holder(1, {"f (a.py:3)", "eval+0x2 (python3)"}), holder(1, {"g+0x1 (train)"})});
  EXPECT_EQ(left[0].frames, Names{"f (a.py:3)"});
  EXPECT_EQ(left[1].frames, Names{"g+0x1 (train)"});
}

TEST(TopChart, LiveStandsOnTheGroundAndReservedBesideIt) {
  const std::deque<HeldThen> moments = {{0, 0}, {1, 16}, {8, 16}, {16, 16}};
  EXPECT_EQ(draw_chart(moments, 5, 2), (Names{"      16 B   ░░█", "         0   ▁██"}));
  EXPECT_EQ(draw_chart(moments, 2, 1), (Names{"      16 B ▄█"}));  // the last that fit
  EXPECT_EQ(draw_chart({}, 3, 2), (Names{"       1 B    ", "         0    "}));
}

std::vector<ShownHolder> read(const std::string& bytes) {
  const OpenFile file(memfd_create("holders", MFD_CLOEXEC));
  EXPECT_EQ(write(file.get(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  return read_holders(file.get());
}

std::string written(std::string tag, const std::string& stack) {
  wire::control::HolderHeader header{2, 512, 1, 9, 8, 0, 0};
  header.tag_bytes = static_cast<uint32_t>(tag.size());
  header.stack_bytes = static_cast<uint32_t>(stack.size());
  std::string bytes(reinterpret_cast<const char*>(&header), sizeof header);
  bytes += tag + stack;
  bytes.resize((bytes.size() + 7) / 8 * 8);
  return bytes;
}

TEST(TopHolders, WhatAProcessSendsIsReadOrRefused) {
  const std::string first = written("kv", "f (a.py:1)\nmain (a.py:2)");
  const std::string bytes = first + written("", "");
  const auto holders = read(bytes);
  ASSERT_EQ(holders.size(), 2U);
  EXPECT_EQ(holders[0].pool, 2U);
  EXPECT_EQ(holders[0].tag, "kv");
  EXPECT_EQ(holders[0].frames, (Names{"f (a.py:1)", "main (a.py:2)"}));
  EXPECT_EQ(holders[1].frames, Names{"(no stack)"});
  for (size_t length = 1; length < bytes.size(); ++length) {
    if (length == first.size()) continue;
    EXPECT_THROW(read(bytes.substr(0, length)), std::runtime_error) << length;
  }
  EXPECT_THROW(read(std::string(48, '\xff')), std::runtime_error);
  EXPECT_THROW(read_holders(-1), std::runtime_error);
}

TEST(TopHolders, HostileTextsLoseTheirPower) {
  const auto holders = read(written("\x1b[2J", "\xff\x1b]0;x\a (a.py:1)\n" + std::string(100'000, '\n')));
  EXPECT_EQ(holders[0].tag, "?[2J");
  EXPECT_EQ(holders[0].frames[0].find('\x1b'), std::string::npos);
  EXPECT_LE(holders[0].frames.size(), 1000U);
  EXPECT_FALSE(tree_of(holders, SiteOrder::total, {}).empty());
}

}  // namespace
}  // namespace gpupool::cli
