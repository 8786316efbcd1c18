// SPDX-License-Identifier: Apache-2.0
#include "cli/commands/machine_commands.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>

#include "cli/commands/option_checks.hpp"

namespace gpupool::cli {
namespace {

constexpr const char* kShareAbout =
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
    "ends them. On a GPU it takes what --size says, besides a context for each process.\n"
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

const CLI::App* add_share(CLI::App& app, ShareOptions& options) {
  CLI::App* const command = app.add_subcommand("share", kShareAbout)->footer(kShareExamples);
  command->add_flag("--list", options.list, "List groups and their members; the default");
  command->add_option("--group", options.group, "The group")->option_text("NAME [GPUPOOL_SHARE, or all]");
  command->add_option("--device", options.device, "The device: auto, cuda:N, sim:N, ...")
      ->option_text("NAME [to list, all]");
  command->add_option("--set", options.figures, "Set a figure, as below; may come several times")
      ->allow_extra_args(false)
      ->option_text("FIGURE=VALUE");
  command->add_option("--member", options.member, "Of which member: its slot, as listed")->option_text("N");
  command->add_flag("--repair", options.repair,
                    "Take back what dead members have left, and correct what counts as used");
  command->add_option("--socket", options.socket, "The broker that has the group")
      ->option_text("PATH [GPUPOOL_SHARE_SOCKET, or none]");
  command->add_option("--serve", options.serve, "Be a broker, at this socket, until SIGTERM")
      ->option_text("PATH");
  command->add_option("--limit", options.limit, "What members of the broker's groups may have: 60GiB, 75%")
      ->option_text("BYTES [as the first member says]");
  command
      ->add_option("--allow-uid", options.allowed_users,
                   "Users whom the broker serves, beside its own and root")
      ->delimiter(',')
      ->option_text("USER,...");
  command->add_option("--allow-gid", options.allowed_groups, "Groups of users whom it serves")
      ->delimiter(',')
      ->option_text("GROUP,...");
  command->add_flag("--selftest", options.selftest, "Try sharing out with processes of its own");
  command->add_option("--processes", options.processes, "How many processes the self-test starts")
      ->check(CLI::Range(3, 64))
      ->option_text("N [4]");
  command->add_option("--seconds", options.seconds, "How long the self-test kills at random")
      ->check(between(0.1, 3600.0))
      ->option_text("S [3]");
  command->add_option("--size", options.size, "What the self-test's group may have, at least 64MiB")
      ->option_text("BYTES [1GiB]");
  command->add_option("--selftest-member", options.guaranteed)->group("");
  command->add_flag("--json", options.json, "Print JSON for programs, one object a line, and nothing else");
  return command;
}

constexpr const char* kTopAbout =
    "Shows all processes of this machine that use gpupool, again and again:\n"
    "what each of their pools holds, and what it costs. Of other users'\n"
    "processes, those that the system lets you look into.\n";
constexpr const char* kTopExamples =
    "Columns, of each pool; if the terminal is narrow, some are left out:\n"
    "  LIVE, PENDING, CACHED   handed out; freed, but streams may still use it; free, and kept\n"
    "  RESERVED, LIMIT         what the pool has of the device, and may have\n"
    "  PEAK                    the most that was live\n"
    "  OTHER                   what the process has on the GPU beside its pools, as the driver says\n"
    "  ASLEEP                  the share of its memory that is away while it sleeps\n"
    "  FRAG                    the share of free ranges that is not in the largest one\n"
    "  STEALS, MISSES, DRIVER  chunks moved, mallocs that no thread's cache could serve, time in\n"
    "                          the driver: each second, or with --once since the pool began\n"
    "  GROUP, TAGS             the group it shares the device with; what most is held for\n"
    "  AGE                     how old these figures are: a pool writes them when it takes or gives\n"
    "                          back memory, and at other slow calls every 10 ms at most\n"
    "\n"
    "Keys: q leaves, so does ctrl-C; / and a text shows only what has it, Escape all again; < and > change\n"
    "the order; j and k, or arrows, mark a pool. Of one whose process has GPUPOOL_CONTROL=1 in its\n"
    "environment: e gives back what it has cached, s writes a snapshot of it, and r records its process to\n"
    "a file here, until r again. GPUPOOL_STATS=0 in the environment of a process hides it.\n"
    "\n"
    "Examples:\n"
    "  gpupool top\n"
    "  gpupool top --once\n"
    "  gpupool top --user alice --device cuda:0 --sort live\n"
    "  gpupool top --prometheus > gpupool.prom\n"
    "  gpupool top --once --json | jq '.pools[]?.live_bytes'\n"
    "  gpupool top --json --interval 10 >> memory.jsonl";

const CLI::App* add_top(CLI::App& app, TopOptions& options) {
  CLI::App* const command = app.add_subcommand("top", kTopAbout)->footer(kTopExamples);
  command->add_flag("--once", options.once, "Look once, and end");
  command->add_option("-i,--interval", options.interval, "How often to look")
      ->check(between(0.1, 86400.0))
      ->option_text("S [1]");
  command->add_option("--pid", options.pid, "Only this process")->check(is_positive())->option_text("N");
  command->add_option("--name", options.choice.name, "Only pools with this in their name")
      ->option_text("TEXT");
  command->add_option("--tag", options.choice.tag, "Only pools with this in the name of a tag")
      ->option_text("TEXT");
  command->add_option("--user", options.choice.user, "Only this user's processes: a name or a number")
      ->option_text("USER");
  command
      ->add_option("--device", options.choice.device, "Only pools on it: cuda:0, cuda, or a part of its UUID")
      ->option_text("NAME");
  command->add_option("--sort", options.choice.sort, "Which pools come first")
      ->check(CLI::IsMember(top_orders()))
      ->option_text(fmt::format("{} [reserved]", fmt::join(top_orders(), "|")));
  CLI::Option* const json = command->add_flag(
      "--json", options.json,
      "Print JSON for programs, one object a line and nothing else: of each GPU, and each process");
  CLI::Option* const prometheus =
      command->add_flag("--prometheus", options.prometheus, "Print metrics for Prometheus, once")
          ->excludes(json);
  command->add_option("--listen", options.listen, "Serve them at /metrics instead: 127.0.0.1:9838")
      ->needs(prometheus)
      ->option_text("ADDRESS:PORT");
  return command;
}

}  // namespace

MachineCommands::MachineCommands(CLI::App& app)
    : share_(add_share(app, share_options_)), top_(add_top(app, top_options_)) {}

std::optional<int> MachineCommands::run() const {
  if (share_->parsed()) return run_share(share_options_);
  if (top_->parsed()) return run_top(top_options_);
  return std::nullopt;
}

}  // namespace gpupool::cli
