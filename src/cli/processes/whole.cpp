// SPDX-License-Identifier: Apache-2.0
#include "cli/processes/whole.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <climits>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string_view>
#include <thread>
#include <utility>

#include "cli/base/library.hpp"
#include "cli/base/output.hpp"
#include "cli/base/signals.hpp"
#include "cli/base/size.hpp"
#include "cli/base/utf8.hpp"
#include "cli/processes/checkpoint.hpp"
#include "cli/processes/nvml.hpp"

namespace gpupool::cli {

using namespace driver;

namespace {

using Clock = std::chrono::steady_clock;

std::string folder_of(uint64_t pid) {
  return fmt::format("/proc/{}", pid);
}

/// The user's, and not one that nobody may look into, which looks as if it were root's.
bool is_own(uint64_t pid) {
  struct stat about {};
  return stat(folder_of(pid).c_str(), &about) == 0 && about.st_uid == geteuid();
}

void check_own(uint64_t pid) {
  struct stat about {};
  if (stat(folder_of(pid).c_str(), &about) != 0) throw InputError(fmt::format("there is no process {}", pid));
  if (about.st_uid != geteuid())
    throw InputError(fmt::format("process {} belongs to user {}, who alone may put it to sleep and wake it",
                                 pid, about.st_uid));
}

std::string name_of(uint64_t pid) {
  const std::string comm = read_begin(AT_FDCWD, (folder_of(pid) + "/comm").c_str());
  return comm.substr(0, comm.find('\n'));
}

std::string_view last_of(std::string_view path) {
  return path.substr(path.rfind('/') + 1);
}

/// The path of its executable; "" if it is not told.
std::string executable_of(uint64_t pid) {
  constexpr std::string_view kUnlinked = " (deleted)";
  std::array<char, PATH_MAX> path{};
  const ssize_t size = readlink((folder_of(pid) + "/exe").c_str(), path.data(), path.size());
  std::string text(path.data(), size > 0 ? static_cast<size_t>(size) : 0);
  if (std::string_view(text).ends_with(kUnlinked)) text.resize(text.size() - kUnlinked.size());
  return text;
}

/// As ps shows it. Of a longer name that has the beginning only, so then its file decides, or the name that
/// it was called as; a script's comes after its interpreter's.
bool is_called(uint64_t pid, std::string_view who) {
  constexpr size_t kShown = 15;
  const std::string shown = name_of(pid);
  if (who.size() <= kShown) return shown == who;
  if (last_of(executable_of(pid)) == who) return true;
  std::istringstream words(read_begin(AT_FDCWD, (folder_of(pid) + "/cmdline").c_str()));
  std::string first;
  std::string second;
  std::getline(words, first, '\0');
  std::getline(words, second, '\0');
  return last_of(first) == who || (last_of(second) == who && shown == who.substr(0, kShown));
}

bool maps(uint64_t pid, std::string_view part) {
  std::ifstream file(folder_of(pid) + "/maps");
  for (std::string line; std::getline(file, line);) {
    if (line.find(part) != std::string::npos) return true;
  }
  return false;
}

/// Ends only once the process is in one state or the other.
class NoSignals {
 public:
  NoSignals() : before_(block_signals({SIGINT, SIGTERM, SIGHUP, SIGQUIT})) {}
  NoSignals(const NoSignals&) = delete;
  NoSignals& operator=(const NoSignals&) = delete;
  ~NoSignals() { (void)pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

std::optional<uint64_t> bytes_on_gpus(uint64_t pid) {
  std::optional<uint64_t> sum;
  for (const Gpu& gpu : Nvml().look()) {
    for (const GpuUser& user : gpu.users) {
      if (user.pid == pid) sum = sum.value_or(0) + user.bytes;
    }
  }
  return sum;
}

/// "GPU 0 has 1.2 GiB free, and process 123 (python) 70 GiB".
std::string holders_text() {
  std::string text;
  for (const Gpu& gpu : Nvml().look()) {
    text += fmt::format("; GPU {} has {} free", gpu.number, format_bytes(gpu.free));
    for (const GpuUser& user : gpu.users)
      text += fmt::format(", process {} ({}) has {}", user.pid, harmless(name_of(user.pid)),
                          format_bytes(user.bytes));
  }
  return text;
}

/// Asks the process's own library. None: it takes no commands, as `why` says.
std::optional<ControlReply> ask_pools(uint64_t pid, const ControlRequest& request, double limit,
                                      std::string& why) {
  try {
    Control process(pid, limit);
    return process.ask(request);
  } catch (const InputError& error) {
    why = error.what();
  }
  return std::nullopt;
}

/// None: it has ended.
std::optional<CUprocessState> state_of(Checkpoint& driver, uint64_t pid) {
  try {
    return driver.state(pid);
  } catch (const InputError&) {
    return std::nullopt;
  }
}

/// What to do about a process of which a step has failed, in words that go on from the driver's; "": it runs.
std::string how_to_go_on(Checkpoint& driver, uint64_t pid) {
  const std::optional<CUprocessState> state = state_of(driver, pid);
  if (!state) return "; it has ended";
  if (state == CU_PROCESS_STATE_RUNNING) return "";
  if (state == CU_PROCESS_STATE_FAILED) return "; it cannot run on: end it";
  return fmt::format("; gpupool wake {} --whole goes on from there", pid);
}

/// After a step of the driver has failed: unlocks what is locked, and wakes the pools that slept for it.
/// Returns what to do if that is not all, as how_to_go_on().
std::string undo_sleep(Checkpoint& driver, uint64_t pid, const WholeResult& done, double limit) {
  std::string failed;
  try {
    if (state_of(driver, pid) == CU_PROCESS_STATE_LOCKED) driver.unlock(pid);
  } catch (const std::runtime_error& error) {
    failed = std::string("; ") + error.what();
  }
  if (const std::string words = how_to_go_on(driver, pid); !words.empty()) return failed + words;
  if (!done.pools || done.pools->changed_pools == 0) return "";
  ControlRequest wake;
  wake.command = ControlCommand::wake;
  std::string why;
  const std::optional<ControlReply> woken = ask_pools(pid, wake, limit, why);
  if (woken && !woken->message.empty()) why = woken->message;
  return why.empty() ? "" : fmt::format("; it runs, and its pools sleep: {}", why);
}

/// Restores, again and again while others hold the memory, until the time is over.
void restore_within(Checkpoint& driver, uint64_t pid, double timeout) {
  constexpr auto kPause = std::chrono::milliseconds(100);
  const auto until = Clock::now() + std::chrono::duration<double>(timeout);
  for (;;) {
    try {
      driver.restore(pid);
      return;
    } catch (const InputError&) {
      throw;
    } catch (const std::runtime_error& error) {
      if (driver.state(pid) != CU_PROCESS_STATE_CHECKPOINTED)
        throw std::runtime_error(error.what() + how_to_go_on(driver, pid));
      if (Clock::now() >= until)
        throw std::runtime_error(
            fmt::format("{}; it sleeps on, and can be woken later{}", error.what(), holders_text()));
    }
    std::this_thread::sleep_for(kPause);
  }
}

void unlock_at_last(Checkpoint& driver, uint64_t pid) {
  try {
    driver.unlock(pid);
  } catch (const std::runtime_error& error) {
    throw std::runtime_error(error.what() + how_to_go_on(driver, pid));
  }
}

}  // namespace

uint64_t find_own_process(const std::string& who) {
  if (const uint64_t pid = number_of(who); pid != 0) return pid;
  std::vector<std::string> found;
  const Folder all(opendir("/proc"));
  while (const dirent* entry = all != nullptr ? readdir(all.get()) : nullptr) {
    const uint64_t pid = number_of(entry->d_name);
    if (pid != 0 && static_cast<pid_t>(pid) != getpid() && is_own(pid) && is_called(pid, who))
      found.emplace_back(entry->d_name);
  }
  if (found.empty()) throw InputError(fmt::format("no process of yours is called \"{}\"", harmless(who)));
  if (found.size() > 1)
    throw InputError(fmt::format("\"{}\" are several processes: {}; name one by its number", harmless(who),
                                 list_first(found, 5, ", ")));
  return number_of(found[0]);
}

WholeState look_at_whole(const std::string& who, double limit) {
  const uint64_t pid = find_own_process(who);
  check_own(pid);
  return {pid, name_of(pid), Checkpoint(limit).state(pid)};
}

std::vector<uint64_t> own_processes_on(const std::string& gpu) {
  std::vector<uint64_t> pids;
  const std::vector<Gpu> all = Nvml().look();
  const auto found = std::find_if(all.begin(), all.end(), [&](const Gpu& each) {
    return each.id == gpu || std::to_string(each.number) == gpu;
  });
  if (found == all.end())
    throw InputError(fmt::format("NVML knows no GPU \"{}\": name one as nvidia-smi -L does", harmless(gpu)));
  for (const GpuUser& user : found->users) {
    if (is_own(user.pid)) pids.push_back(user.pid);
  }
  return pids;
}

void say_limits(uint64_t pid) {
  say("a checkpoint saves no NCCL connections, multicast, nor memory shared by IPC or managed");
  if (maps(pid, "libnccl.so"))
    say(fmt::format("process {} has NCCL loaded: if it has communicators, it may not survive", pid));
}

WholeResult sleep_whole(uint64_t pid, const ControlRequest& pools, double limit) {
  check_own(pid);
  Checkpoint driver(limit);
  WholeResult done;
  const CUprocessState before = driver.state(pid);
  if (before == CU_PROCESS_STATE_CHECKPOINTED) return done;
  if (before == CU_PROCESS_STATE_LOCKED)
    throw InputError(fmt::format(
        "process {} is locked: a command is at it, or was killed; gpupool wake {} --whole ends that", pid,
        pid));
  if (before == CU_PROCESS_STATE_FAILED)
    throw InputError(fmt::format("process {} has failed in an earlier checkpoint: end it", pid));
  done.gpu_bytes = bytes_on_gpus(pid);
  const NoSignals wait;
  done.pools = ask_pools(pid, pools, limit, done.why_no_pools);
  try {
    driver.lock(pid);
    driver.save(pid);
  } catch (const std::runtime_error& error) {
    throw std::runtime_error(error.what() + undo_sleep(driver, pid, done, limit));
  }
  done.changed = true;
  return done;
}

WholeResult wake_whole(uint64_t pid, const ControlRequest& pools, double limit, double timeout) {
  check_own(pid);
  Checkpoint driver(limit);
  WholeResult done;
  const NoSignals wait;
  CUprocessState state = driver.state(pid);
  if (state == CU_PROCESS_STATE_FAILED)
    throw std::runtime_error(fmt::format("process {} has failed in a checkpoint, and cannot run on", pid));
  done.changed = state != CU_PROCESS_STATE_RUNNING;
  if (state == CU_PROCESS_STATE_CHECKPOINTED) restore_within(driver, pid, timeout);
  if (done.changed) unlock_at_last(driver, pid);
  done.pools = ask_pools(pid, pools, limit, done.why_no_pools);
  return done;
}

}  // namespace gpupool::cli
