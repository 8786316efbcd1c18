// SPDX-License-Identifier: Apache-2.0
#include "cli/share/groups.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>

#include "cli/base/library.hpp"
#include "cli/base/output.hpp"
#include "cli/base/size.hpp"
#include "cli/base/utf8.hpp"

namespace gpupool::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Candidate {
  Backend backend;
  int32_t number;

  std::string label() const { return device_label(static_cast<int32_t>(backend), number); }
};

void add_devices_of(Backend backend, std::vector<Candidate>& all) {
  int32_t count = 0;
  (void)gpupool_device_count(static_cast<gpupool_backend_t>(backend), &count);  // 0 where it cannot be used
  for (int32_t number = 0; number < count; ++number) all.push_back({backend, number});
}

/// The devices of this process that a region may be of. A simulated device's name ends with its number.
std::vector<Candidate> candidates_for(std::string_view device) {
  std::vector<Candidate> all;
  if (device.starts_with("sim-")) {
    const std::string_view digits = device.substr(device.rfind('-') + 1);
    int32_t number = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (error == std::errc{} && end == digits.data() + digits.size()) all.push_back({Backend::sim, number});
    return all;
  }
  for (int32_t each = 1; gpupool_backend_name(each) != nullptr; ++each) {
    if (each != GPUPOOL_BACKEND_SIM) add_devices_of(static_cast<Backend>(each), all);
  }
  return all;
}

/// Reads a region through a device. The path shows whether it is the region's, as the library gives no UUIDs.
bool open_group(const Candidate& device, FoundGroup& found) {
  try {
    found.info = share_info({.name = found.name, .device = device.number, .backend = device.backend});
  } catch (const Error& error) {
    // The library's words begin with the path of the region that it looked for.
    if (std::string_view(error.what()).find(found.path) == std::string_view::npos) return false;
    found.why_closed = error.what();
    return true;
  }
  if (found.path.substr(0, sizeof found.info.share.path - 1) != found.info.share.path) return false;
  found.device = device.label();
  return true;
}

FoundGroup look_at(const std::filesystem::path& file) {
  const std::string name = file.filename().string();
  const size_t dot = name.rfind('.');
  FoundGroup found{name.substr(0, dot), name.substr(dot + 1), file.string(), "", {}};
  const std::vector<Candidate> devices = candidates_for(found.device);
  const bool is_ours = std::any_of(devices.begin(), devices.end(),
                                   [&](const Candidate& device) { return open_group(device, found); });
  if (!is_ours) found.why_closed = "its device is none that this process sees";
  return found;
}

std::string brokers_socket() {
  const char* const socket = std::getenv("GPUPOOL_SHARE_SOCKET");
  return socket == nullptr ? "" : socket;
}

/// The group on each device of this process, or the one that is wanted, as far as the broker has it.
std::vector<FoundGroup> ask_broker_for(const std::string& group,
                                       const std::optional<gpupool_device_info_t>& wanted) {
  if (group.empty()) throw InputError("which group? Name it with --group, or in GPUPOOL_SHARE");
  std::vector<Candidate> devices;
  if (wanted) {
    devices.push_back({static_cast<Backend>(wanted->backend), wanted->device});
  } else {
    add_devices_of(static_cast<Backend>(find_device("auto").backend), devices);
  }
  std::vector<FoundGroup> all;
  std::string why;
  for (const Candidate& each : devices) {
    try {
      FoundGroup found{group, "", "", "", {}};
      found.info = share_info({.name = group, .device = each.number, .backend = each.backend});
      found.path = found.info.share.path;
      found.device = each.label();
      all.push_back(std::move(found));
    } catch (const Error& error) {
      why = error.what();
    }
  }
  if (all.empty()) throw InputError(why);
  return all;
}

const char* state_of(const gpupool_share_member_t& member) {
  return member.state == GPUPOOL_SHARE_MEMBER_STATE_LIMBO ? "limbo" : "live";
}

Json member_to_json(const gpupool_share_member_t& member) {
  return {
      {"slot", member.slot},
      {"pid", member.pid},
      {"uid", member.uid},
      {"name", valid_utf8(member.name)},
      {"state", state_of(member)},
      {"live_bytes", member.live_bytes},
      {"reserved_bytes", member.reserved_bytes},
      {"charged_bytes", member.charged_bytes},
      {"guaranteed_bytes", member.guaranteed_bytes},
      {"limit_bytes", member.limit_bytes},
      {"priority", member.priority},
      {"waits", member.is_waiting != 0},
      {"want_bytes", member.want_bytes},
      {"given_bytes", member.given_bytes},
      {"taken_bytes", member.taken_bytes},
  };
}

}  // namespace

std::string place_of_regions() {
  const std::string socket = brokers_socket();
  if (!socket.empty()) return socket;
  const char* const folder = std::getenv("GPUPOOL_SHARE_DIR");
  return folder != nullptr && *folder != '\0' ? folder : fmt::format("/dev/shm/gpupool-{}", geteuid());
}

std::vector<FoundGroup> find_groups(const std::string& group, const std::string& device) {
  const std::optional<gpupool_device_info_t> wanted =
      device.empty() ? std::nullopt : std::optional(find_device(device));
  if (!brokers_socket().empty()) return ask_broker_for(group, wanted);
  const std::filesystem::path folder = place_of_regions();
  std::vector<std::filesystem::path> files;
  std::error_code error;
  for (std::filesystem::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (name.front() != '.' && name.find('.') != std::string::npos) files.push_back(folder / name);
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    throw InputError(fmt::format("{}: {}", folder.string(), error.message()));
  }
  std::sort(files.begin(), files.end());
  const std::string label = wanted ? device_label(*wanted) : "";
  std::vector<FoundGroup> found;
  for (const std::filesystem::path& file : files) {
    if (!group.empty() && file.stem() != group) continue;
    FoundGroup each = look_at(file);
    if (label.empty() || each.device == label) found.push_back(std::move(each));
  }
  return found;
}

void print_group(const FoundGroup& group) {
  if (!group.why_closed.empty()) {
    fmt::print("{} on {}: {}\n", harmless(group.name), harmless(group.device), harmless(group.why_closed));
    return;
  }
  const gpupool_share_t& share = group.info.share;
  fmt::print("{} on {}: {} of {} used, {} in limbo, {} foreign; the device has {}\n", harmless(group.name),
             group.device, format_bytes(share.used_bytes), format_bytes(share.limit_bytes),
             format_bytes(share.limbo_bytes), format_bytes(share.foreign_bytes),
             format_bytes(share.total_bytes));
  if (group.info.members.empty()) {
    fmt::print("no members\n");
    return;
  }
  using Align = Table::Align;
  Table table({{"slot"},
               {"pid"},
               {"name", Align::left},
               {"state", Align::left},
               {"live"},
               {"reserved"},
               {"charged"},
               {"guaranteed"},
               {"limit"},
               {"priority"},
               {"waiting for"},
               {"given"},
               {"taken"}});
  for (const gpupool_share_member_t& each : group.info.members) {
    table.add({std::to_string(each.slot), std::to_string(each.pid), harmless(each.name), state_of(each),
               format_bytes(each.live_bytes), format_bytes(each.reserved_bytes),
               format_bytes(each.charged_bytes), format_bytes(each.guaranteed_bytes),
               each.limit_bytes == 0 ? "-" : format_bytes(each.limit_bytes), std::to_string(each.priority),
               each.is_waiting == 0 ? "-" : format_bytes(each.want_bytes), format_bytes(each.given_bytes),
               format_bytes(each.taken_bytes)});
  }
  table.print();
}

void print_group_as_json(const FoundGroup& group) {
  Json object = {{"group", valid_utf8(group.name)},
                 {"device", valid_utf8(group.device)},
                 {"path", valid_utf8(group.path)}};
  if (!group.why_closed.empty()) {
    object["error"] = valid_utf8(group.why_closed);
    print_json(object);
    return;
  }
  const gpupool_share_t& share = group.info.share;
  object["limit_bytes"] = share.limit_bytes;
  object["used_bytes"] = share.used_bytes;
  object["total_bytes"] = share.total_bytes;
  object["limbo_bytes"] = share.limbo_bytes;
  object["foreign_bytes"] = share.foreign_bytes;
  object["members"] = Json::array();
  for (const gpupool_share_member_t& each : group.info.members) {
    object["members"].push_back(member_to_json(each));
  }
  print_json(object);
}

}  // namespace gpupool::cli
