// SPDX-License-Identifier: Apache-2.0
#include "cli/base/gzip.hpp"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <utility>
#include <vector>

#include "cli/base/library.hpp"
#include "cli/base/system.hpp"

namespace gpupool::cli {

namespace {

/// Packs pieces one after another.
class Packer {
 public:
  Packer() {
    constexpr int kGzip = 15 + 16;
    if (deflateInit2(&stream_, Z_BEST_COMPRESSION, Z_DEFLATED, kGzip, 8, Z_DEFAULT_STRATEGY) != Z_OK)
      throw std::runtime_error("no memory to pack what is written");
  }
  ~Packer() { deflateEnd(&stream_); }
  Packer(const Packer&) = delete;
  Packer& operator=(const Packer&) = delete;

  void add(std::string_view text, int flush) {
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
    stream_.avail_in = static_cast<uInt>(text.size());
    work([&] { return deflate(&stream_, flush); });
  }

  /// From here on, with runs and repetitions or without: then a byte takes a bit at least.
  void repeat(bool may) {
    work([&] {
      return deflateParams(&stream_, Z_BEST_COMPRESSION, may ? Z_DEFAULT_STRATEGY : Z_HUFFMAN_ONLY);
    });
  }

  const std::string& packed() const noexcept { return packed_; }
  std::string take() { return std::move(packed_); }

 private:
  template <typename Step>
  void work(Step step) {
    do {
      stream_.next_out = reinterpret_cast<Bytef*>(buffer_.data());
      stream_.avail_out = static_cast<uInt>(buffer_.size());
      const int status = step();
      if (status != Z_OK && status != Z_STREAM_END && status != Z_BUF_ERROR)
        throw std::runtime_error("what is written cannot be packed");
      packed_.append(buffer_.data(), buffer_.size() - stream_.avail_out);
    } while (stream_.avail_out == 0);
  }

  z_stream stream_{};
  std::vector<char> buffer_ = std::vector<char>(size_t{1} << 18);
  std::string packed_;
};

}  // namespace

std::string pack_gzip(std::string_view text, size_t most_growth) {
  constexpr size_t kPiece = size_t{1} << 20;
  constexpr size_t kFree = size_t{8} << 20;
  Packer packer;
  bool may_repeat = true;
  size_t done = 0;
  for (; text.size() > kPiece; text.remove_prefix(kPiece)) {
    packer.add(text.substr(0, kPiece), Z_NO_FLUSH);
    done += kPiece;
    const bool is_too_well = most_growth != 0 && done > kFree + most_growth * packer.packed().size();
    if (may_repeat == is_too_well) packer.repeat(may_repeat = !may_repeat);
  }
  packer.add(text, Z_FINISH);
  return packer.take();
}

void write_gzip(const std::string& to, std::string_view text, size_t most_growth) {
  const std::string packed = pack_gzip(text, most_growth);
  const int file = create_new(to.c_str());
  if (file < 0) throw InputError(fmt::format("{} cannot be made: {}", to, std::strerror(errno)));
  gzFile plain = gzdopen(file, "wbT");  // as it is
  bool is_good = plain != nullptr;
  constexpr size_t kPiece = size_t{1} << 20;
  for (size_t at = 0; is_good && at < packed.size(); at += kPiece) {
    const auto length = static_cast<unsigned>(std::min(kPiece, packed.size() - at));
    is_good = gzwrite(plain, packed.data() + at, length) == static_cast<int>(length);
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
