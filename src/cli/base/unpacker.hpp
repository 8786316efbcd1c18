// SPDX-License-Identifier: Apache-2.0
// The bytes of a file, and what they unpack to.
#pragma once

#include <zlib.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/base/gzip.hpp"
#include "cli/base/library.hpp"
#include "cli/base/output.hpp"

namespace gpupool::cli {

/// What a message calls a file: its path, and "standard input" for "-".
std::string file_label(const std::string& path);

/// Of a file with damaged gzip data: what came before the damage has been handed on.
class DamagedFile : public InputError {
 public:
  explicit DamagedFile(const std::string& what, bool cut = false) : InputError(what), is_cut(cut) {}
  bool is_cut;  // the file ends before its data
};

/// How a file is read.
struct TextFile {
  uint64_t most_growth = 0;  // how many times its size it may unpack to, beyond 16 MiB; 0: any
  bool is_binary = false;    // messages name bytes, not lines, and a mark of byte order means nothing
};

/// How each member of a gzip file begins.
inline constexpr std::string_view kGzipBegin = "\x1f\x8b\x08";

bool is_gzip(std::string_view bytes);

/// The bytes of a file, a bounded number of them at a time.
class Bytes {
 public:
  /// Throws InputError if the file cannot be read, as the other functions do.
  explicit Bytes(const std::string& path);

  /// What comes next: at least two bytes, unless the file ends before. Empty at its end.
  std::string_view next();
  void consume(size_t count);
  uint64_t consumed() const { return consumed_; }
  /// The most that was consumed, before go_to went back.
  uint64_t reached() const { return reached_; }

  /// The whole file, in place of next() and consume(). `fits` throws if so many bytes are too many.
  std::string_view load(const std::function<void(uint64_t)>& fits);
  /// Of a loaded file, the bytes from `begin` to `end` come next, and no more.
  void go_to(size_t begin, size_t end);

  const std::string& label() const { return label_; }

 private:
  void fill();
  InputError cannot_be_read(int error) const;

  std::string label_;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_{nullptr, std::fclose};
  std::vector<char> buffer_;
  std::ptrdiff_t begin_ = 0;
  std::ptrdiff_t end_ = 0;
  bool is_at_end_ = false;
  uint64_t consumed_ = 0;
  uint64_t reached_ = 0;
  std::optional<Progress> progress_;
};

/// Unpacks one gzip file of possibly several members, one after another, and hands on what they unpack to.
/// Throws DamagedFile, or InputError if that grows too much.
class Unpacker {
 public:
  Unpacker(Bytes& packed, const std::function<void(std::string_view)>& use, TextFile how);
  ~Unpacker() { inflateEnd(&stream_); }
  Unpacker(const Unpacker&) = delete;
  Unpacker& operator=(const Unpacker&) = delete;

  /// The whole file, of which each member must be in its place.
  void run();
  void unpack_member();
  /// Of the member that was begun last, if its header is whole and has one.
  std::optional<MemberLabel> label() const;

 private:
  void pass_on(std::string_view text);
  /// Tapes and some tools pad with zeroes; anything else did not come from gzip.
  void expect_padding();
  /// "file:line: ", for the line in which the good data ends, or "file: at byte N: ".
  std::string place() const;

  Bytes& packed_;
  const std::function<void(std::string_view)>& use_;
  const TextFile how_;
  std::vector<char> buffer_;
  std::vector<Bytef> extra_;  // of the member's header
  gz_header header_{};
  uint64_t unpacked_ = 0;
  std::ptrdiff_t lines_ = 0;
  z_stream stream_{};
};

}  // namespace gpupool::cli
