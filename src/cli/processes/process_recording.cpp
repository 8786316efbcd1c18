// SPDX-License-Identifier: Apache-2.0
#include "cli/processes/process_recording.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
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

}  // namespace

std::string make_folder_for(const std::string& output, const std::string& last) {
  if (!output.empty()) refuse_existing(output);
  if (!output.empty() && !last.empty())
    for (const char* const suffix : kRingSuffixes) refuse_existing(output + suffix);
  const fs::path folder = output.empty() ? fs::path(".") : fs::absolute(output).parent_path();
  std::string made = (fs::absolute(folder) / ".gpupool-XXXXXX").string();
  if (mkdtemp(made.data()) == nullptr)
    throw InputError(fmt::format("nothing can be written to {}: {}", folder.string(), std::strerror(errno)));
  if (last.empty()) return made;
  // The library says what is wrong with it before the program runs.
  const std::string trial = made + "/trial";
  const gpupool_status_t status = gpupool_record_start((trial + ",last=" + last).c_str(), 0);
  const std::string why = last_words(status);
  if (status == GPUPOOL_SUCCESS) (void)gpupool_record_stop();
  (void)fs::remove(trial);
  if (status == GPUPOOL_SUCCESS) return made;
  (void)fs::remove(made);
  throw InputError("--" + why);
}

ProcessRecording::ProcessRecording(uint64_t pid, double wait, const std::string& stacks,
                                   const std::string& last, std::string output)
    : pid_(pid), output_(std::move(output)), process_(pid, wait), folder_(make_folder_for(output_, last)) {
  ControlRequest request;
  request.command = ControlCommand::record_start;
  request.path = folder_.path + "/recording";
  if (request.path.find("%p") != std::string::npos)
    throw InputError(fmt::format("{} has %p in its name, which stands for a process", request.path));
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
