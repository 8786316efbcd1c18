// SPDX-License-Identifier: Apache-2.0
#include "cli/formats/unpickle.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <deque>
#include <utility>

#include "cli/base/output.hpp"
#include "cli/base/utf8.hpp"

namespace gpupool::cli {

/// The machine that a pickle is a program for, with the instructions for plain data. Their letters are those
/// of Python's pickletools.
class Unpickler {
  using Kind = PickledValue::Kind;

 public:
  explicit Unpickler(Pickled& made) : made_(made), bytes_(made.bytes_) {}

  void run() {
    if (bytes_.starts_with("PK")) throw refuse("this is an archive, as torch.save writes it, and no pickle");
    Progress progress;
    progress.begin("reading the pickle", bytes_.size());
    for (;; progress.set(at_)) {
      begun_ = at_;
      const char code = take(1).front();
      if (code == '.') break;
      if (!step_number(code) && !step_text(code) && !step_container(code) && !step_memo(code))
        throw refuse(fmt::format("instruction 0x{:02x} is not for plain data: nothing of it was run",
                                 static_cast<uint8_t>(code)));
    }
    if (at_ != bytes_.size()) throw refuse("something follows the end of the pickle");
    if (stack_.size() != 1 || !marks_.empty())
      throw refuse("the pickle ends with more or less than one value");
    made_.root_ = stack_.back();
  }

 private:
  InputError refuse(std::string_view why) const {
    return InputError(fmt::format("{}: at byte {}: {}", made_.label_, begun_, why));
  }

  // ---- what follows an instruction

  std::string_view take(uint64_t count) {
    const size_t rest = bytes_.size() - at_;
    if (count > rest) {
      begun_ = at_;
      throw refuse(rest == 0 ? "the pickle ends too early"
                             : fmt::format("{} bytes are wanted, and the file has {} more", count, rest));
    }
    const std::string_view found = bytes_.substr(at_, count);
    at_ += count;
    return found;
  }

  uint64_t little_endian(size_t count) {
    uint64_t number = 0;
    const std::string_view found = take(count);
    for (size_t i = 0; i < count; ++i) number |= uint64_t{static_cast<uint8_t>(found[i])} << (8 * i);
    return number;
  }

  std::string_view line() {
    const size_t end = bytes_.find('\n', at_);
    if (end == std::string_view::npos) throw refuse("the line does not end");
    const std::string_view found = bytes_.substr(at_, end - at_);
    at_ = end + 1;
    return found;
  }

  uint64_t decimal(std::string_view text) const {
    const bool is_negative = text.starts_with('-');
    if (is_negative) text.remove_prefix(1);
    if (text.ends_with('L')) text.remove_suffix(1);
    uint64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || end != text.data() + text.size())
      throw refuse("this is no whole number of 64 bits");
    return is_negative ? ~number + 1 : number;
  }

  // ---- values

  void push(PickledValue value) { stack_.push_back(value); }
  void push_number(uint64_t number) { push({Kind::number, number}); }

  void push_text(std::string_view text) {
    push({Kind::text, made_.texts_.size()});
    made_.texts_.push_back(text);
  }

  void push_list(std::vector<PickledValue> elements) {
    push({Kind::list, made_.containers_.size()});
    made_.containers_.push_back({begun_, std::move(elements)});
  }

  void push_dictionary(std::vector<PickledValue> items) {
    check_pairs(items.size());
    push({Kind::dictionary, made_.containers_.size()});
    made_.containers_.push_back({begun_, std::move(items)});
  }

  void check_pairs(size_t count) const {
    if (count % 2 != 0) throw refuse("a dictionary's last key has no value");
  }

  /// How many values lie above the last mark; without one, how many there are.
  size_t above_mark() const { return stack_.size() - (marks_.empty() ? 0 : marks_.back()); }

  const PickledValue& top() const {
    if (above_mark() == 0) throw refuse("a value is wanted, and there is none");
    return stack_.back();
  }

  std::vector<PickledValue> pop(size_t count) {
    if (above_mark() < count) throw refuse("values are wanted, and there are none");
    const auto begin = stack_.end() - static_cast<ptrdiff_t>(count);
    std::vector<PickledValue> found(begin, stack_.end());
    stack_.erase(begin, stack_.end());
    return found;
  }

  std::vector<PickledValue> pop_to_mark() {
    if (marks_.empty()) throw refuse("a mark is wanted, and there is none");
    std::vector<PickledValue> found = pop(above_mark());
    marks_.pop_back();
    return found;
  }

  void append(const std::vector<PickledValue>& more) {
    if (top().kind != Kind::list) throw refuse("elements are no list's");
    add(more);
  }
  void set_items(const std::vector<PickledValue>& more) {
    if (top().kind != Kind::dictionary) throw refuse("keys and values are no dictionary's");
    check_pairs(more.size());
    add(more);
  }
  void add(const std::vector<PickledValue>& more) {
    std::vector<PickledValue>& values = made_.containers_[top().bits].values;
    values.insert(values.end(), more.begin(), more.end());
  }

  // ---- the memo

  /// Python numbers the memo's values in turn, so a file has no more of them than bytes.
  void remember(uint64_t number) {
    if (number >= bytes_.size()) throw refuse(fmt::format("the memo has no value {}", number));
    if (number >= memo_.size()) memo_.resize(number + 1);
    memo_[number] = top();
  }
  void recall(uint64_t number) {
    if (number >= memo_.size() || !memo_[number])
      throw refuse(fmt::format("the memo has no value {}", number));
    push(*memo_[number]);
  }

  // ---- instructions

  bool step_number(char code) {
    switch (code) {
      case '\x88': push_number(1); return true;
      case '\x89': push_number(0); return true;
      case 'K': push_number(little_endian(1)); return true;
      case 'M': push_number(little_endian(2)); return true;
      case 'J': push_number(sign_extended(little_endian(4), 4)); return true;
      case 'I':
      case 'L': push_number(decimal(line())); return true;
      case '\x8a': push_long(little_endian(1)); return true;
      case '\x8b': push_long(little_endian(4)); return true;
      case 'N': push({}); return true;
      case 'G':
        take(8);
        push({});
        return true;
      case 'F':
        line();
        push({});
        return true;
      default: return false;
    }
  }

  static uint64_t sign_extended(uint64_t number, uint64_t bytes) {
    if (bytes == 0 || bytes >= 8 || number >> (8 * bytes - 1) == 0) return number;
    return number | ~uint64_t{0} << (8 * bytes);
  }

  void push_long(uint64_t bytes) {
    // A number of 64 bits has one more byte, for its sign.
    if (bytes > 9) throw refuse(fmt::format("a whole number of {} bytes is too large", bytes));
    const uint64_t number = little_endian(std::min<uint64_t>(bytes, 8));
    if (bytes == 9 && take(1).front() != '\0') throw refuse("a whole number has more than 64 bits");
    push_number(sign_extended(number, bytes));
  }

  bool step_text(char code) {
    switch (code) {
      case 'V': push_text(made_.made_texts_.emplace_back(unescaped(line()))); return true;
      case '\x8c':
      case 'C': push_text(take(little_endian(1))); return true;
      case 'X':
      case 'B': push_text(take(little_endian(4))); return true;
      case '\x8d':
      case '\x8e':
      case '\x96': push_text(take(little_endian(8))); return true;
      default: return false;
    }
  }

  /// As in protocol 0: letters of Latin-1, and \uXXXX and \UXXXXXXXX.
  std::string unescaped(std::string_view text) const {
    std::string made;
    for (size_t i = 0; i < text.size(); ++i) {
      const bool is_escape = text[i] == '\\' && i + 1 < text.size() && (text[i + 1] | 0x20) == 'u';
      if (!is_escape) {
        append_utf8(made, static_cast<uint8_t>(text[i]));
        continue;
      }
      const size_t digits = text[i + 1] == 'u' ? 4 : 8;
      const std::string_view number = text.substr(i + 2, digits);
      uint32_t point = 0;
      const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), point, 16);
      if (number.size() != digits || error != std::errc() || end != number.data() + digits ||
          point > 0x10ffff)
        throw refuse("an escaped character is none");
      append_utf8(made, point);
      i += 1 + digits;
    }
    return made;
  }

  bool step_container(char code) {
    switch (code) {
      case '(': marks_.push_back(stack_.size()); return true;
      case ']':
      case ')': push_list({}); return true;
      case '}': push_dictionary({}); return true;
      case 'l':
      case 't': push_list(pop_to_mark()); return true;
      case 'd': push_dictionary(pop_to_mark()); return true;
      case '\x85':
      case '\x86':
      case '\x87': push_list(pop(static_cast<size_t>(code - '\x84'))); return true;
      case 'a': append(pop(1)); return true;
      case 'e': append(pop_to_mark()); return true;
      case 's': set_items(pop(2)); return true;
      case 'u': set_items(pop_to_mark()); return true;
      default: return false;
    }
  }

  bool step_memo(char code) {
    switch (code) {
      case '\x80': check_protocol(little_endian(1)); return true;
      case '\x95': take(8); return true;  // a frame's length, which only helps who reads from a pipe
      case '\x94': remember(memo_.size()); return true;
      case 'q': remember(little_endian(1)); return true;
      case 'r': remember(little_endian(4)); return true;
      case 'p': remember(decimal(line())); return true;
      case 'h': recall(little_endian(1)); return true;
      case 'j': recall(little_endian(4)); return true;
      case 'g': recall(decimal(line())); return true;
      default: return false;
    }
  }

  void check_protocol(uint64_t protocol) const {
    if (protocol > 5)
      throw refuse(fmt::format("the pickle is of protocol {}, and this command reads 0 to 5", protocol));
  }

  Pickled& made_;
  std::string_view bytes_;
  size_t at_ = 0;
  size_t begun_ = 0;  // where the instruction begins
  std::deque<PickledValue> stack_;
  std::vector<size_t> marks_;  // how many values were below each
  std::vector<std::optional<PickledValue>> memo_;
};

Pickled::Pickled(std::string label, std::string bytes) : label_(std::move(label)), bytes_(std::move(bytes)) {
  Unpickler(*this).run();
}

const PickledValue* Pickled::find(const PickledValue& dictionary, std::string_view key) const {
  if (dictionary.kind != PickledValue::Kind::dictionary) return nullptr;
  // Those of a snapshot have some ten keys. One may be named, and asked, as often as the file has bytes.
  constexpr size_t kMostKeys = 100;
  const std::vector<PickledValue>& items = containers_[dictionary.bits].values;
  if (items.size() > 2 * kMostKeys)
    throw refuse(dictionary, fmt::format("a dictionary of {} keys is none of a snapshot", items.size() / 2));
  // From the end: a key that comes again replaces its value.
  for (size_t i = items.size(); i >= 2; i -= 2) {
    if (items[i - 2].kind == PickledValue::Kind::text && texts_[items[i - 2].bits] == key)
      return &items[i - 1];
  }
  return nullptr;
}

std::optional<uint64_t> Pickled::number(const PickledValue& dictionary, std::string_view key) const {
  const PickledValue* found = find(dictionary, key);
  if (found == nullptr || found->kind != PickledValue::Kind::number) return std::nullopt;
  return found->bits;
}

std::string_view Pickled::text(const PickledValue& dictionary, std::string_view key) const {
  const PickledValue* found = find(dictionary, key);
  return found != nullptr && found->kind == PickledValue::Kind::text ? texts_[found->bits] : "";
}

const PickledValue* Pickled::list(const PickledValue& dictionary, std::string_view key) const {
  const PickledValue* found = find(dictionary, key);
  return found != nullptr && found->kind == PickledValue::Kind::list ? found : nullptr;
}

const std::vector<PickledValue>& Pickled::elements(const PickledValue& list) const {
  static const std::vector<PickledValue> none;
  if (list.kind != PickledValue::Kind::list) return none;
  const std::vector<PickledValue>& values = containers_[list.bits].values;
  visited_ += values.size();
  if (visited_ > bytes_.size())
    throw refuse(list, "lists are named again and again: with this one, they are longer than the file");
  return values;
}

InputError Pickled::refuse(const PickledValue& value, std::string_view why) const {
  const uint64_t at = is_container(value) ? containers_[value.bits].at : 0;
  return InputError(fmt::format("{}: at byte {}: {}", label_, at, why));
}

}  // namespace gpupool::cli
