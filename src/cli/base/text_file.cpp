// SPDX-License-Identifier: Apache-2.0
#include "cli/base/text_file.hpp"

namespace gpupool::cli {
namespace {

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

void read_text(const std::string& path, const std::function<void(std::string_view)>& use, TextFile how) {
  if (how.is_binary) return read_bytes(path, use, how);
  MarkedText marked(use);
  read_bytes(
      path, [&](std::string_view text) { marked.feed(text); }, how);
  marked.finish();
}

}  // namespace gpupool::cli
