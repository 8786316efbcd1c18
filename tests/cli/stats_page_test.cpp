// SPDX-License-Identifier: Apache-2.0
// The reader of pages: what the library writes, and what anybody else may have put there; and how it is
// drawn.
#include "cli/processes/stats_page.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "cli/base/utf8.hpp"
#include "cli/top/view.hpp"
#include "watch/stats_page.hpp"

namespace gpupool::cli {
namespace {

namespace shown = internal::shown;

using Bytes = std::vector<char>;

ReadPage reader_of(const Bytes& bytes) {
  return [&bytes](uint64_t offset, void* to, size_t count) {
    if (offset > bytes.size() || count > bytes.size() - offset) return false;
    std::memcpy(to, bytes.data() + offset, count);
    return true;
  };
}

template <typename Number>
void put(Bytes& bytes, size_t at, Number number) {
  std::memcpy(bytes.data() + at, &number, sizeof number);
}

size_t slot_at(size_t slot) {
  return sizeof(wire::stats::Header) + slot * sizeof(wire::stats::Slot);
}

/// A page as the library lays it out, with one pool in its third slot.
Bytes sample_page(const wire::stats::Figures& figures = {}) {
  Bytes bytes(sizeof(wire::stats::Page));
  put(bytes, offsetof(wire::stats::Header, magic), wire::stats::kMagic);
  put(bytes, offsetof(wire::stats::Header, layout), wire::stats::kLayout);
  put(bytes, offsetof(wire::stats::Header, header_bytes), static_cast<uint32_t>(sizeof(wire::stats::Header)));
  put(bytes, offsetof(wire::stats::Header, slot_bytes), static_cast<uint32_t>(sizeof(wire::stats::Slot)));
  put(bytes, offsetof(wire::stats::Header, slots), static_cast<uint32_t>(wire::stats::kSlots));
  put(bytes, offsetof(wire::stats::Header, process), uint64_t{4711});
  put(bytes, offsetof(wire::stats::Header, slots_used), uint32_t{3});
  put(bytes, offsetof(wire::stats::Header, not_shown), uint32_t{5});
  std::memcpy(bytes.data() + offsetof(wire::stats::Header, version), "0.2.0", 6);
  put(bytes, slot_at(2), uint32_t{8});
  put(bytes, slot_at(2) + offsetof(wire::stats::Slot, state), wire::stats::SlotState::pool);
  std::memcpy(bytes.data() + slot_at(2) + offsetof(wire::stats::Slot, words), &figures, sizeof figures);
  return bytes;
}

TEST(StatsPageReader, ReadsWhatTheLibraryLaysOut) {
  wire::stats::Figures figures{};
  figures.pool = 7;
  figures.backend = 1;
  figures.device = 3;
  figures.flags = wire::stats::kIsChild | wire::stats::kRunsAlone;
  figures.shown_ns = 99;
  shown::set_text(figures.device_id, "GPU-1");
  shown::set_text(figures.name, std::string(100, 'n'));
  shown::set_text(figures.group, "team");
  // Each of the numbers between the texts and the tags is another one.
  uint64_t next = 1000;
  for (size_t at = offsetof(wire::stats::Figures, counts);
       at < offsetof(wire::stats::Figures, reserved_words); at += 8, ++next)
    std::memcpy(reinterpret_cast<char*>(&figures) + at, &next, sizeof next);
  figures.tag_count = 2;
  shown::set_text(figures.tags[0].name, "kv cache");
  figures.tags[0].bytes = 64;
  shown::set_text(figures.tags[1].name, "weights");
  figures.tags[1].bytes = 32;

  const Bytes bytes = sample_page(figures);
  const StatsPage page = read_stats_page(reader_of(bytes));
  EXPECT_EQ(page.process, 4711U);
  EXPECT_EQ(page.version, "0.2.0");
  EXPECT_EQ(page.not_shown, 5U);
  EXPECT_EQ(page.busy, 0U);
  ASSERT_EQ(page.pools.size(), 1U);
  const ShownPool& pool = page.pools[0];
  EXPECT_EQ(pool.number, 7U);
  EXPECT_EQ(pool.backend, 1U);
  EXPECT_EQ(pool.device, 3);
  EXPECT_TRUE(pool.is_child && pool.runs_alone && !pool.is_asleep);
  EXPECT_EQ(pool.shown_ns, 99U);
  EXPECT_EQ(pool.device_id, "GPU-1");
  EXPECT_EQ(pool.name, std::string(63, 'n'));
  EXPECT_EQ(pool.group, "team");
  const std::vector<std::pair<uint64_t, uint64_t>> pairs = {
      {pool.device_total, figures.counts.device_total},
      {pool.limit, figures.counts.limit},
      {pool.live, figures.counts.live},
      {pool.live_blocks, figures.counts.live_blocks},
      {pool.live_peak, figures.counts.live_peak},
      {pool.pending, figures.counts.pending},
      {pool.pending_blocks, figures.counts.pending_blocks},
      {pool.cached, figures.counts.cached},
      {pool.slack, figures.counts.slack},
      {pool.reserved, figures.counts.reserved},
      {pool.reserved_peak, figures.counts.reserved_peak},
      {pool.asleep, figures.counts.asleep},
      {pool.backup, figures.counts.backup},
      {pool.free_ranges, figures.counts.free_ranges},
      {pool.largest_free_range, figures.counts.largest_free_range},
      {pool.hits, figures.counts.hits},
      {pool.misses, figures.counts.misses},
      {pool.steals, figures.counts.steals},
      {pool.stream_steals, figures.counts.stream_steals},
      {pool.retries, figures.counts.retries},
      {pool.failed_mallocs, figures.counts.failed_mallocs},
      {pool.driver_calls, figures.counts.driver_calls},
      {pool.driver_ns, figures.counts.driver_ns},
      {pool.streams, figures.counts.streams},
      {pool.group_limit, figures.counts.group_limit},
      {pool.group_used, figures.counts.group_used},
      {pool.given, figures.counts.given},
      {pool.taken, figures.counts.taken},
  };
  EXPECT_EQ(pairs.size(), next - 1000);
  for (size_t at = 0; at < pairs.size(); ++at) EXPECT_EQ(pairs[at].first, pairs[at].second) << at;
  ASSERT_EQ(pool.tags.size(), 2U);
  EXPECT_EQ(pool.tags[0].name, "kv cache");
  EXPECT_EQ(pool.tags[0].bytes, 64U);
  EXPECT_EQ(pool.tags[1].bytes, 32U);
}

std::string refusal_of(const Bytes& bytes) {
  try {
    (void)read_stats_page(reader_of(bytes));
  } catch (const PageError& error) {
    return error.what();
  }
  return "";
}

TEST(StatsPageReader, RefusesWhatIsNoPageOrAnotherVersions) {
  const Bytes good = sample_page();
  EXPECT_EQ(refusal_of(good), "");
  Bytes bytes = good;
  put(bytes, offsetof(wire::stats::Header, layout), uint32_t{2});
  EXPECT_EQ(refusal_of(bytes), "it has layout 2, of another version of gpupool than this command's");
  bytes = good;
  bytes[3] = 'x';
  EXPECT_EQ(refusal_of(bytes), "it is none, or not whole yet");
  bytes = good;
  put(bytes, offsetof(wire::stats::Header, slots), ~uint32_t{0});
  EXPECT_NE(refusal_of(bytes).find("it is damaged"), std::string::npos);
  bytes = good;
  put(bytes, offsetof(wire::stats::Header, slot_bytes), uint32_t{8});
  EXPECT_NE(refusal_of(bytes).find("it is damaged"), std::string::npos);
  for (size_t length = 0; length < slot_at(3); ++length) {
    bytes.assign(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(length));
    ASSERT_EQ(refusal_of(bytes), "it is cut short") << length;
  }
}

TEST(StatsPageReader, ReadsSlotsThatAreLargerThanItKnows) {
  Bytes bytes = sample_page();
  put(bytes, offsetof(wire::stats::Header, slot_bytes), uint32_t{2048});
  put(bytes, offsetof(wire::stats::Header, slots_used), uint32_t{2});
  put(bytes, sizeof(wire::stats::Header) + 2048 + offsetof(wire::stats::Slot, state),
      wire::stats::SlotState::pool);
  EXPECT_EQ(read_stats_page(reader_of(bytes)).pools.size(), 1U);
}

TEST(StatsPageReader, ReadsAgainWhatIsWrittenMeanwhileAndGivesUpInTheEnd) {
  Bytes bytes = sample_page();
  put(bytes, slot_at(2), uint32_t{9});
  const StatsPage odd = read_stats_page(reader_of(bytes));
  EXPECT_EQ(odd.busy, 1U);
  EXPECT_TRUE(odd.pools.empty());

  put(bytes, slot_at(2), uint32_t{8});
  int writes = 0;
  const ReadPage disturbed = [&](uint64_t offset, void* to, size_t count) {
    const bool is_read = reader_of(bytes)(offset, to, count);
    // The writer is at it while the slot is read, five times.
    if (offset <= slot_at(2) && slot_at(2) < offset + count && writes < 5) {
      ++writes;
      put(bytes, slot_at(2), static_cast<uint32_t>(8 + 2 * writes));
      put(bytes, slot_at(2) + offsetof(wire::stats::Slot, words), static_cast<uint64_t>(writes));
    }
    return is_read;
  };
  const StatsPage page = read_stats_page(disturbed);
  ASSERT_EQ(page.pools.size(), 1U);
  EXPECT_EQ(page.pools[0].number, 5U);
}

/// Draws a page at all widths: every line fits, and none has what a terminal obeys.
void expect_harmless(const StatsPage& page, const std::string& command) {
  Look now;
  now.now_ns = 1'000'000'000;
  now.gpus.push_back(
      {0, page.pools.empty() ? "" : page.pools[0].device_id, "H\x1b[2J200", 100, 50, 50, {{42, 50}}});
  now.processes.push_back({42, 1000, "user", command, {page}, ""});
  now.processes.push_back({43, 1000, "user", command, {}, "it is cut short"});
  const Look before = now;
  now.now_ns += 500'000'000;
  const std::vector<TopRow> rows = rows_in_order(now.processes, "reserved");
  for (const size_t width : {1U, 5U, 20U, 40U, 80U, 200U, 0U}) {
    for (const Look* old : {static_cast<const Look*>(nullptr), &before}) {
      for (const std::string& line :
           draw_look(now, old, rows, {width, "", [](const TopRow&) { return true; }})) {
        EXPECT_EQ(harmless(line), line);
        if (width != 0) {
          EXPECT_LE(display_width(line), width) << line;
        }
      }
    }
  }
}

TEST(StatsPageReader, HostileNamesAreShownWithoutTheirPower) {
  wire::stats::Figures figures{};
  figures.tag_count = 1;
  shown::set_text(figures.name,
                  "\x1b]0;mine\x07\xc2\x9b"
                  "2J\r\n");
  shown::set_text(figures.group,
                  "\xe2\x80\xae"
                  "evil");
  shown::set_text(figures.tags[0].name, "\xff\xfe\xe6\xbc\xa2\xe5\xad\x97");
  const StatsPage page = read_stats_page(reader_of(sample_page(figures)));
  expect_harmless(page, "rm \x1b[31m\n\t\xf0\x9f\x98\x80 -rf");
}

TEST(StatsPageReader, AnyBytesAreReadOrRefused) {
  std::mt19937_64 random(20261122);
  int read = 0;
  int refused = 0;
  for (int round = 0; round < 20000; ++round) {
    wire::stats::Figures figures{};
    figures.tag_count = static_cast<uint32_t>(random());
    Bytes bytes = sample_page(figures);
    // All of it at random, or a good header and slots of any bytes, or a few bytes of a good page.
    const uint64_t kind = random() % 3;
    const size_t begin = kind == 0 ? 0 : kind == 1 ? sizeof(wire::stats::Header) : bytes.size();
    for (size_t at = begin; at < std::min(bytes.size(), slot_at(3)); ++at)
      bytes[at] = static_cast<char>(random());
    for (uint64_t left = kind == 2 ? 1 + random() % 8 : 0; left > 0; --left)
      bytes[random() % slot_at(3)] = static_cast<char>(random());
    if (kind == 1) {
      for (size_t slot = 0; slot < 3; ++slot) {
        put(bytes, slot_at(slot), static_cast<uint32_t>(random() & ~uint64_t{1}));
        put(bytes, slot_at(slot) + 4, uint32_t{1});
      }
    }
    if (random() % 4 == 0) bytes.resize(random() % bytes.size());
    try {
      const StatsPage page = read_stats_page(reader_of(bytes));
      ++read;
      if (read % 50 == 0) expect_harmless(page, std::string(bytes.begin(), bytes.begin() + 64));
    } catch (const PageError&) {
      ++refused;
    }
  }
  EXPECT_GT(read, 5000);
  EXPECT_GT(refused, 5000);
}

}  // namespace
}  // namespace gpupool::cli
