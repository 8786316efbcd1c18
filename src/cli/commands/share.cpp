// SPDX-License-Identifier: Apache-2.0
// gpupool share: groups of processes that share a device's memory, seen, set and tried out.
#include <fmt/format.h>

#include <CLI/CLI.hpp>

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
#include "cli/commands/commands.hpp"
#include "cli/commands/options.hpp"
#include "cli/share/groups.hpp"
#include "cli/share/options.hpp"

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

/// What dead members are charged. Anything may have been written there.
uint64_t charged_to_dead(const ShareInfo& info) {
  uint64_t bytes = 0;
  for (const gpupool_share_member_t& each : info.members) {
    if (each.state == GPUPOOL_SHARE_MEMBER_STATE_LIMBO) bytes += each.charged_bytes;
  }
  return bytes;
}

std::string describe_repair(uint64_t dead, uint64_t left, uint64_t most, int64_t off) {
  if (dead > most) {
    return fmt::format(
        "dead members were charged more than {}, which cannot be: it is cleared, {} still in limbo; what now "
        "counts as used",
        format_bytes(most), format_bytes(left));
  }
  const std::string correction =
      off == 0
          ? "what counts as used was right"
          : fmt::format("what counted as used was {} too {}, and is corrected",
                        format_bytes(static_cast<uint64_t>(off < 0 ? -off : off)), off < 0 ? "low" : "high");
  return fmt::format("{} taken back from dead members, {} still in limbo; {}",
                     format_bytes(dead - std::min(dead, left)), format_bytes(left), correction);
}

int repair_group(const ShareOptions& options) {
  const Chosen chosen = choose(options);
  const auto look = [&] { return share_info(chosen.group); };
  const ShareInfo before = ask_library("--repair", look);
  const int64_t off = ask_library("--repair", [&] { return share_repair(chosen.group); });
  const ShareInfo after = look();
  const uint64_t dead = charged_to_dead(before);
  // The limit may be above what the device has, and a guarantee up to that.
  const uint64_t most = std::max(chosen.device.total_bytes, before.share.limit_bytes);
  const uint64_t left = std::min(charged_to_dead(after), after.share.limbo_bytes);
  if (options.json) {
    print_json({{"group", *chosen.group.name},
                {"device", device_label(chosen.device)},
                {"taken_back_bytes", std::min(dead, most) - std::min({dead, most, left})},
                {"limbo_bytes", left},
                {"off_bytes", off},
                {"used_bytes", after.share.used_bytes}});
    return 0;
  }
  fmt::print("{} on {}: {}: {}\n", *chosen.group.name, device_label(chosen.device),
             describe_repair(dead, left, most, off), format_bytes(after.share.used_bytes));
  return 0;
}

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

constexpr const char* kShareAbout =
    "Show, set and try out the groups that share a device\n\n"
    "Shows the groups of processes that share a device's memory, sets what\n"
    "they may have, and tries out whether sharing works on this machine. Run\n"
    "it as the user of the group, with its GPUPOOL_SHARE_DIR if it has one.\n"
    "With --serve, it is the broker of groups whose members are of several users.\n";

constexpr const char* kShareExamples =
    "Figures, of the group, or with --member of one of its members:\n"
    "  limit         what all members may have together: bytes, 60GiB, or 75% of the device\n"
    "  member-limit  what the member may have; 0: no limit but the group's\n"
    "  guarantee     what is the member's own, whether used or not\n"
    "  priority      -8 to 8; members with less are asked first, and wait longer\n"
    "\n"
    "Except charged, all that is listed is what members say of themselves; live is as of the last request.\n"
    "\n"
    "The self-test starts processes in a group of its own, in the same folder and on the same device, and\n"
    "ends them. On a GPU it takes a GiB, or half of what is free, besides a context for each process.\n"
    "\n"
    "Examples:\n"
    "  gpupool share\n"
    "  gpupool share --group team --json | jq '.members[].reserved_bytes'\n"
    "  gpupool share --group team --set limit=75%\n"
    "  gpupool share --group team --set guarantee=8GiB --set priority=2 --member 3\n"
    "  gpupool share --group team --repair\n"
    "  gpupool share --selftest --device sim\n"
    "  gpupool share --serve /run/gpupool/team.sock --group team --limit 90% --allow-uid alice,bob\n"
    "  GPUPOOL_SHARE=team gpupool share --socket /run/gpupool/team.sock\n"
    "\n"
    "Exit status: 0 all went well; 1 a check of the self-test failed, or the library; 2 bad input.";

}  // namespace

Command add_share(CLI::App& app) {
  auto [command, options, made] =
      new_command<ShareOptions>(app, "share", kShareAbout, kShareExamples, run_share);
  command.add_flag("--list", options.list, "List groups and their members; the default");
  command.add_option("--group", options.group, "The group")->option_text("NAME [GPUPOOL_SHARE, or all]");
  command.add_option("--device", options.device, "The device: auto, cuda:N, sim:N, ...")
      ->option_text("NAME [to list, all]");
  command.add_option("--set", options.figures, "Set a figure, as below; may come several times")
      ->allow_extra_args(false)
      ->option_text("FIGURE=VALUE");
  command.add_option("--member", options.member, "Of which member: its slot, as listed")->option_text("N");
  command.add_flag("--repair", options.repair,
                   "Take back what dead members have left, and correct what counts as used");
  command.add_option("--socket", options.socket, "The broker that has the group")
      ->option_text("PATH [GPUPOOL_SHARE_SOCKET, or none]");
  command.add_option("--serve", options.serve, "Be a broker, at this socket, until SIGTERM")
      ->option_text("PATH");
  command.add_option("--limit", options.limit, "What members of the broker's groups may have: 60GiB, 75%")
      ->option_text("BYTES [as the first member says]");
  command
      .add_option("--allow-uid", options.allowed_users,
                  "Users whom the broker serves, beside its own and root")
      ->delimiter(',')
      ->option_text("USER,...");
  command.add_option("--allow-gid", options.allowed_groups, "Groups of users whom it serves")
      ->delimiter(',')
      ->option_text("GROUP,...");
  command.add_flag("--selftest", options.selftest, "Try sharing out with processes of its own");
  command.add_option("--selftest-member", options.guaranteed)->group("");
  json_flag(command, options.json);
  return made;
}

}  // namespace gpupool::cli
