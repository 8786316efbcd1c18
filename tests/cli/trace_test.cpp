// SPDX-License-Identifier: Apache-2.0
#include "cli/recording/trace.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <cstdio>
#include <fstream>

#include "cli/base/library.hpp"
#include "support/own_folder.hpp"

namespace gpupool::cli {
namespace {

std::string complaint(const std::string& text) {
  try {
    parse_trace(text, "t.trace");
  } catch (const InputError& error) {
    return error.what();
  }
  return "nothing";
}

TEST(ParseTrace, compiles_events) {
  const Trace trace = parse_trace("# a comment\na 10 100 7\n\na 11 1024 3\nf 10\na 12 512 7\nf 11\n",
                                  "somewhere/small.trace.gz");
  EXPECT_EQ(trace.name, "small");
  EXPECT_EQ(trace.file, "somewhere/small.trace.gz");
  ASSERT_EQ(trace.events.size(), 5u);
  EXPECT_EQ(trace.ids, (std::vector<uint64_t>{10, 11, 10, 12, 11}));
  EXPECT_EQ(trace.streams, (std::vector<uint64_t>{7, 3}));
  EXPECT_EQ(trace.peak_live_bytes, 1536u) << "512 + 1024; then 1024 + 512";
  EXPECT_TRUE(trace.is_ended);

  EXPECT_TRUE(trace.events[0].is_malloc);
  EXPECT_EQ(trace.events[0].bytes, 100u);
  EXPECT_EQ(trace.events[0].stream, 0);
  EXPECT_EQ(trace.events[1].stream, 1);
  EXPECT_FALSE(trace.events[2].is_malloc);
  EXPECT_EQ(trace.events[2].slot, trace.events[0].slot);
  EXPECT_EQ(trace.events[3].slot, trace.events[0].slot) << "slots of freed blocks are used again";
  EXPECT_EQ(trace.events[4].stream, 1) << "freed on the stream it was allocated for";
  EXPECT_EQ(trace.slot_count, 2u);

  ASSERT_EQ(trace.leftovers.size(), 1u);
  EXPECT_EQ(trace.leftovers[0].slot, trace.events[3].slot);
  EXPECT_FALSE(trace.leftovers[0].is_malloc);
}

TEST(ParseTrace, allows_an_id_again_once_it_is_freed) {
  const Trace trace = parse_trace("a 1 512 0\nf 1\na 1 1024 0\nf 1\n", "t");
  EXPECT_EQ(trace.peak_live_bytes, 1024u);
  EXPECT_TRUE(trace.leftovers.empty());
}

TEST(ParseTrace, allows_blocks_of_no_bytes) {
  EXPECT_EQ(parse_trace("a 1 0 0\na 2 1 0\nf 1\nf 2\n", "t").peak_live_bytes, 512u);
}

TEST(ParseTrace, notices_a_last_line_that_does_not_end) {
  EXPECT_FALSE(parse_trace("a 1 512 0\nf 1", "t").is_ended);
}

TEST(ParseTrace, names_the_line_and_what_is_wrong) {
  EXPECT_EQ(complaint(""), "t.trace: at byte 0: the file is empty");
  EXPECT_EQ(complaint("# nothing\n"), "t.trace:1: the trace ends and nothing was allocated");
  EXPECT_EQ(complaint("a 1 0 0\nf 1\n"), "t.trace:2: the trace ends and nothing was allocated");
  EXPECT_EQ(complaint("a 1 512 0\nx 1\n"),
            "t.trace:2: unknown kind of line 'x': a line is 'a ID BYTES STREAM', 'f ID' or '# comment'");
  EXPECT_EQ(complaint("#\na 1 512\n"), "t.trace:2: the stream number is missing in 'a 1 512'");
  EXPECT_EQ(complaint("a 1\n"), "t.trace:1: the size in bytes is missing in 'a 1'");
  EXPECT_EQ(complaint("a\n"), "t.trace:1: the block ID is missing in 'a'");
  EXPECT_EQ(complaint("f \n"), "t.trace:1: the block ID is missing in 'f '");
  EXPECT_EQ(complaint("a 1 big 0\n"), "t.trace:1: the size in bytes is not a number: 'big'");
  EXPECT_EQ(complaint("a 1 -512 0\n"), "t.trace:1: the size in bytes is not a number: '-512'");
  EXPECT_EQ(complaint("a 1 5.5 0\n"), "t.trace:1: the size in bytes is not a number: '5.5'");
  EXPECT_EQ(complaint("a 0x1 512 0\n"), "t.trace:1: the block ID is not a number: '0x1'");
  EXPECT_EQ(complaint("a 1 512 0\r\nf 1\r\n"), "nothing") << "as Windows ends lines";
  EXPECT_EQ(complaint("a 1 512 0\r 1\n"), "t.trace:1: the stream number is not a number: '0\\x0d'");
  EXPECT_EQ(complaint("a 1 99999999999999999999 0\n"),
            "t.trace:1: the size in bytes does not fit in 64 bits: '99999999999999999999'");
  EXPECT_EQ(complaint("a 1 512 0 5\n"), "t.trace:1: there is more than there should be: '5'");
  EXPECT_EQ(complaint("a 1 512 0\na 1 512 0\n"), "t.trace:2: block 1 is allocated again before it is freed");
  EXPECT_EQ(complaint("a 1 512 0\nf 2\n"), "t.trace:2: block 2 is freed and is not live");
  EXPECT_EQ(complaint("a 1 512 0\nf 1\nf 1\n"), "t.trace:3: block 1 is freed and is not live");
}

TEST(ParseTrace, refuses_more_bytes_than_can_be_counted) {
  const std::string words = " bytes makes more bytes live than 64 bits can count";
  EXPECT_EQ(complaint("a 1 18446744073709551615 0\n"), "t.trace:1: block 1 of 18446744073709551615" + words);
  EXPECT_EQ(complaint("a 1 9223372036854775808 0\na 2 9223372036854775808 0\n"),
            "t.trace:2: block 2 of 9223372036854775808" + words);
}

TEST(ParseTrace, refuses_more_streams_than_can_be_real) {
  std::string text;
  for (int i = 0; i < 4096; ++i) text += fmt::format("a {} 512 {}\n", i, i);
  EXPECT_EQ(complaint(text), "nothing");
  EXPECT_EQ(complaint(text + "a 9999 512 9999\n"), "t.trace:4097: more than 4096 streams are in use");
}

TEST(ParseTrace, refuses_lines_that_are_no_lines) {
  const std::string longest = "#" + std::string(4095, 'x') + "\n";
  EXPECT_EQ(complaint("a 1 512 0\n" + longest), "nothing");
  EXPECT_EQ(complaint("a 1 512 0\nx" + longest), "t.trace:2: the line is longer than 4096 characters");
  EXPECT_EQ(complaint(std::string(5000, '\0')), "t.trace:1: the line is longer than 4096 characters");
}

TEST(ParseTrace, shows_binary_rubbish_safely) {
  const std::string what = complaint(std::string("\x1b[31m\0\xff", 7));
  EXPECT_NE(what.find("'\\x1b[31m\\x00\\xff'"), std::string::npos) << what;
}

class LoadTrace : public ::testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& bytes) const {
    const std::string path = (folder_.path() / name).string();
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }

  static std::string gzip(const std::string& text) {
    z_stream stream{};
    deflateInit2(&stream, 9, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
    std::string packed(deflateBound(&stream, text.size()), '\0');
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
    stream.avail_in = static_cast<uInt>(text.size());
    stream.next_out = reinterpret_cast<Bytef*>(packed.data());
    stream.avail_out = static_cast<uInt>(packed.size());
    deflate(&stream, Z_FINISH);
    packed.resize(stream.total_out);
    deflateEnd(&stream);
    return packed;
  }

  std::string complaint(const std::string& bytes) const {
    const std::string path = write("t.gz", bytes);
    try {
      load_trace(path);
    } catch (const InputError& error) {
      return std::string(error.what()).substr(path.size());
    }
    return "nothing";
  }

  /// Long enough that it is unpacked in several buffers.
  static std::string long_text() {
    std::string text;
    for (uint32_t i = 0; i < 50000; ++i) text += fmt::format("a {} {} 0\n", i, i * 2654435761u >> 8);
    return text;
  }

  const OwnFolder folder_;
};

TEST_F(LoadTrace, knows_gzip_by_its_content) {
  const std::string text = long_text();
  EXPECT_EQ(load_trace(write("plain.trace.gz", text)).events.size(), 50000u);
  EXPECT_EQ(load_trace(write("packed.trace", gzip(text))).events.size(), 50000u);
}

TEST_F(LoadTrace, reads_lines_that_are_cut_by_its_buffers) {
  std::string text;
  for (int i = 0; text.size() < (size_t{3} << 18); ++i) text += fmt::format("a {} 512 0\nf {}\n", i, i);
  const size_t events = static_cast<size_t>(std::count(text.begin(), text.end(), '\n'));
  EXPECT_EQ(load_trace(write("plain.trace", text)).events.size(), events);
  EXPECT_EQ(load_trace(write("packed.trace", gzip(text))).events.size(), events);
}

TEST_F(LoadTrace, reads_members_in_turn_and_ignores_padding) {
  const std::string both = gzip("a 1 512 0\n") + gzip("f 1\n") + std::string(100, '\0');
  EXPECT_EQ(load_trace(write("two.gz", both)).events.size(), 2u);
  const std::string far = gzip("a 1 512 0\nf 1\n") + std::string(size_t{1} << 19, '\0');
  EXPECT_EQ(load_trace(write("far.gz", far)).events.size(), 2u) << "more padding than a buffer holds";
  std::string many;  // so many that some begin at the end of a buffer
  for (int i = 0; many.size() < (size_t{1} << 19); ++i) many += gzip(fmt::format("a {} 512 0\n", i));
  EXPECT_GT(load_trace(write("many.gz", many)).events.size(), 10000u);
}

TEST_F(LoadTrace, refuses_gzip_that_is_cut_anywhere) {
  const std::string packed = gzip("a 1 512 0\na 2 512 0\nf 1\nf 2\n");
  for (size_t size = 2; size < packed.size(); ++size) {
    const std::string what = complaint(packed.substr(0, size));
    EXPECT_NE(what.find("the gzip data is cut here"), std::string::npos) << size << what;
  }
  const std::string long_packed = gzip(long_text());
  const std::string what = complaint(long_packed.substr(0, long_packed.size() / 2));
  EXPECT_NE(what.find("the gzip data is cut here"), std::string::npos) << what;
  EXPECT_NE(what.substr(0, 3), ":1:") << "the line says how far the good data went";
}

TEST_F(LoadTrace, refuses_gzip_that_is_damaged) {
  std::string packed = gzip(long_text());
  packed[packed.size() - 6] = static_cast<char>(~packed[packed.size() - 6]);  // in the checksum
  EXPECT_EQ(complaint(packed), ":50001: the gzip data is damaged here: incorrect data check");
  EXPECT_EQ(complaint(gzip("a 1 512 0\n") + "rest").substr(0, 10), ": at byte ");
  EXPECT_NE(complaint(gzip("a 1 512 0\n") + "rest").find(": 4 bytes after the end of the gzip data"),
            std::string::npos);
}

TEST_F(LoadTrace, says_why_a_file_cannot_be_read) {
  EXPECT_THROW(load_trace((folder_.path() / "missing").string()), InputError);
  EXPECT_THROW(load_trace(folder_.path().string()), InputError);
}

}  // namespace
}  // namespace gpupool::cli
