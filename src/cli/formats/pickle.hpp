// SPDX-License-Identifier: Apache-2.0
// Writes Python's pickles with only the instructions that PyTorch's viewer knows: protocol 4 without frames,
// lists and dictionaries in batches, integers of at most 8 bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace gpupool::cli {

class Pickle {
 public:
  Pickle() : text_("\x80\x04", 2) {}

  void number(uint64_t value);
  void text(std::string_view value);
  void boolean(bool value) { text_ += value ? '\x88' : '\x89'; }

  void begin_list() { text_ += ']'; }
  /// Call it before the elements, of which there are 1 to kBatch, and end_batch() after them.
  void begin_batch() { text_ += '('; }
  void end_batch() { text_ += 'e'; }

  void begin_dictionary() { text_ += '}'; }
  /// Call it before the keys and values, which come in turn.
  void begin_items() { text_ += '('; }
  void end_items() { text_ += 'u'; }

  void empty_tuple() { text_ += ')'; }
  /// Makes a pair of the two values before it.
  void pair() { text_ += '\x86'; }

  /// Keeps what was written last; the number is for recall().
  size_t remember();
  void recall(size_t number);

  std::string finish() { return std::move(text_ += '.'); }

  /// The viewer passes a batch as the arguments of one call, and browsers allow some tens of thousands.
  static constexpr size_t kBatch = 1000;

 private:
  void little_endian(uint64_t value, size_t bytes);

  std::string text_;
  size_t remembered_ = 0;
};

}  // namespace gpupool::cli
