// SPDX-License-Identifier: Apache-2.0
// What a recording has, in words.
#include <fmt/format.h>

#include <filesystem>
#include <string>

#include "cli/base/output.hpp"
#include "cli/base/size.hpp"
#include "cli/base/utf8.hpp"
#include "cli/recording/recording.hpp"

namespace gpupool::cli {

/// By Linux's numbers, since only there the command waits for a program that it records.
std::string signal_name(uint32_t number) {
  switch (number) {
    case 1: return "SIGHUP";
    case 2: return "SIGINT";
    case 3: return "SIGQUIT";
    case 4: return "SIGILL";
    case 6: return "SIGABRT";
    case 7: return "SIGBUS";
    case 8: return "SIGFPE";
    case 9: return "SIGKILL";
    case 10: return "SIGUSR1";
    case 11: return "SIGSEGV";
    case 12: return "SIGUSR2";
    case 13: return "SIGPIPE";
    case 15: return "SIGTERM";
    default: return fmt::format("signal {}", number);
  }
}

std::string one_line(std::string_view text, size_t longest) {
  return harmless(text.substr(0, longest));
}

std::string Recording::tag(uint32_t number) const {
  if (number == 0) return "";
  const auto found = tags.find(number);
  return found != tags.end() ? one_line(found->second) : fmt::format("tag {}", number);
}

std::string Recording::site(uint32_t stack) const {
  const auto found = stacks.find(stack);
  if (stack == 0 || found == stacks.end()) return "(no stack)";
  return one_line(found->second.substr(0, found->second.find('\n')));
}

std::string Recording::how_it_ended() const {
  switch (end.how) {
    case ProcessEnd::How::exited:
      if (!is_ended)
        return fmt::format(
            "the process ended with status {}, but not by exit(): by _exit, or as another program",
            end.number);
      return end.number == 0 ? "" : fmt::format("the process ended with status {}", end.number);
    case ProcessEnd::How::signal: return "the process was killed by " + signal_name(end.number);
    case ProcessEnd::How::exec: return "the process became another program by exec";
    case ProcessEnd::How::still: return is_ended ? "" : "the process still ran";
    default:
      return is_ended ? ""
                      : "the process did not end by exit(), but by _exit, as another program or by a signal, "
                        "or it still runs";
  }
}

std::string Recording::what_is_missing() const {
  constexpr const char* kEffect = "what was freed in them seems live, and figures may be too low";
  if (lost == 0) return is_cut ? fmt::format("damaged parts were left out: {}", kEffect) : "";
  return fmt::format("{} {} lost, as the disk was full{}: {}", format_count(lost),
                     lost == 1 ? "event was" : "events were",
                     is_cut ? ", and damaged parts were left out" : "", kEffect);
}

bool report_packed(const std::string& file, const Damage& damage) {
  const Recording recording = read_recording(file);
  const std::string ending = recording.how_it_ended();
  say(fmt::format("{} events of process {} are in {} ({} bytes){}{}", recording.events.size(), recording.pid,
                  file, std::filesystem::file_size(file), ending.empty() ? "" : "; " + ending,
                  recording.lost != 0
                      ? fmt::format("; {} more events were lost, as the disk was full", recording.lost)
                      : ""));
  if (damage.parts != 0) {
    const std::string bytes = damage.bytes == 0 ? "" : fmt::format(", {} bytes", damage.bytes);
    say(damage.parts == 1 ? fmt::format("1 part is damaged and was cut{}: {}", bytes, damage.first)
                          : fmt::format("{} parts are damaged and were cut{}; first: {}", damage.parts, bytes,
                                        damage.first));
  }
  return !recording.events.empty() || recording.lost == 0;
}

}  // namespace gpupool::cli
