// SPDX-License-Identifier: Apache-2.0
// gpupool share: groups of processes that share a device's memory, seen, set and tried out.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>
#include <system_error>

#include "cli/base/library.hpp"
#include "cli/base/output.hpp"
#include "cli/base/size.hpp"
#include "cli/commands/machine_commands.hpp"
#include "cli/share/broker.hpp"
#include "cli/share/groups.hpp"
#include "cli/share/selftest.hpp"

namespace gpupool::cli {
namespace {

struct FigureName {
  std::string_view name;
  ShareFigure figure;
};
constexpr FigureName kFigures[] = {
    {"limit", ShareFigure::limit},
    {"member-limit", ShareFigure::member_limit},
    {"guarantee", ShareFigure::member_guarantee},
    {"priority", ShareFigure::member_priority},
};

struct NewFigure {
  ShareFigure figure;
  int64_t value;
  std::string text;
};

int64_t read_amount(const std::string& text, ShareFigure figure, uint64_t device_bytes) {
  if (figure == ShareFigure::member_priority) {
    int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error == std::errc{} && end == text.data() + text.size()) return value;
    throw InputError(fmt::format("--set: priority is '{}', not a number from -8 to 8", text));
  }
  if (text == "0") return 0;  // no size, but a valid figure
  Size size;
  try {
    size = parse_size(text);
  } catch (const Error&) {
    throw InputError(fmt::format(
        "--set: '{}' is neither bytes such as 60GiB nor a share of the device such as 40%", text));
  }
  if (size.share == 0) return static_cast<int64_t>(std::min<uint64_t>(size.bytes, INT64_MAX));
  return static_cast<int64_t>(size.share * static_cast<double>(device_bytes));
}

NewFigure read_change(const std::string& text, const ShareOptions& options, uint64_t device_bytes) {
  const size_t equal = text.find('=');
  if (equal == std::string::npos) throw InputError(fmt::format("--set: '{}' is no FIGURE=VALUE", text));
  const std::string name = text.substr(0, equal);
  for (const FigureName& each : kFigures) {
    if (each.name != name) continue;
    const bool is_groups = each.figure == ShareFigure::limit;
    if (is_groups && options.member) {
      throw InputError("--set: limit is the group's: leave --member out, or set member-limit");
    }
    if (!is_groups && !options.member) {
      throw InputError(fmt::format("--set: {} is a member's: say which with --member", name));
    }
    return {each.figure, read_amount(text.substr(equal + 1), each.figure, device_bytes), text};
  }
  throw InputError(
      fmt::format("--set: there is no figure '{}'; there are limit, member-limit, guarantee and "
                  "priority",
                  name));
}

/// The group on a device that a command is about.
struct Chosen {
  gpupool_device_info_t device;
  ShareGroup group;
};

Chosen choose(const ShareOptions& options) {
  const char* const usual = std::getenv("GPUPOOL_SHARE");
  if (options.group.empty() && (usual == nullptr || *usual == '\0')) {
    throw InputError("which group? Name it with --group, or in GPUPOOL_SHARE");
  }
  const gpupool_device_info_t device = find_device(options.device.empty() ? "auto" : options.device);
  const std::string name = options.group.empty() ? usual : options.group;
  return {device, {.name = name, .device = device.device, .backend = static_cast<Backend>(device.backend)}};
}

/// Turns errors that are the user's fault into bad input.
template <typename Work>
auto ask_library(const std::string& what, Work work) {
  try {
    return work();
  } catch (const Error& error) {
    if (!is_callers_fault(error.status()) && error.status() != GPUPOOL_ERROR_OVER_LIMIT) throw;
    throw InputError(fmt::format("{}: {}", what, error.what()));
  }
}

int list_groups(const ShareOptions& options) {
  const char* const usual = std::getenv("GPUPOOL_SHARE");
  const std::string name = !options.group.empty() || usual == nullptr ? options.group : usual;
  const std::vector<FoundGroup> groups = find_groups(name, options.device);
  if (groups.empty() && !options.group.empty()) {
    throw InputError(fmt::format("there is no group {} in {}", name, place_of_regions()));
  }
  for (const FoundGroup& each : groups) {
    if (!options.json && &each != groups.data()) fmt::print("\n");
    options.json ? print_group_as_json(each) : print_group(each);
  }
  if (groups.empty() && !options.json) {
    fmt::print("no group{}{} in {}\n", name.empty() ? "" : " ", name, place_of_regions());
  }
  return 0;
}

/// Reads all figures before it sets the first.
int set_figures(const ShareOptions& options) {
  const Chosen chosen = choose(options);
  std::vector<NewFigure> changes;
  changes.reserve(options.figures.size());
  for (const std::string& text : options.figures) {
    changes.push_back(read_change(text, options, chosen.device.total_bytes));
  }
  for (const NewFigure& each : changes) {
    ask_library("--set " + each.text,
                [&] { share_set(chosen.group, each.figure, each.value, options.member.value_or(0)); });
  }
  ShareOptions then = options;
  then.group = *chosen.group.name;
  then.device = device_label(chosen.device);
  return list_groups(then);
}

int repair_group(const ShareOptions& options) {
  const Chosen chosen = choose(options);
  const auto look = [&] { return share_info(chosen.group); };
  const ShareInfo before = ask_library("--repair", look);
  const int64_t off = ask_library("--repair", [&] { return share_repair(chosen.group); });
  const ShareInfo after = look();
  const auto dead_of = [](const ShareInfo& info) {
    uint64_t bytes = 0;
    for (const gpupool_share_member_t& each : info.members) {
      if (each.state == GPUPOOL_SHARE_MEMBER_STATE_LIMBO) bytes += each.charged_bytes;
    }
    return bytes;
  };
  const uint64_t dead = dead_of(before);
  const uint64_t left = dead_of(after);
  const uint64_t taken_back = dead > left ? dead - left : 0;
  if (options.json) {
    print_json({{"group", *chosen.group.name},
                {"device", device_label(chosen.device)},
                {"taken_back_bytes", taken_back},
                {"limbo_bytes", left},
                {"off_bytes", off},
                {"used_bytes", after.share.used_bytes}});
    return 0;
  }
  const std::string correction =
      off == 0
          ? "what counts as used was right"
          : fmt::format("what counted as used was {} too {}, and is corrected",
                        format_bytes(static_cast<uint64_t>(off < 0 ? -off : off)), off < 0 ? "low" : "high");
  fmt::print("{} on {}: {} taken back from dead members, {} still in limbo; {}: {}\n", *chosen.group.name,
             device_label(chosen.device), format_bytes(taken_back), format_bytes(left), correction,
             format_bytes(after.share.used_bytes));
  return 0;
}

}  // namespace

int run_share(const ShareOptions& options) {
  if (options.guaranteed) return be_test_member(options);
  const int orders = (options.list ? 1 : 0) + (options.figures.empty() ? 0 : 1) + (options.repair ? 1 : 0) +
                     (options.selftest ? 1 : 0) + (options.serve.empty() ? 0 : 1);
  if (orders > 1) throw InputError("give one of --list, --set, --repair, --selftest and --serve");
  const bool has_rules =
      !options.limit.empty() || !options.allowed_users.empty() || !options.allowed_groups.empty();
  if (options.serve.empty() && has_rules)
    throw InputError("--limit, --allow-uid and --allow-gid go with --serve");
  if (!options.serve.empty()) return run_share_broker(options);
  if (!options.socket.empty()) (void)setenv("GPUPOOL_SHARE_SOCKET", options.socket.c_str(), 1);
  if (options.member && options.figures.empty()) throw InputError("--member goes with --set");
  if (options.selftest) return run_share_selftest(options);
  if (options.repair) return repair_group(options);
  return options.figures.empty() ? list_groups(options) : set_figures(options);
}

}  // namespace gpupool::cli
