// SPDX-License-Identifier: Apache-2.0
// Recognises a stack that the thread took before, which costs a hundredth of unwinding it.
//
// A stack is remembered as the words in memory that lead the unwinder through it: the return addresses, each
// with its place. If they are still there it is the same stack, by induction from the innermost frame: as
// long as all frames so far are the same functions at the same places, the next word is where this frame has
// its return address. So it is also a word that may be read, even where another coroutine's stack was.
//
// Only a function that moves the stack pointer as it runs (alloca, an aligned variable, libffi) has its
// return address sometimes here, sometimes there, and words that earlier calls left may look like it. Such a
// function finds its way back by rbp, which then points into its frame, and which a callee saves in its own:
// these words are compared too.
//
// What is not seen: a function whose frame varies without rbp, which compilers do not make; and other code
// loaded where code was unloaded, with calls that end at the same addresses.
#include <sys/mman.h>
#include <unwind.h>

#include <array>
#include <atomic>

#include "os/stack.hpp"
#include "os/stack_posix.hpp"
#include "os/thread.hpp"

namespace gpupool::internal::os {

#if defined(__x86_64__)

namespace {

/// Words of other functions' frames: a sanitizer would say that they are not ours.
#define GPUPOOL_READS_FRAMES [[gnu::no_sanitize_address, gnu::no_sanitize_thread, gnu::noinline]]
using StackWord [[gnu::may_alias]] = const volatile uintptr_t;

constexpr int kFramePointer = 6;              // DWARF's number of rbp
constexpr uint32_t kNodes = 32768;            // 512 KiB for a thread, of which it touches what it uses
constexpr uint32_t kRoots = 1024;             // a power of two
constexpr uintptr_t kLargestFrame = 1 << 16;  // that is searched for a frame pointer

enum class Kind : uint8_t { base, code, pointer, end };

/// Stacks are paths in a tree. If the word is as the node says, the path goes on with the node behind it.
struct Node {
  uintptr_t value;     // of `base`, where the words are counted from; of `end`, the stack's mark
  uint32_t place;      // of the word: how many above the base
  uint16_t otherwise;  // where the path goes on if the word differs; 0: no stack like this is known
  uint8_t frame;       // of `code`, which; of `end`, how many there are
  Kind kind;
};

GPUPOOL_READS_FRAMES bool is_there(const Node& node, const uintptr_t* base) noexcept {
  if (node.kind == Kind::base) return node.value == reinterpret_cast<uintptr_t>(base);
  return reinterpret_cast<StackWord*>(base)[node.place] == node.value;
}

// ---- the words of a stack

struct Frame {
  uintptr_t code;     // where the callee returns to
  uintptr_t begin;    // its lowest address, behind the return address
  uintptr_t pointer;  // its rbp
};

struct Unwound {
  uintptr_t base;
  std::array<Frame, kFrames> frames;
  size_t count = 0;
};

_Unwind_Reason_Code on_frame(_Unwind_Context* context, void* to) noexcept {
  Unwound& unwound = *static_cast<Unwound*>(to);
  const uintptr_t code = _Unwind_GetIP(context);
  if (unwound.count == kFrames || code == 0) return _URC_END_OF_STACK;
  // The unwinder says where the callee's frame ends. The first frames are those that take the stack; after a
  // signal's, the others may be anywhere.
  const uintptr_t begin = _Unwind_GetCFA(context);
  if (unwound.count != 0 || begin > unwound.base)
    unwound.frames[unwound.count++] = {code, begin, _Unwind_GetGR(context, kFramePointer)};
  return _URC_NO_REASON;
}

class Path {
 public:
  /// False: such a stack is not remembered. It has a signal's frame, an unwinder with other conventions, or
  /// parts elsewhere.
  bool lead_through(const Unwound& unwound) noexcept {
    base_ = reinterpret_cast<const uintptr_t*>(unwound.base);
    nodes_[count_++] = {unwound.base, 0, 0, 0, Kind::base};
    uintptr_t end = unwound.base + sizeof(uintptr_t);
    for (size_t i = 0; i < unwound.count; ++i) {
      const Frame& frame = unwound.frames[i];
      if (frame.begin <= end || (i == 0 && frame.begin != end + sizeof(uintptr_t))) return false;
      end = frame.begin;
      if (!add(Kind::code, i, frame.begin - sizeof(uintptr_t), frame.code)) return false;
      const bool is_last = i + 1 == unwound.count;
      if (!is_last && frame.pointer >= frame.begin && frame.pointer < unwound.frames[i + 1].begin &&
          !add_pointer(unwound, i))
        return false;
    }
    nodes_[count_++] = {0, 0, 0, static_cast<uint8_t>(unwound.count), Kind::end};
    return true;
  }

  const Node* begin() const noexcept { return nodes_.data(); }
  const Node* end() const noexcept { return nodes_.data() + count_; }

 private:
  /// False: the word is not there, or there is no room.
  bool add(Kind kind, size_t frame, uintptr_t address, uintptr_t value) noexcept {
    const uintptr_t distance = address - reinterpret_cast<uintptr_t>(base_);
    if (distance % sizeof(uintptr_t) != 0 || distance >> 32 != 0 || count_ + 1 == nodes_.size()) return false;
    const Node node{value, static_cast<uint32_t>(distance / sizeof(uintptr_t)), 0,
                    static_cast<uint8_t>(frame), kind};
    if (!is_there(node, base_)) return false;
    nodes_[count_++] = node;
    return true;
  }

  /// The frame pointer is saved by the last of the callees behind which it was another. It may have the same
  /// value elsewhere in its frame: all of them are compared.
  bool add_pointer(const Unwound& unwound, size_t of) noexcept {
    const uintptr_t pointer = unwound.frames[of].pointer;
    while (of != 0 && unwound.frames[of - 1].pointer == pointer) --of;
    if (of == 0) return add(Kind::pointer, 0, unwound.base, pointer);
    const uintptr_t end = unwound.frames[of].begin;
    uintptr_t address = unwound.frames[of - 1].begin;
    if (end - address > kLargestFrame) return false;
    bool is_found = false;
    for (; address != end; address += sizeof(uintptr_t)) is_found |= add(Kind::pointer, 0, address, pointer);
    return is_found && count_ + 1 != nodes_.size();
  }

  const uintptr_t* base_ = nullptr;
  std::array<Node, 3 * kFrames> nodes_;
  size_t count_ = 0;
};

// ---- the stacks of a thread

/// Zeros are an empty one.
class Memo {
 public:
  /// Null: unknown. Frames are then undefined.
  GPUPOOL_READS_FRAMES uintptr_t* recall(const uintptr_t* base, Stack& stack) noexcept {
    uint32_t at = root_of(base);
    while (at != 0) {
      Node& node = nodes_[at];
      const Kind kind = node.kind;
      if (kind == Kind::end) {
        stack.count = node.frame;
        return &node.value;
      }
      const uintptr_t value = kind == Kind::base ? reinterpret_cast<uintptr_t>(base)
                                                 : reinterpret_cast<StackWord*>(base)[node.place];
      if (value != node.value) {
        at = node.otherwise;
        continue;
      }
      if (kind == Kind::code) stack.frames[node.frame] = reinterpret_cast<void*>(value);
      ++at;
    }
    return nullptr;
  }

  /// A stack that recall does not know. Returns its mark.
  uintptr_t* learn(const uintptr_t* base, const Path& path) noexcept {
    if (used_ + static_cast<size_t>(path.end() - path.begin()) >= kNodes) {
      roots_.fill(0);
      used_ = 0;
    }
    // The path shares the nodes that are the same. Of those it passes otherwise, with words that are there by
    // chance, it has its own again.
    const Node* rest = path.begin();
    bool is_common = true;
    uint16_t* link = &root_of(base);
    for (uint32_t at = *link; at != 0;) {
      Node& node = nodes_[at];
      if (node.kind == Kind::end) return nullptr;
      if (is_there(node, base)) {
        is_common = is_common && node.place == rest->place && node.kind == rest->kind;
        if (is_common) ++rest;
        ++at;
      } else {
        link = &node.otherwise;
        at = *link;
      }
    }
    *link = static_cast<uint16_t>(used_ + 1);
    while (rest != path.end()) nodes_[++used_] = *rest++;
    return &nodes_[used_].value;
  }

 private:
  uint16_t& root_of(const uintptr_t* base) noexcept {
    return roots_[reinterpret_cast<uintptr_t>(base) * 0x9e3779b97f4a7c15 >> 48 & (kRoots - 1)];
  }

  std::array<uint16_t, kRoots> roots_;
  uint32_t used_;  // the first is none
  std::array<Node, kNodes> nodes_;
};

constinit thread_local Memo* memo = nullptr;
constinit std::atomic<uint64_t> memo_key{kNoKey};

void release(void* data) noexcept {
  memo = nullptr;
  munmap(data, sizeof(Memo));
}

/// Null: there is no memory.
Memo* memo_of_thread() noexcept {
  if (memo != nullptr) return memo;
  void* const room =
      mmap(nullptr, sizeof(Memo), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED) return nullptr;
  memo = static_cast<Memo*>(room);
  at_thread_end(memo_key, release, memo, 0);
  return memo;
}

}  // namespace

void take_again(const uintptr_t* base, Stack& stack) noexcept {
  Memo* const known = memo_of_thread();
  if (known != nullptr) stack.mark = known->recall(base, stack);
  if (stack.mark != nullptr) return;
  Unwound unwound{reinterpret_cast<uintptr_t>(base), {}, 0};
  _Unwind_Backtrace(on_frame, &unwound);
  if (unwound.count == 0) return unwind(stack);  // it does not say where frames are
  stack.count = unwound.count;
  for (size_t i = 0; i < unwound.count; ++i)
    stack.frames[i] = reinterpret_cast<void*>(unwound.frames[i].code);
  Path path;
  if (known != nullptr && path.lead_through(unwound)) stack.mark = known->learn(base, path);
}

#else

void take_again(const uintptr_t*, Stack& stack) noexcept {
  unwind(stack);
}

#endif

}  // namespace gpupool::internal::os
