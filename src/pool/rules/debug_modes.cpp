// SPDX-License-Identifier: Apache-2.0
#include "pool/rules/debug_modes.hpp"

#include <atomic>
#include <cstdlib>
#include <iterator>
#include <string>
#include <string_view>

#include "base/parse.hpp"
#include "device/device.hpp"

namespace gpupool::internal {
namespace {

/// The modes that were set, without a lock that fork would have to know. If two threads set them at once,
/// each part is one thread's or the other's.
constinit std::atomic<uint64_t> chosen_fence_least{0};
constinit std::atomic<uint64_t> chosen_quarantine{0};
constinit std::atomic<uint32_t> chosen_switches{0};
constexpr uint32_t kIsChosen = 1U << 31;

struct Switch {
  std::string_view word;
  bool DebugModes::*mode;
};
constexpr Switch kSwitches[] = {{"poison", &DebugModes::poison},
                                {"canary", &DebugModes::canary},
                                {"fence", &DebugModes::fence},
                                {"guard", &DebugModes::guard},
                                {"annotate", &DebugModes::annotate}};

Status refuse(const char* name, std::string_view word) {
  return fail(
      GPUPOOL_ERROR_INVALID_ARGUMENT,
      "%s has the word \"%.64s\", not poison, canary, fence, fence=SIZE, guard, annotate or quarantine=SIZE",
      name, std::string(word).c_str());
}

/// Reads the part behind "fence=" or "quarantine=".
Status read_bytes(const char* name, std::string_view word, std::string_view text, uint64_t& bytes) {
  return parse_bytes(std::string(name) + ", \"" + std::string(word.substr(0, 64)) + "\"", text, bytes);
}

Status parse_word(const char* name, std::string_view word, DebugModes& modes) {
  for (const Switch& each : kSwitches) {
    if (word != each.word) continue;
    modes.*each.mode = true;
    return kSuccess;
  }
  const size_t at = word.find('=');
  const std::string_view key = word.substr(0, at);
  if (at == std::string_view::npos || (key != "fence" && key != "quarantine")) return refuse(name, word);
  if (key == "quarantine") return read_bytes(name, word, word.substr(at + 1), modes.quarantine);
  modes.fence = true;
  return read_bytes(name, word, word.substr(at + 1), modes.fence_least);
}

/// compute-sanitizer sees blocks in what the driver's malloc gave, and would report the pool's own fills and
/// looks too.
Status check_annotate(const DebugModes& modes, const DeviceInfo& info, bool vmm) {
  if (!info.annotates) {
    return fail(GPUPOOL_ERROR_UNSUPPORTED,
                "debug mode annotate needs a simulated device, or a GPU under compute-sanitizer");
  }
  if (!info.is_under_sanitizer) return kSuccess;
  if (vmm) {
    return fail(
        GPUPOOL_ERROR_UNSUPPORTED,
        "under compute-sanitizer, debug mode annotate needs mode 0 (auto) or 2 (driver), not 1 (vmm)");
  }
  if (modes.canary || modes.poison) {
    return fail(GPUPOOL_ERROR_UNSUPPORTED,
                "under compute-sanitizer, debug mode annotate goes with neither poison nor canary");
  }
  return kSuccess;
}

}  // namespace

Status parse_debug_modes(const char* name, const char* text, DebugModes& modes) {
  DebugModes found;
  for (std::string_view rest = text; !rest.empty();) {
    const size_t end = rest.find(',');
    const std::string_view word = rest.substr(0, end);
    if (const Status status = parse_word(name, word, found); status != kSuccess) return status;
    if (end == std::string_view::npos) break;
    rest.remove_prefix(end + 1);
    if (rest.empty()) return refuse(name, "");
  }
  modes = found;
  return kSuccess;
}

Status check_debug_modes(const DebugModes& modes, const DeviceInfo& info, bool vmm) {
  const Status status = modes.annotate ? check_annotate(modes, info, vmm) : kSuccess;
  if (status != kSuccess) return status;
  if ((modes.canary || modes.poison) && !info.keeps_data) {
    return fail(
        GPUPOOL_ERROR_UNSUPPORTED,
        "debug modes poison and canary need a device that keeps data, and this simulated one has none");
  }
  return kSuccess;
}

void set_debug_modes(const DebugModes& modes) noexcept {
  uint32_t switches = kIsChosen;
  for (size_t i = 0; i < std::size(kSwitches); ++i) switches |= modes.*kSwitches[i].mode ? 1U << i : 0;
  chosen_fence_least.store(modes.fence_least);
  chosen_quarantine.store(modes.quarantine);
  chosen_switches.store(switches);
}

void unset_debug_modes() noexcept {
  chosen_switches.store(0);
}

Status find_debug_modes(DebugModes& modes) {
  if (const uint32_t switches = chosen_switches.load(); switches != 0) {
    for (size_t i = 0; i < std::size(kSwitches); ++i) modes.*kSwitches[i].mode = (switches >> i & 1) != 0;
    modes.fence_least = chosen_fence_least.load();
    modes.quarantine = chosen_quarantine.load();
    return kSuccess;
  }
  const char* text = std::getenv("GPUPOOL_DEBUG");
  return text == nullptr ? kSuccess : parse_debug_modes("GPUPOOL_DEBUG", text, modes);
}

}  // namespace gpupool::internal
