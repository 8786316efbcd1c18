// SPDX-License-Identifier: Apache-2.0
// Reads Python's pickles of plain data, of protocols 0 to 5: numbers, texts, lists, tuples and dictionaries.
// It runs nothing: a pickle that wants a class or a function is refused. Nothing recurses, and each
// instruction makes at most one value, so memory is bounded by the file's size.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/base/library.hpp"

namespace gpupool::cli {

/// A value of a pickle. Texts, lists and dictionaries are places in the Pickled that it is from.
struct PickledValue {
  enum class Kind : uint8_t { other, number, text, list, dictionary };

  Kind kind = Kind::other;  // None, or a number with a fraction
  uint64_t bits = 0;        // a number's two's complement, or the place
};

/// A pickle that was read. A list can be in many others, even in itself, so a walk through all of them could
/// last for ever, or much longer than the file is. `elements` ends that. Everything throws InputError "file:
/// at byte N: what is wrong".
class Pickled {
 public:
  /// `label` is what messages call the file.
  Pickled(std::string label, std::string bytes);
  Pickled(const Pickled&) = delete;
  Pickled& operator=(const Pickled&) = delete;

  const PickledValue& root() const noexcept { return root_; }
  const std::string& label() const noexcept { return label_; }
  size_t size() const noexcept { return bytes_.size(); }

  // The value of a key of a dictionary. These give nothing if there is no such key, if it has another kind of
  // value, or if `dictionary` is none.
  const PickledValue* find(const PickledValue& dictionary, std::string_view key) const;
  std::optional<uint64_t> number(const PickledValue& dictionary, std::string_view key) const;
  std::string_view text(const PickledValue& dictionary, std::string_view key) const;
  const PickledValue* list(const PickledValue& dictionary, std::string_view key) const;

  /// The elements of a list or tuple; none of anything else. All calls together give at most as many as the
  /// file has bytes: a file that names nothing twice cannot have more.
  const std::vector<PickledValue>& elements(const PickledValue& list) const;

  /// An error about a value, at the byte where it begins.
  InputError refuse(const PickledValue& value, std::string_view why) const;

 private:
  friend class Unpickler;

  struct Container {
    uint64_t at;                       // in the file
    std::vector<PickledValue> values;  // of a dictionary: keys and values in turn
  };

  static bool is_container(const PickledValue& value) noexcept {
    return value.kind == PickledValue::Kind::list || value.kind == PickledValue::Kind::dictionary;
  }

  std::string label_;
  std::string bytes_;
  PickledValue root_;
  std::vector<std::string_view> texts_;
  std::deque<std::string> made_texts_;  // texts that the file has in another form
  std::deque<Container> containers_;    // a file of brackets has millions, which a vector would move
  mutable uint64_t visited_ = 0;
};

}  // namespace gpupool::cli
