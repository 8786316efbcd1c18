// SPDX-License-Identifier: Apache-2.0
#include "cli/processes/process_recording.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "cli/base/library.hpp"

namespace gpupool::cli {
namespace {

namespace fs = std::filesystem;

void refuse_existing(const std::string& output) {
  if (fs::exists(fs::symlink_status(output))) throw InputError(fmt::format("{} is there already", output));
}

InputError cannot_be_made(const fs::path& folder) {
  return InputError(
      fmt::format("nothing can be written to {}: {}", folder.parent_path().string(), std::strerror(errno)));
}

/// What a recorder that was killed has left in its folder; "": nothing.
std::string left_in(const std::string& folder) {
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (!entry.is_directory()) return entry.path().string();
  return "";
}

/// Makes the folder of this output file, and keeps others from using it until this command ends.
void claim(const std::string& folder, const std::string& output) {
  const bool is_new = mkdir(folder.c_str(), S_IRWXU) == 0;
  if (!is_new && errno != EEXIST) throw cannot_be_made(folder);
  const auto refuse_if = [&](bool is_unusable, const char* why) {
    if (is_unusable)
      throw InputError(
          fmt::format("{}, which is needed to record {}, cannot be used: {}", folder, output, why));
  };
  // Never closed here; the recorded program does not inherit it.
  const int held = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  const bool is_gone = held < 0 && errno == ENOENT;  // another recorder has just ended
  refuse_if(held < 0 && !is_gone, std::strerror(errno));
  struct stat about {};
  refuse_if(!is_new && fstat(held, &about) == 0 && about.st_uid != geteuid(), "it is another user's");
  const bool is_locked = flock(held, LOCK_EX | LOCK_NB) == 0;
  const bool is_taken = is_gone || (!is_locked && errno == EWOULDBLOCK);
  // Some network file systems lock no folders: there, a new one has to do.
  refuse_if(!is_locked && !is_taken && !is_new, std::strerror(errno));
  if (is_taken || !fs::exists(folder))
    throw InputError(fmt::format("{} is already being recorded by another gpupool record", output));
  if (const std::string left = left_in(folder); !left.empty()) {
    throw InputError(
        fmt::format("an earlier gpupool record of {} has left {}: 'gpupool salvage' makes a recording of it; "
                    "then remove it",
                    output, left));
  }
}

/// Throws if the files that are to be made are there, or the library does not take `last`: it says what is
/// wrong with it before the program runs.
void check_files(const std::string& folder, const std::string& output, const std::string& last) {
  if (!output.empty()) refuse_existing(output);
  if (last.empty()) return;
  if (!output.empty())
    for (const char* const suffix : kRingSuffixes) refuse_existing(output + suffix);
  const std::string trial = folder + "/trial";
  const gpupool_status_t status = gpupool_record_start((trial + ",last=" + last).c_str(), 0);
  const std::string why = last_words(status);
  if (status == GPUPOOL_SUCCESS) (void)gpupool_record_stop();
  (void)fs::remove(trial);
  if (status != GPUPOOL_SUCCESS) throw InputError("--" + why);
}

}  // namespace

std::string make_folder_for(const std::string& output, const std::string& last) {
  const fs::path path = fs::absolute(output.empty() ? "unnamed" : output);
  if (path.parent_path().string().find("%p") != std::string::npos) {
    throw InputError(
        fmt::format("{} has %p in its name, which stands for a process", path.parent_path().string()));
  }
  const std::string name = path.filename().string();
  std::string folder = (path.parent_path() / ".gpupool-").string();
  if (output.empty()) {
    folder += "XXXXXX";
    if (mkdtemp(folder.data()) == nullptr) throw cannot_be_made(folder);
  } else {
    folder += fmt::format("{:016x}", std::hash<std::string>()(name));  // any name has one, of this length
    claim(folder, output);
  }
  try {
    check_files(folder, output, last);
  } catch (const InputError&) {
    (void)rmdir(folder.c_str());
    throw;
  }
  return folder;
}

ProcessRecording::ProcessRecording(uint64_t pid, double wait, const std::string& stacks,
                                   const std::string& last, std::string output)
    : pid_(pid), output_(std::move(output)), process_(pid, wait), folder_(make_folder_for(output_, last)) {
  ControlRequest request;
  request.command = ControlCommand::record_start;
  request.path = folder_.path + "/recording";
  if (!last.empty()) request.path += ",last=" + last;
  if (stacks == "native" || stacks == "all") request.flags |= GPUPOOL_RECORD_NATIVE_STACKS;
  if (stacks == "language" || stacks == "all") request.flags |= GPUPOOL_RECORD_LANGUAGE_STACKS;
  const ControlReply begun = process_.ask(request);
  if (!begun.message.empty()) throw std::runtime_error(fmt::format("process {}: {}", pid_, begun.message));
  is_under_way_ = true;
}

ProcessRecording::Folder::~Folder() {
  std::error_code ignored;
  fs::remove_all(path, ignored);
}

ProcessRecording::~ProcessRecording() {
  if (is_under_way_) (void)stop();
}

std::string ProcessRecording::stop() {
  is_under_way_ = false;
  if (is_gone_) return "";
  ControlRequest request;
  request.command = ControlCommand::record_stop;
  try {
    const ControlReply ended = process_.ask(request);
    return ended.message.empty() ? "" : fmt::format("process {}: {}", pid_, ended.message);
  } catch (const std::runtime_error& error) {
    return fmt::format("{}; the recording has what was written so far", error.what());
  }
}

std::string ProcessRecording::end(std::vector<PackedFile>& made) {
  std::string trouble = stop();
  const std::string part = folder_.path + "/recording";
  if (!fs::exists(part)) {
    throw InputError(
        fmt::format("process {} sees other folders than this one: its recording is not here", pid_));
  }
  try {
    for (const char* const suffix : {"", kRingSuffixes[0], kRingSuffixes[1]}) {
      if (!fs::exists(part + suffix)) continue;
      made.push_back({output_ + suffix, {}});
      pack_recording(part + suffix, made.back().name, made.back().damage);
    }
  } catch (const std::exception& error) {
    folder_.path.clear();  // so the folder stays, with what was recorded: gpupool salvage reads it
    throw std::runtime_error(fmt::format("{}; what was recorded is in {}", error.what(), part));
  }
  return trouble;
}

}  // namespace gpupool::cli
