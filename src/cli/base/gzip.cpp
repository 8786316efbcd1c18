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

#include "cli/base/library.hpp"
#include "cli/base/output.hpp"
#include "cli/base/system.hpp"

namespace gpupool::cli {

namespace {

/// Packs a text behind what is packed already. Without runs and repetitions, a byte takes a bit at least.
void add_member(std::string& packed, std::string_view text, int strategy = Z_DEFAULT_STRATEGY) {
  constexpr int kGzip = 15 + 16;
  z_stream stream{};
  if (deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, kGzip, 8, strategy) != Z_OK)
    throw std::bad_alloc();
  const std::unique_ptr<z_stream, int (*)(z_stream*)> ended(&stream, deflateEnd);
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
  std::string packed;
  size_t size = 0;
  Progress progress;
  progress.begin("packing", texts.size());
  for (const std::string_view& text : texts) {
    size += text.size();
    const bool may_repeat = size <= kFree + most_growth * packed.size();
    add_member(packed, text, may_repeat ? Z_DEFAULT_STRATEGY : Z_HUFFMAN_ONLY);
    progress.set(static_cast<size_t>(&text - texts.data()));
  }
  add_member(packed, "");
  return packed;
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
