// SPDX-License-Identifier: Apache-2.0
// Two encodings: "_ZN" with the lengths of parts, from C++'s, in which a hash ends the path; and "_R", with a
// grammar of its own (Rust RFC 2603), whose rules are the functions below.
#include "watch/rust_name.hpp"

#include <algorithm>
#include <array>
#include <cstdint>

namespace gpupool::internal {
namespace {

bool is_digit(char c) noexcept {
  return c >= '0' && c <= '9';
}

bool is_hex(char c) noexcept {
  return is_digit(c) || (c >= 'a' && c <= 'f');
}

/// Names may be cut anyway. A name refers back to its own parts, so a short one may stand for a very long
/// one.
constexpr size_t kMostText = 2000;

// ---- "_ZN"

struct Escape {
  std::string_view code;
  std::string_view text;
};
constexpr std::array<Escape, 9> kEscapes{{{"SP", "@"},
                                          {"BP", "*"},
                                          {"RF", "&"},
                                          {"LT", "<"},
                                          {"GT", ">"},
                                          {"LP", "("},
                                          {"RP", ")"},
                                          {"C", ","},
                                          {"u20", " "}}};

/// A part of a path: ".." is "::", and what no file's symbol may contain is between dollars.
void add_part(std::string& text, std::string_view part) {
  if (part.substr(0, 2) == "_$") part.remove_prefix(1);
  while (!part.empty()) {
    if (part.substr(0, 2) == "..") {
      text += "::";
      part.remove_prefix(2);
      continue;
    }
    const size_t end = part[0] == '$' ? part.find('$', 1) : std::string_view::npos;
    if (end == std::string_view::npos) {
      text += part[0];
      part.remove_prefix(1);
      continue;
    }
    const std::string_view code = part.substr(1, end - 1);
    const auto known =
        std::find_if(kEscapes.begin(), kEscapes.end(), [&](const Escape& each) { return each.code == code; });
    if (known != kEscapes.end()) {
      text += known->text;
    } else if (code.size() == 3 && code[0] == 'u' && is_hex(code[1]) && is_hex(code[2])) {
      text += static_cast<char>(std::stoi(std::string(code.substr(1)), nullptr, 16));
    } else {
      text += part.substr(0, end + 1);
    }
    part.remove_prefix(end + 1);
  }
}

bool is_hash(std::string_view part) noexcept {
  return part.size() == 17 && part[0] == 'h' && std::all_of(part.begin() + 1, part.end(), is_hex);
}

std::string legacy_name(std::string_view rest) {
  std::string text;
  while (!rest.empty() && is_digit(rest[0])) {
    size_t length = 0;
    for (; !rest.empty() && is_digit(rest[0]) && length < rest.size(); rest.remove_prefix(1))
      length = 10 * length + static_cast<size_t>(rest[0] - '0');
    if (length == 0 || length > rest.size()) return {};
    const std::string_view part = rest.substr(0, length);
    rest.remove_prefix(length);
    if (rest.substr(0, 1) == "E") return is_hash(part) ? text : std::string();
    if (!text.empty()) text += "::";
    add_part(text, part);
  }
  return {};
}

// ---- "_R"

/// Empty: the letter stands for none.
std::string_view basic_type(char letter) noexcept {
  constexpr std::array<std::string_view, 26> kNames{
      "i8",   "bool", "char", "f64", "str", "f32", "",    "u8", "isize", "usize", "",    "i32", "u32",
      "i128", "u128", "_",    "",    "",    "i16", "u16", "()", "...",   "",      "i64", "u64", "!"};
  return letter >= 'a' && letter <= 'z' ? kNames[static_cast<size_t>(letter - 'a')] : std::string_view();
}

class Reader {
 public:
  explicit Reader(std::string_view symbol) : symbol_(symbol) {}

  std::string read() {
    read_path(true);
    return is_good_ ? text_ : std::string();
  }

 private:
  static constexpr int kDeepest = 100;
  static constexpr int kMostSteps = 10000;

  struct Identifier {
    uint64_t number;  // among those of the same name
    std::string_view name;
  };

  // ---- letters

  char peek() const noexcept { return at_ < symbol_.size() ? symbol_[at_] : '\0'; }
  bool take(char c) noexcept {
    if (peek() != c || c == '\0') return false;
    ++at_;
    return true;
  }
  char next() noexcept {
    const char c = peek();
    if (c == '\0') is_good_ = false;
    ++at_;
    return c;
  }

  void add(std::string_view more) {
    if (is_silent_) return;
    text_ += more;
    if (text_.size() > kMostText) is_good_ = false;
  }

  // ---- numbers and names

  uint64_t read_decimal() noexcept {
    uint64_t value = 0;
    if (take('0')) return 0;
    if (!is_digit(peek())) is_good_ = false;
    while (is_digit(peek()) && value <= symbol_.size())
      value = 10 * value + static_cast<uint64_t>(next() - '0');
    return value;
  }

  uint64_t read_base62() noexcept {
    if (take('_')) return 0;
    uint64_t value = 0;
    while (is_good_ && !take('_')) {
      const char c = next();
      const int digit = is_digit(c)            ? c - '0'
                        : c >= 'a' && c <= 'z' ? c - 'a' + 10
                        : c >= 'A' && c <= 'Z' ? c - 'A' + 36
                                               : -1;
      if (digit < 0) is_good_ = false;
      value = 62 * value + static_cast<uint64_t>(digit);
    }
    return value + 1;
  }

  /// 0 if the letter is not there.
  uint64_t read_number_after(char letter) noexcept { return take(letter) ? read_base62() + 1 : 0; }

  std::string_view read_bare_name() noexcept {
    take('u');  // then it is in Punycode, and stays so
    const uint64_t length = read_decimal();
    take('_');
    if (!is_good_ || length > symbol_.size() - std::min(at_, symbol_.size())) {
      is_good_ = false;
      return {};
    }
    const std::string_view name = symbol_.substr(at_, length);
    at_ += length;
    return name;
  }

  Identifier read_identifier() noexcept {
    const uint64_t number = read_number_after('s');
    return {number, read_bare_name()};
  }

  // ---- what may contain itself

  /// Runs `read` unless the name is too deep, too long, or wrong already.
  template <typename Read>
  void descend(Read read) {
    if (!is_good_ || ++depth_ > kDeepest || ++steps_ > kMostSteps) {
      is_good_ = false;
      return;
    }
    read();
    --depth_;
  }

  /// What was read before is read again.
  template <typename Read>
  void go_back(Read read) {
    const size_t here = at_;
    const uint64_t place = read_base62();
    const size_t behind = at_;
    if (place >= here) is_good_ = false;
    if (is_silent_ || !is_good_) return;
    at_ = place;
    descend(read);
    at_ = behind;
  }

  template <typename Read>
  void read_silently(Read read) {
    const bool was_silent = is_silent_;
    is_silent_ = true;
    read();
    is_silent_ = was_silent;
  }

  /// Until an E. Returns how many there were.
  template <typename Read>
  size_t read_list(std::string_view between, Read read) {
    size_t count = 0;
    for (; is_good_ && !take('E'); ++count) {
      if (count != 0) add(between);
      read();
    }
    return count;
  }

  /// In an expression, arguments stand behind "::".
  void read_path(bool is_expression) {
    descend([&] {
      switch (const char kind = next()) {
        case 'C': return add(read_identifier().name);
        case 'N': return read_nested(is_expression);
        case 'M':
        case 'X': read_silently([&] { read_place_of_impl(); }); [[fallthrough]];
        case 'Y': return read_impl(kind != 'M');
        case 'I':
          read_path(is_expression);
          add(is_expression ? "::<" : "<");
          read_list(", ", [&] { read_argument(); });
          return add(">");
        case 'B': return go_back([&] { read_path(is_expression); });
        default: is_good_ = false;
      }
    });
  }

  void read_place_of_impl() {
    read_number_after('s');
    read_path(false);
  }

  void read_impl(bool has_trait) {
    add("<");
    read_type();
    if (has_trait) {
      add(" as ");
      read_path(false);
    }
    add(">");
  }

  void read_nested(bool is_expression) {
    const char space = next();
    read_path(is_expression);
    const Identifier inner = read_identifier();
    if (space >= 'a' && space <= 'z') {
      if (inner.name.empty()) return;
      add("::");
      return add(inner.name);
    }
    add(space == 'C' ? "::{closure" : space == 'S' ? "::{shim" : "::{");
    if (!inner.name.empty()) {
      add(":");
      add(inner.name);
    }
    add("#" + std::to_string(inner.number) + "}");
  }

  void read_argument() {
    if (take('L')) {
      read_base62();
      add("'_");
    } else if (take('K')) {
      read_constant();
    } else {
      read_type();
    }
  }

  // ---- types

  void read_type() {
    descend([&] {
      const char kind = peek();
      if (const std::string_view name = basic_type(kind); !name.empty()) {
        ++at_;
        return add(name);
      }
      if (std::string_view("CNMXYI").find(kind) != std::string_view::npos && kind != '\0')
        return read_path(false);
      ++at_;
      switch (kind) {
        case 'B': return go_back([&] { read_type(); });
        case 'R': return read_behind("&");
        case 'Q': return read_behind("&mut ");
        case 'P': return read_behind("*const ");
        case 'O': return read_behind("*mut ");
        case 'A':
        case 'S': return read_array(kind == 'A');
        case 'T': return read_tuple();
        case 'F': return read_function();
        case 'D': return read_object();
        default: is_good_ = false;
      }
    });
  }

  void read_behind(std::string_view sign) {
    if (take('L')) read_base62();
    add(sign);
    read_type();
  }

  void read_array(bool has_length) {
    add("[");
    read_type();
    if (has_length) {
      add("; ");
      read_constant();
    }
    add("]");
  }

  void read_tuple() {
    add("(");
    const size_t count = read_list(", ", [&] { read_type(); });
    add(count == 1 ? ",)" : ")");
  }

  void read_function() {
    read_number_after('G');
    if (take('U')) add("unsafe ");
    if (take('K')) {
      add("extern \"");
      add(take('C') ? "C" : read_bare_name());
      add("\" ");
    }
    add("fn(");
    read_list(", ", [&] { read_type(); });
    add(")");
    if (take('u')) return;
    add(" -> ");
    read_type();
  }

  void read_object() {
    add("dyn ");
    read_number_after('G');
    read_list(" + ", [&] {
      read_path(false);
      while (take('p')) read_binding();
    });
    if (!take('L')) is_good_ = false;
    read_base62();
  }

  /// What a trait's type is, as the last of the trait's arguments.
  void read_binding() {
    if (!is_silent_ && !text_.empty() && text_.back() == '>') {
      text_.pop_back();
      add(", ");
    } else {
      add("<");
    }
    add(read_bare_name());
    add(" = ");
    read_type();
    add(">");
  }

  /// Only numbers, truth values and characters, and of those the digits.
  void read_constant() {
    descend([&] {
      if (take('B')) return go_back([&] { read_constant(); });
      if (take('p')) return add("_");
      const char type = next();
      if (basic_type(type).empty()) is_good_ = false;
      if (take('n')) add("-");
      uint64_t value = 0;
      size_t digits = 0;
      for (; is_hex(peek()); ++digits) {
        const char c = next();
        value = value << 4 | static_cast<uint64_t>(is_digit(c) ? c - '0' : c - 'a' + 10);
      }
      if (!take('_')) is_good_ = false;
      if (type == 'b') return add(value != 0 ? "true" : "false");
      add(digits <= 16 ? std::to_string(value) : "...");
    });
  }

  std::string_view symbol_;
  size_t at_ = 0;
  std::string text_;
  bool is_good_ = true;
  bool is_silent_ = false;
  int depth_ = 0;
  int steps_ = 0;
};

}  // namespace

std::string rust_name(std::string_view symbol) {
  if (symbol.substr(0, 3) == "_ZN") return legacy_name(symbol.substr(3));
  if (symbol.substr(0, 2) == "_R") return Reader(symbol.substr(2)).read();
  return {};
}

}  // namespace gpupool::internal
