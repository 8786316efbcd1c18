// SPDX-License-Identifier: Apache-2.0
#include "cli/text_file.hpp"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <limits>
#include <memory>
#include <vector>

#include "cli/library.hpp"

namespace gpupool::cli {
namespace {

constexpr size_t kBufferSize = size_t{1} << 18;

std::string read_bytes(const std::string& path) {
  const auto refuse = [&](int error) {
    return InputError(fmt::format("{}: can not be read: {}", path, std::strerror(error)));
  };
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), std::fclose);
  if (!file) throw refuse(errno);
  std::string bytes;
  std::vector<char> buffer(kBufferSize);
  while (const size_t count = std::fread(buffer.data(), 1, buffer.size(), file.get())) {
    bytes.append(buffer.data(), count);
  }
  if (std::ferror(file.get()) != 0) throw refuse(errno);
  return bytes;
}

bool is_gzip(std::string_view bytes) {
  return bytes.starts_with("\x1f\x8b");
}

/// Unpacks one gzip file of possibly several members, one after the other.
class Unpacker {
 public:
  Unpacker(const std::string& path, std::string_view packed)
      : path_(path), packed_(packed), buffer_(kBufferSize) {
    constexpr int kGzipOnly = 16 + MAX_WBITS;
    if (inflateInit2(&stream_, kGzipOnly) != Z_OK) throw std::bad_alloc();
  }
  ~Unpacker() { inflateEnd(&stream_); }
  Unpacker(const Unpacker&) = delete;
  Unpacker& operator=(const Unpacker&) = delete;

  std::string run() {
    while (!packed_.empty()) {
      if (!is_gzip(packed_)) {
        // Tapes and some tools pad with zeroes; all else is not what gzip wrote.
        if (packed_.find_first_not_of('\0') == std::string_view::npos) break;
        throw InputError(fmt::format("{}: {} bytes after the end of the gzip data", path_, packed_.size()));
      }
      unpack_member();
    }
    return std::move(text_);
  }

 private:
  void unpack_member() {
    inflateReset(&stream_);
    int result = Z_OK;
    while (result != Z_STREAM_END) {
      const size_t count = std::min<size_t>(packed_.size(), std::numeric_limits<uInt>::max());
      // zlib does not write through next_in; its type only says so if ZLIB_CONST is defined.
      stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed_.data()));
      stream_.avail_in = static_cast<uInt>(count);
      stream_.next_out = reinterpret_cast<Bytef*>(buffer_.data());
      stream_.avail_out = static_cast<uInt>(buffer_.size());
      result = inflate(&stream_, Z_NO_FLUSH);
      packed_.remove_prefix(count - stream_.avail_in);
      text_.append(buffer_.data(), buffer_.size() - stream_.avail_out);
      if (result == Z_BUF_ERROR || (result == Z_OK && packed_.empty() && stream_.avail_out != 0)) {
        throw InputError(place() + "the gzip data is cut here");
      }
      if (result != Z_OK && result != Z_STREAM_END) {
        throw InputError(fmt::format("{}the gzip data is damaged here: {}", place(),
                                     stream_.msg != nullptr ? stream_.msg : zError(result)));
      }
    }
  }

  /// "file:line: ", for the line in which the good data ends.
  std::string place() const {
    return fmt::format("{}:{}: ", path_, std::count(text_.begin(), text_.end(), '\n') + 1);
  }

  const std::string& path_;
  std::string_view packed_;
  std::vector<char> buffer_;
  std::string text_;
  z_stream stream_{};
};

}  // namespace

std::string read_text(const std::string& path) {
  std::string bytes = read_bytes(path);
  return is_gzip(bytes) ? Unpacker(path, bytes).run() : bytes;
}

}  // namespace gpupool::cli
