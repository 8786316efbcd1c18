// SPDX-License-Identifier: Apache-2.0
// Two encodings: "_ZN" with the lengths of parts, from C++'s, in which a hash ends the path; and "_R", with a
// grammar of its own (Rust RFC 2603), of which paths are read and the rest is skipped.
#include "watch/rust_name.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <utility>

namespace gpupool::internal {
namespace {

bool is_hex(char c) noexcept {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

/// Removes the length that stands before a name, the separator if it is there, and the name.
bool take_name(std::string_view& rest, std::string_view separator, std::string_view& name) noexcept {
  size_t length = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), length);
  if (error != std::errc()) return false;
  rest.remove_prefix(static_cast<size_t>(end - rest.data()));
  if (rest.starts_with(separator)) rest.remove_prefix(separator.size());
  name = rest.substr(0, length);
  rest.remove_prefix(name.size());
  return name.size() == length;
}

// ---- "_ZN"

/// A part of a path: ".." is "::", and what no file's symbol may contain is between dollars.
void add_part(std::string& text, std::string_view part) {
  constexpr std::string_view kEscapes = "$SP$@$BP$*$RF$&$LT$<$GT$>$LP$($RP$)$C$,";
  if (part.starts_with("_$")) part.remove_prefix(1);
  for (size_t taken = 1; !part.empty(); part.remove_prefix(std::exchange(taken, 1))) {
    const size_t end = part[0] == '$' ? part.find('$', 1) : std::string_view::npos;
    const std::string_view code = end != std::string_view::npos ? part.substr(0, end + 1) : "";
    const size_t known = code.empty() ? std::string_view::npos : kEscapes.find(code);
    unsigned char letter = 0;
    if (part.starts_with("..")) {
      text += "::";
      taken = 2;
    } else if (known != std::string_view::npos) {
      text += kEscapes[known + (taken = code.size())];
    } else if (code.size() == 5 && code[1] == 'u' &&
               std::from_chars(&code[2], &code.back(), letter, 16).ptr == &code.back()) {
      text += static_cast<char>(letter);
      taken = code.size();
    } else {
      text += part[0];
    }
  }
}

std::string legacy_name(std::string_view rest) {
  std::string text;
  for (std::string_view part; take_name(rest, "", part);) {
    if (rest.starts_with('E'))
      return part.size() == 17 && part[0] == 'h' && std::all_of(part.begin() + 1, part.end(), is_hex) ? text
                                                                                                      : "";
    if (!text.empty()) text += "::";
    add_part(text, part);
  }
  return {};
}

// ---- "_R"

class Reader {
 public:
  explicit Reader(std::string_view symbol) : all_(symbol), rest_(symbol) {}

  std::string read() {
    read(true);
    return is_good_ ? text_ : std::string();
  }

 private:
  static constexpr int kDeepest = 100;
  static constexpr int kMostSteps = 10000;

  bool take(char c) noexcept {
    if (!rest_.starts_with(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }
  char next() noexcept {
    is_good_ = is_good_ && !rest_.empty();
    const char c = is_good_ ? rest_[0] : '\0';
    if (is_good_) rest_.remove_prefix(1);
    return c;
  }
  uint64_t read_base62() noexcept {
    uint64_t value = 0;
    for (bool is_first = true; is_good_; is_first = false) {
      if (take('_')) return is_first ? 0 : value + 1;
      const char c = next();
      value = 62 * value + static_cast<uint64_t>(c <= '9' ? c - '0' : c >= 'a' ? c - 'a' + 10 : c - 'A' + 36);
    }
    return 0;
  }
  /// 0 if the letter is not there.
  uint64_t read_number_after(char letter) noexcept { return take(letter) ? read_base62() + 1 : 0; }
  std::string_view read_name() noexcept {
    std::string_view name;
    take('u');  // then it is in Punycode, and stays so
    is_good_ = is_good_ && take_name(rest_, "_", name);
    return name;
  }
  void skip_list() {
    while (is_good_ && !take('E')) read(false);
  }

  /// A path, a type, or an argument: their letters differ. `says`: it is in the name, as a path or as "..".
  void read(bool says) {
    is_good_ = is_good_ && ++depth_ <= kDeepest && ++steps_ <= kMostSteps;
    const char kind = next();
    if (says && std::string_view("CNMXYIB").find(kind) == std::string_view::npos) text_ += "..";
    switch (kind) {
      case 'C':
        read_number_after('s');
        if (const std::string_view crate = read_name(); says) text_ += crate;
        break;
      case 'N': read_nested(says); break;
      case 'M':
      case 'X': read_number_after('s'), read(false); [[fallthrough]];
      case 'Y':
        if (says) text_ += '<';
        read(says);
        if (kind != 'M') read(false);
        if (says) text_ += '>';
        break;
      case 'I':
        read(says);
        if (says) text_ += "<..>";
        skip_list();
        break;
      case 'B': go_back(says); break;
      case 'L': read_base62(); break;
      case 'K': skip_constant(); break;
      case 'R':
      case 'Q': read_number_after('L'); [[fallthrough]];
      case 'P':
      case 'O':
      case 'S': read(false); break;
      case 'A': read(false), skip_constant(); break;
      case 'T': skip_list(); break;
      case 'F':
        read_number_after('G');
        take('U');
        if (take('K') && !take('C')) read_name();
        skip_list();
        read(false);
        break;
      case 'D':
        read_number_after('G');
        while (is_good_ && !take('E')) {
          for (read(false); is_good_ && take('p'); read(false)) read_name();
        }
        is_good_ = is_good_ && read_number_after('L') != 0;
        break;
      default: is_good_ = is_good_ && kind >= 'a' && kind <= 'z';
    }
    --depth_;
  }

  void read_nested(bool says) {
    const char space = next();
    read(says);
    const uint64_t number = read_number_after('s');
    const std::string_view name = read_name();
    if (!says) return;
    if (space < 'a') ((text_ += space == 'C' ? "::{closure#" : "::{shim#") += std::to_string(number)) += '}';
    if (space >= 'a' && !name.empty()) (text_ += "::") += name;
  }

  /// What was read before is read again.
  void go_back(bool says) {
    const size_t here = all_.size() - rest_.size();
    const uint64_t place = read_base62();
    is_good_ = is_good_ && place < here;
    if (!says || !is_good_) return;
    const std::string_view behind = std::exchange(rest_, all_.substr(place));
    read(true);
    rest_ = behind;
  }

  /// Only numbers, truth values and characters.
  void skip_constant() {
    if (take('p')) return;
    if (take('B')) return void(read_base62());
    const char type = next();
    take('n');
    while (is_good_ && !rest_.empty() && is_hex(rest_[0])) next();
    is_good_ = is_good_ && type >= 'a' && type <= 'z' && take('_');
  }

  std::string_view all_;
  std::string_view rest_;
  std::string text_;
  bool is_good_ = true;
  int depth_ = 0;
  int steps_ = 0;
};

}  // namespace

std::string rust_name(std::string_view symbol) {
  if (symbol.starts_with("_ZN")) return legacy_name(symbol.substr(3));
  if (symbol.starts_with("_R")) return Reader(symbol.substr(2)).read();
  return {};
}

}  // namespace gpupool::internal
