// SPDX-License-Identifier: Apache-2.0
#include "cli/base/gzip.hpp"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <new>
#include <stdexcept>
#include <utility>

#include "cli/base/library.hpp"
#include "cli/base/output.hpp"
#include "cli/base/system.hpp"

namespace gpupool::cli {

namespace {

constexpr size_t kLabelBlock = size_t{4} << 10;
constexpr std::string_view kLabelName = "GP";
constexpr size_t kLabelHead = 4;  // the name, and the length of what follows
constexpr size_t kLabelLeast = kLabelHead + sizeof(uint32_t) + sizeof(uint64_t);
constexpr size_t kMostBlocks = (65535 - kLabelLeast) / sizeof(uint32_t);

uint32_t checksum(std::string_view text, uint32_t before = 0) {
  return static_cast<uint32_t>(
      crc32(before, reinterpret_cast<const Bytef*>(text.data()), static_cast<uInt>(text.size())));
}

template <typename Number>
void append_number(std::string& bytes, Number number) {
  bytes.append(reinterpret_cast<const char*>(&number), sizeof number);
}

/// As the extra field of a gzip header (RFC 1952).
std::string label_bytes(uint32_t file, uint64_t at, std::string_view text) {
  const size_t blocks = std::min((text.size() + kLabelBlock - 1) / kLabelBlock, kMostBlocks);
  std::string made(kLabelName);
  append_number(made, static_cast<uint16_t>(kLabelLeast - kLabelHead + blocks * sizeof(uint32_t)));
  append_number(made, file);
  append_number(made, at);
  for (size_t i = 0; i < blocks; ++i)
    append_number(made, checksum(text.substr(i * kLabelBlock, kLabelBlock)));
  return made;
}

/// Packs a text behind what is packed already. Without runs and repetitions, a byte takes a bit at least.
void add_member(std::string& packed, std::string_view text, int strategy = Z_DEFAULT_STRATEGY,
                std::string label = "") {
  constexpr int kGzip = 15 + 16;
  z_stream stream{};
  if (deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, kGzip, 8, strategy) != Z_OK)
    throw std::bad_alloc();
  const std::unique_ptr<z_stream, int (*)(z_stream*)> ended(&stream, deflateEnd);
  gz_header header{};
  constexpr int kUnknownSystem = 255;
  if (!label.empty()) {
    header.os = kUnknownSystem;
    header.extra = reinterpret_cast<Bytef*>(label.data());
    header.extra_len = static_cast<uInt>(label.size());
    header.hcrc = 1;
    deflateSetHeader(&stream, &header);
  }
  const size_t begin = packed.size();
  if (text.size() > size_t{2} << 30) throw std::runtime_error("what is written is too large to be packed");
  const size_t most = deflateBound(&stream, static_cast<uLong>(text.size()));
  packed.resize(begin + most);
  // zlib does not write through next_in; its type only says so if ZLIB_CONST is defined.
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data() + begin);
  stream.avail_out = static_cast<uInt>(most);
  if (deflate(&stream, Z_FINISH) != Z_STREAM_END)
    throw std::runtime_error("what is written cannot be packed");
  packed.resize(packed.size() - stream.avail_out);
}

}  // namespace

std::string pack_gzip(std::string_view text) {
  std::string packed;
  add_member(packed, text);
  return packed;
}

std::string pack_members(const std::vector<std::string_view>& texts, size_t most_growth) {
  constexpr size_t kFree = size_t{8} << 20;
  uint32_t file = 0;
  for (const std::string_view text : texts) file = checksum(text, file);
  std::string packed;
  size_t size = 0;
  Progress progress;
  progress.begin("packing", texts.size());
  for (const std::string_view& text : texts) {
    const std::string label = label_bytes(file, size, text);
    size += text.size();
    const bool may_repeat = size <= kFree + most_growth * packed.size();
    add_member(packed, text, may_repeat ? Z_DEFAULT_STRATEGY : Z_HUFFMAN_ONLY, label);
    progress.set(static_cast<size_t>(&text - texts.data()));
  }
  add_member(packed, "", Z_DEFAULT_STRATEGY, label_bytes(file, size, ""));
  return packed;
}

size_t MemberLabel::whole_bytes(std::string_view text, bool is_cut) const {
  size_t whole = 0;
  for (const uint32_t block : blocks) {
    const std::string_view part = text.substr(whole, kLabelBlock);
    const bool is_short = is_cut && part.size() < kLabelBlock;
    if (part.empty() || (!is_short && checksum(part) != block)) break;
    whole += part.size();
  }
  return whole;
}

std::optional<MemberLabel> read_member_label(std::string_view extra) {
  const auto read = [&](size_t at, auto& number) { std::memcpy(&number, extra.data() + at, sizeof number); };
  uint16_t length = 0;
  if (extra.size() < kLabelLeast || !extra.starts_with(kLabelName)) return std::nullopt;
  read(kLabelName.size(), length);
  if (extra.size() != kLabelHead + length) return std::nullopt;
  MemberLabel label;
  read(kLabelHead, label.file);
  read(kLabelHead + sizeof label.file, label.at);
  label.blocks.resize((extra.size() - kLabelLeast) / sizeof(uint32_t));
  for (size_t i = 0; i < label.blocks.size(); ++i) read(kLabelLeast + i * sizeof(uint32_t), label.blocks[i]);
  return label;
}

bool MemberOrder::takes(const std::optional<MemberLabel>& label) const {
  if (is_empty_) return true;
  return label ? label->file == file_ && label->at >= end_ : !file_;
}

std::string MemberOrder::what_is_wrong(const std::optional<MemberLabel>& label) const {
  if (!takes(label))
    return label && label->file == file_ ? "this gzip member comes twice, or belongs before others"
                                         : "this gzip member is of another file";
  const uint64_t missing = label ? label->at - end_ : 0;
  return missing == 0 ? ""
                      : fmt::format("{} bytes that the file unpacks to are missing before this", missing);
}

void MemberOrder::add(const std::optional<MemberLabel>& label, uint64_t unpacked_bytes) {
  if (std::exchange(is_empty_, false) && label) file_ = label->file;
  end_ = (label ? label->at : end_) + unpacked_bytes;
}

void write_new(const std::string& to, std::string_view bytes) {
  const int file = create_new(to.c_str());
  if (file < 0) throw InputError(fmt::format("{} cannot be made: {}", to, std::strerror(errno)));
  gzFile plain = gzdopen(file, "wbT");  // as it is
  bool is_good = plain != nullptr;
  constexpr size_t kPiece = size_t{1} << 20;
  for (size_t at = 0; is_good && at < bytes.size(); at += kPiece) {
    const auto length = static_cast<unsigned>(std::min(kPiece, bytes.size() - at));
    is_good = gzwrite(plain, bytes.data() + at, length) == static_cast<int>(length);
  }
  if (plain != nullptr) {
    is_good = gzclose(plain) == Z_OK && is_good;
  } else {
    close_file(file);
  }
  if (is_good) return;
  (void)std::remove(to.c_str());
  throw InputError(fmt::format("{} cannot be written: {}", to, std::strerror(errno)));
}

}  // namespace gpupool::cli
