// SPDX-License-Identifier: Apache-2.0
#include "cli/base/text_file.hpp"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "cli/base/library.hpp"
#include "cli/base/output.hpp"

namespace gpupool::cli {
namespace {

constexpr size_t kBufferSize = size_t{1} << 18;
constexpr uint64_t kAlwaysAllowed = uint64_t{16} << 20;

/// The bytes of a file, a bounded number of them at a time.
class Bytes {
 public:
  explicit Bytes(const std::string& path) : label_(file_label(path)), buffer_(kBufferSize) {
    if (path == "-") {
      file_ = {stdin, [](std::FILE*) { return 0; }};
    } else {
      file_ = {std::fopen(path.c_str(), "rb"), std::fclose};
    }
    if (!file_) throw cannot_be_read(errno);
    std::error_code unknown;  // of a pipe, for instance
    const auto size = std::filesystem::file_size(path, unknown);
    if (!unknown) progress_.emplace().begin("reading", size);
  }

  /// What comes next: at least two bytes, unless the file ends before. Empty at its end.
  std::string_view next() {
    if (end_ - begin_ < 2 && !is_at_end_) {
      std::copy(buffer_.begin() + begin_, buffer_.begin() + end_, buffer_.begin());
      end_ -= begin_;
      begin_ = 0;
      fill();
    }
    return {buffer_.data() + begin_, static_cast<size_t>(end_ - begin_)};
  }

  void consume(size_t count) {
    begin_ += static_cast<std::ptrdiff_t>(count);
    consumed_ += count;
    reached_ = std::max(reached_, consumed_);
    if (progress_) progress_->set(consumed_);
  }
  uint64_t consumed() const { return consumed_; }
  /// The most that was consumed, before go_to went back.
  uint64_t reached() const { return reached_; }

  /// The whole file, in place of next() and consume().
  std::string_view load(const std::function<void(uint64_t)>& fits) {
    while (!is_at_end_) {
      fits(static_cast<uint64_t>(end_));
      if (static_cast<size_t>(end_) == buffer_.size()) buffer_.resize(2 * buffer_.size());
      fill();
    }
    return {buffer_.data(), static_cast<size_t>(end_)};
  }
  /// Of a loaded file, the bytes from `begin` to `end` come next, and no more.
  void go_to(size_t begin, size_t end) {
    begin_ = static_cast<std::ptrdiff_t>(begin);
    end_ = static_cast<std::ptrdiff_t>(end);
    consumed_ = begin;
  }

  const std::string& label() const { return label_; }

 private:
  void fill() {
    const size_t wanted = buffer_.size() - static_cast<size_t>(end_);
    const size_t count = std::fread(buffer_.data() + end_, 1, wanted, file_.get());
    if (std::ferror(file_.get()) != 0) throw cannot_be_read(errno);
    is_at_end_ = count < wanted;
    end_ += static_cast<std::ptrdiff_t>(count);
  }

  InputError cannot_be_read(int error) const {
    return InputError(fmt::format("{}: cannot be read: {}", label_, std::strerror(error)));
  }

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

constexpr std::string_view kGzipBegin = "\x1f\x8b\x08";

bool is_gzip(std::string_view bytes) {
  return bytes.starts_with(kGzipBegin.substr(0, 2));  // Bytes::next may have no more
}

constexpr const char* kIsCut = "the gzip data is cut here";

/// Unpacks one gzip file of possibly several members, one after another.
class Unpacker {
 public:
  Unpacker(Bytes& packed, const std::function<void(std::string_view)>& use, TextFile how)
      : packed_(packed), use_(use), how_(how), buffer_(kBufferSize) {
    constexpr int kGzipOnly = 16 + MAX_WBITS;
    if (inflateInit2(&stream_, kGzipOnly) != Z_OK) throw std::bad_alloc();
  }
  ~Unpacker() { inflateEnd(&stream_); }
  Unpacker(const Unpacker&) = delete;
  Unpacker& operator=(const Unpacker&) = delete;

  void run() {
    while (is_gzip(packed_.next())) unpack_member();
    expect_padding();
  }

  void unpack_member() {
    constexpr size_t kMostAtOnce = size_t{1} << 30;
    if (packed_.next().size() < 2) throw DamagedFile(place() + kIsCut, true);
    if (!is_gzip(packed_.next())) throw DamagedFile(place() + "there should be gzip data");
    inflateReset(&stream_);
    int result = Z_OK;
    while (result != Z_STREAM_END) {
      const std::string_view packed = packed_.next().substr(0, kMostAtOnce);
      // zlib does not write through next_in; its type only says so if ZLIB_CONST is defined.
      stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
      stream_.avail_in = static_cast<uInt>(packed.size());
      stream_.next_out = reinterpret_cast<Bytef*>(buffer_.data());
      stream_.avail_out = static_cast<uInt>(buffer_.size());
      result = inflate(&stream_, Z_NO_FLUSH);
      packed_.consume(packed.size() - stream_.avail_in);
      pass_on({buffer_.data(), buffer_.size() - stream_.avail_out});
      if (result == Z_BUF_ERROR) throw DamagedFile(place() + kIsCut, true);
      if (result != Z_OK && result != Z_STREAM_END) {
        throw DamagedFile(fmt::format("{}the gzip data is damaged here: {}", place(),
                                      stream_.msg != nullptr ? stream_.msg : zError(result)));
      }
    }
  }

 private:
  void pass_on(std::string_view text) {
    lines_ += std::count(text.begin(), text.end(), '\n');
    unpacked_ += text.size();
    if (how_.most_growth != 0 && unpacked_ > kAlwaysAllowed + how_.most_growth * packed_.reached()) {
      throw InputError(
          fmt::format("{}: at byte {}: up to here the file unpacks to more than {} times its size",
                      packed_.label(), packed_.consumed(), how_.most_growth));
    }
    if (!text.empty()) use_(text);
  }

  /// Tapes and some tools pad with zeroes; anything else did not come from gzip.
  void expect_padding() {
    const uint64_t end = packed_.consumed();
    uint64_t count = 0;
    bool is_padding = true;
    for (std::string_view rest = packed_.next(); !rest.empty(); rest = packed_.next()) {
      count += rest.size();
      is_padding = is_padding && rest.find_first_not_of('\0') == std::string_view::npos;
      packed_.consume(rest.size());
    }
    if (!is_padding) {
      throw DamagedFile(fmt::format("{}: at byte {}: {} bytes after the end of the gzip data",
                                    packed_.label(), end, count));
    }
  }

  /// "file:line: ", for the line in which the good data ends, or "file: at byte N: ".
  std::string place() const {
    return how_.is_binary ? fmt::format("{}: at byte {}: ", packed_.label(), packed_.consumed())
                          : fmt::format("{}:{}: ", packed_.label(), lines_ + 1);
  }

  Bytes& packed_;
  const std::function<void(std::string_view)>& use_;
  const TextFile how_;
  std::vector<char> buffer_;
  uint64_t unpacked_ = 0;
  std::ptrdiff_t lines_ = 0;
  z_stream stream_{};
};

/// Reads a file that may be damaged, see salvage_file.
class Salvage {
 public:
  Salvage(const std::string& path, Begins begins, const std::function<void(uint64_t)>& fits, TextFile how)
      : begins_(begins),
        fits_(fits),
        packed_(path),
        file_(packed_.load(fits)),
        all_(without_end(file_, kMostZeroes)),
        keep_([this](std::string_view piece) {
          fits_(made_.text.size() + text_.size() + piece.size());
          text_ += piece;
        }),
        unpacker_(packed_, keep_, how) {}

  Salvaged run() {
    if (file_.starts_with(begins_.plain)) {
      made_.text = file_;
      return std::move(made_);
    }
    for (size_t at = 0; all_.find_first_not_of('\0', at) != std::string_view::npos;) {
      const std::optional<DamagedFile> damage = unpack(at, all_.size());
      at = damage ? skip(at, *damage) : use();
    }
    return std::move(made_);
  }

 private:
  /// A file's end that was never written may be zeroes; only so many belong to a member that is empty.
  static constexpr size_t kMostZeroes = 9;

  static std::string_view without_end(std::string_view bytes, size_t zeroes) {
    return bytes.substr(0, std::min(bytes.size(), bytes.find_last_not_of('\0') + 1 + zeroes));
  }

  /// Unpacks a member to text_. Returns what is wrong with it.
  std::optional<DamagedFile> unpack(size_t at, size_t end) {
    text_.clear();
    packed_.go_to(at, end);
    try {
      unpacker_.unpack_member();
      return std::nullopt;
    } catch (const DamagedFile& damage) {
      return damage;
    }
  }

  /// Returns where what was unpacked last ends.
  size_t use() {
    if (made_.text.empty()) {
      made_.text.swap(text_);
    } else {
      made_.text += text_;
    }
    return packed_.consumed();
  }

  /// Goes from a damaged member to behind the next whole one. What was unpacked beyond the damage does not
  /// say where that begins.
  size_t skip(size_t at, const DamagedFile& damage) {
    std::string unpacked = std::exchange(text_, "");
    for (size_t next = all_.find(kGzipBegin, at + 1); next != std::string_view::npos;
         next = all_.find(kGzipBegin, next + 1)) {
      if (unpack(next, all_.size()) || !(text_.empty() || text_.starts_with(begins_.member))) continue;
      made_.gaps.push_back({made_.text.size(), next - at, about(at, next - at)});
      return use();
    }
    text_ = std::move(unpacked);
    return end(at, damage);
  }

  /// Of a damaged member with no whole one behind it. Returns where the file ends.
  size_t end(size_t at, const DamagedFile& damage) {
    const size_t written = without_end(all_, 0).size();
    const bool is_written = all_.size() - written < kMostZeroes;
    const DamagedFile last = is_written ? damage : unpack(at, written).value_or(damage);
    const size_t lost = all_.size() - at;
    if (at == 0 && !is_gzip(file_)) {
      made_.text = file_;
    } else if (at == 0 || last.is_cut) {
      use();
      made_.gaps.push_back({made_.text.size(), 0, last.what()});
    } else {
      made_.gaps.push_back({made_.text.size(), lost, about(at, lost)});
    }
    return all_.size();
  }

  std::string about(size_t at, size_t lost) const {
    return fmt::format("{}: at byte {}: {} bytes of gzip data are damaged", packed_.label(), at, lost);
  }

  const Begins begins_;
  const std::function<void(uint64_t)>& fits_;
  Bytes packed_;
  const std::string_view file_;
  const std::string_view all_;  // that was written of it
  const std::function<void(std::string_view)> keep_;
  Unpacker unpacker_;
  std::string text_;  // of the member that was unpacked last
  Salvaged made_;
};

/// Hands on what is behind a mark of byte order, as Windows writes it; text in UTF-16 as ASCII.
class MarkedText {
 public:
  explicit MarkedText(const std::function<void(std::string_view)>& use) : use_(use) {}

  void feed(std::string_view text) {
    if (form_ != Form::unknown) return pass_on(text);
    begin_ += text;
    if (begin_.size() >= kUtf8Mark.size()) decide();
  }
  void finish() {
    if (form_ == Form::unknown) decide();
  }

 private:
  enum class Form { unknown, plain, little, big };
  static constexpr std::string_view kUtf8Mark = "\xef\xbb\xbf";

  void decide() {
    const std::string_view begin = begin_;
    size_t mark = 2;
    if (begin.starts_with("\xff\xfe")) {
      form_ = Form::little;
    } else if (begin.starts_with("\xfe\xff")) {
      form_ = Form::big;
    } else {
      form_ = Form::plain;
      mark = begin.starts_with(kUtf8Mark) ? kUtf8Mark.size() : 0;
    }
    pass_on(begin.substr(mark));
  }

  void pass_on(std::string_view text) {
    if (form_ == Form::plain) {
      if (!text.empty()) use_(text);
      return;
    }
    ascii_.clear();
    for (const char byte : text) {
      is_second_ = !is_second_;
      if (is_second_) {
        first_ = byte;
        continue;
      }
      const char low = form_ == Form::little ? first_ : byte;
      const char high = form_ == Form::little ? byte : first_;
      ascii_ += high == 0 && static_cast<unsigned char>(low) < 0x80 ? low : '?';
    }
    if (!ascii_.empty()) use_(ascii_);
  }

  const std::function<void(std::string_view)>& use_;
  Form form_ = Form::unknown;
  std::string begin_;
  std::string ascii_;
  bool is_second_ = false;  // the next byte is its unit's second
  char first_ = 0;
};

/// Hands on the bytes of a file, unpacked.
void read_bytes(const std::string& path, const std::function<void(std::string_view)>& use, TextFile how) {
  Bytes bytes(path);
  if (is_gzip(bytes.next())) {
    Unpacker(bytes, use, how).run();
    return;
  }
  for (std::string_view text = bytes.next(); !text.empty(); text = bytes.next()) {
    use(text);
    bytes.consume(text.size());
  }
}

}  // namespace

std::string file_label(const std::string& path) {
  return path == "-" ? "standard input" : path;
}

void read_text(const std::string& path, const std::function<void(std::string_view)>& use, TextFile how) {
  if (how.is_binary) return read_bytes(path, use, how);
  MarkedText marked(use);
  read_bytes(
      path, [&](std::string_view text) { marked.feed(text); }, how);
  marked.finish();
}

Salvaged salvage_file(const std::string& path, Begins begins, const std::function<void(uint64_t)>& fits,
                      TextFile how) {
  return Salvage(path, begins, fits, how).run();
}

}  // namespace gpupool::cli
