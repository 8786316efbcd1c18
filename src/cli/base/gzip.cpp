// SPDX-License-Identifier: Apache-2.0
#include "cli/base/gzip.hpp"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <stdexcept>

#include "cli/base/library.hpp"
#include "cli/base/system.hpp"

namespace gpupool::cli {

std::string pack_gzip(const std::string& text) {
  constexpr int kGzip = 15 + 16;
  z_stream stream{};
  if (deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, kGzip, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
    throw std::runtime_error("no memory to pack what is written");
  }
  std::string packed(deflateBound(&stream, static_cast<uLong>(text.size())), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  const int status = deflate(&stream, Z_FINISH);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  if (status != Z_STREAM_END) throw std::runtime_error("what is written cannot be packed");
  return packed;
}

void write_gzip(const std::string& to, const std::string& text) {
  const int file = create_new(to.c_str());
  if (file < 0) throw InputError(fmt::format("{} cannot be made: {}", to, std::strerror(errno)));
  gzFile packed = gzdopen(file, "wb9");
  bool is_good = packed != nullptr;
  constexpr size_t kPiece = size_t{1} << 20;
  for (size_t at = 0; is_good && at < text.size(); at += kPiece) {
    const auto length = static_cast<unsigned>(std::min(kPiece, text.size() - at));
    is_good = gzwrite(packed, text.data() + at, length) == static_cast<int>(length);
  }
  if (packed != nullptr) {
    is_good = gzclose(packed) == Z_OK && is_good;
  } else {
    close_file(file);
  }
  if (is_good) return;
  (void)std::remove(to.c_str());
  throw InputError(fmt::format("{} cannot be written: {}", to, std::strerror(errno)));
}

}  // namespace gpupool::cli
