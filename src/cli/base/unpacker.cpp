// SPDX-License-Identifier: Apache-2.0
#include "cli/base/unpacker.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <new>
#include <system_error>

namespace gpupool::cli {
namespace {

constexpr size_t kBufferSize = size_t{1} << 18;
constexpr uint64_t kAlwaysAllowed = uint64_t{16} << 20;
constexpr size_t kMostExtra = 65535;
constexpr const char* kIsCut = "the gzip data is cut here";

}  // namespace

std::string file_label(const std::string& path) {
  return path == "-" ? "standard input" : path;
}

bool is_gzip(std::string_view bytes) {
  return bytes.starts_with(kGzipBegin.substr(0, 2));  // Bytes::next may have no more
}

// ---- Bytes

Bytes::Bytes(const std::string& path) : label_(file_label(path)), buffer_(kBufferSize) {
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

std::string_view Bytes::next() {
  if (end_ - begin_ < 2 && !is_at_end_) {
    std::copy(buffer_.begin() + begin_, buffer_.begin() + end_, buffer_.begin());
    end_ -= begin_;
    begin_ = 0;
    fill();
  }
  return {buffer_.data() + begin_, static_cast<size_t>(end_ - begin_)};
}

void Bytes::consume(size_t count) {
  begin_ += static_cast<std::ptrdiff_t>(count);
  consumed_ += count;
  reached_ = std::max(reached_, consumed_);
  if (progress_) progress_->set(consumed_);
}

std::string_view Bytes::load(const std::function<void(uint64_t)>& fits) {
  while (!is_at_end_) {
    fits(static_cast<uint64_t>(end_));
    if (static_cast<size_t>(end_) == buffer_.size()) buffer_.resize(2 * buffer_.size());
    fill();
  }
  return {buffer_.data(), static_cast<size_t>(end_)};
}

void Bytes::go_to(size_t begin, size_t end) {
  begin_ = static_cast<std::ptrdiff_t>(begin);
  end_ = static_cast<std::ptrdiff_t>(end);
  consumed_ = begin;
}

void Bytes::fill() {
  const size_t wanted = buffer_.size() - static_cast<size_t>(end_);
  const size_t count = std::fread(buffer_.data() + end_, 1, wanted, file_.get());
  if (std::ferror(file_.get()) != 0) throw cannot_be_read(errno);
  is_at_end_ = count < wanted;
  end_ += static_cast<std::ptrdiff_t>(count);
}

InputError Bytes::cannot_be_read(int error) const {
  return InputError(fmt::format("{}: cannot be read: {}", label_, std::strerror(error)));
}

// ---- Unpacker

Unpacker::Unpacker(Bytes& packed, const std::function<void(std::string_view)>& use, TextFile how)
    : packed_(packed), use_(use), how_(how), buffer_(kBufferSize), extra_(kMostExtra) {
  constexpr int kGzipOnly = 16 + MAX_WBITS;
  if (inflateInit2(&stream_, kGzipOnly) != Z_OK) throw std::bad_alloc();
}

void Unpacker::run() {
  MemberOrder order;
  while (is_gzip(packed_.next())) {
    const uint64_t begin = packed_.consumed();
    const uint64_t before = unpacked_;
    unpack_member();
    const auto labelled = label();
    if (const std::string why = order.what_is_wrong(labelled); !why.empty())
      throw DamagedFile(fmt::format("{}: at byte {}: {}", packed_.label(), begin, why));
    order.add(labelled, unpacked_ - before);
  }
  expect_padding();
}

void Unpacker::unpack_member() {
  constexpr size_t kMostAtOnce = size_t{1} << 30;
  header_ = {};
  if (packed_.next().size() < 2) throw DamagedFile(place() + kIsCut, true);
  if (!is_gzip(packed_.next())) throw DamagedFile(place() + "there should be gzip data");
  inflateReset(&stream_);
  header_.extra = extra_.data();
  header_.extra_max = static_cast<uInt>(extra_.size());
  inflateGetHeader(&stream_, &header_);
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

std::optional<MemberLabel> Unpacker::label() const {
  if (header_.done != 1 || header_.extra == nullptr) return std::nullopt;
  return read_member_label({reinterpret_cast<const char*>(extra_.data()), header_.extra_len});
}

void Unpacker::pass_on(std::string_view text) {
  lines_ += std::count(text.begin(), text.end(), '\n');
  unpacked_ += text.size();
  if (how_.most_growth != 0 && unpacked_ > kAlwaysAllowed + how_.most_growth * packed_.reached()) {
    throw InputError(fmt::format("{}: at byte {}: up to here the file unpacks to more than {} times its size",
                                 packed_.label(), packed_.consumed(), how_.most_growth));
  }
  if (!text.empty()) use_(text);
}

void Unpacker::expect_padding() {
  const uint64_t end = packed_.consumed();
  uint64_t count = 0;
  bool is_padding = true;
  for (std::string_view rest = packed_.next(); !rest.empty(); rest = packed_.next()) {
    count += rest.size();
    is_padding = is_padding && rest.find_first_not_of('\0') == std::string_view::npos;
    packed_.consume(rest.size());
  }
  if (!is_padding) {
    throw DamagedFile(
        fmt::format("{}: at byte {}: {} bytes after the end of the gzip data", packed_.label(), end, count));
  }
}

std::string Unpacker::place() const {
  return how_.is_binary ? fmt::format("{}: at byte {}: ", packed_.label(), packed_.consumed())
                        : fmt::format("{}:{}: ", packed_.label(), lines_ + 1);
}

}  // namespace gpupool::cli
