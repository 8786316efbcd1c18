// SPDX-License-Identifier: Apache-2.0
// Call sites and tags of a snapshot of PyTorch, as a recording numbers them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

#include "cli/formats/unpickle.hpp"
#include "cli/recording/recording.hpp"

namespace gpupool::cli {

class TorchStacks {
 public:
  /// Both must outlive it. Names go into the recording.
  TorchStacks(const Pickled& pickled, Recording& made) : pickled_(pickled), made_(made) {}

  struct Site {
    uint32_t stack = 0;
    uint16_t tag = 0;
  };
  /// The site of an event or a block: its frames, and as a tag what PyTorch calls its user_metadata or, in
  /// what gpupool export wrote, the outermost frame.
  Site site_of(const PickledValue& owner);

 private:
  Site read_frames(const PickledValue& frames);
  std::string name_of(const PickledValue& frame, std::string_view key) const;
  uint32_t number_of_stack(const PickledValue& frames, std::string text);
  uint16_t number_of_tag(std::string name);

  const Pickled& pickled_;
  Recording& made_;
  std::unordered_map<uint64_t, Site> sites_;  // by the list of frames
  std::unordered_map<std::string, uint32_t> stacks_;
  std::unordered_map<std::string, uint16_t> tags_;
  uint64_t text_bytes_ = 0;
};

}  // namespace gpupool::cli
