// SPDX-License-Identifier: Apache-2.0
// Records a process that is already running, through its control.
#pragma once

#include <signal.h>

#include <string>
#include <utility>
#include <vector>

#include "cli/processes/control.hpp"
#include "cli/recording/recording.hpp"

namespace gpupool::cli {

/// What a ring adds to the name of a recording for its other files.
inline constexpr const char* kRingSuffixes[] = {".old", ".oom"};

struct PackedFile {
  std::string name;
  Damage damage;
};

/// Makes a folder beside the output file, for what is not packed yet; "": in the current folder, for files of
/// any name. `last`: what of it to keep; "": all. Throws InputError if the file exists already, or one that a
/// ring would make, if another recorder is making it or has left something of it, or if the library does not
/// take `last`.
std::string make_folder_for(const std::string& output, const std::string& last);

/// Begins at once. Without end(), what was recorded is dropped. All functions throw InputError or
/// std::runtime_error, as Control does.
class ProcessRecording {
 public:
  /// `wait`: for how many seconds to wait for each answer. `stacks` and `last`: as `gpupool record` has them.
  /// `output`: the file to make.
  ProcessRecording(uint64_t pid, double wait, const std::string& stacks, const std::string& last,
                   std::string output);
  ProcessRecording(const ProcessRecording&) = delete;
  ProcessRecording& operator=(const ProcessRecording&) = delete;
  ~ProcessRecording();

  /// As Control::wait_for_end.
  void wait_for_end(double seconds, const sigset_t& mask) { is_gone_ = process_.wait_for_end(seconds, mask); }
  /// Makes the file, and with `last` the others of the ring. If that fails, what was recorded stays beside
  /// them. Returns why the process did not confirm the end of the recording; "": it did, or is gone.
  std::string end(std::vector<PackedFile>& made);
  const std::string& output() const noexcept { return output_; }

 private:
  /// Its destructor removes it with what is in it.
  struct Folder {
    explicit Folder(std::string made) : path(std::move(made)) {}
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;
    ~Folder();
    std::string path;
  };

  std::string stop();

  uint64_t pid_;
  std::string output_;
  Control process_;
  Folder folder_;
  bool is_gone_ = false;
  bool is_under_way_ = false;
};

}  // namespace gpupool::cli
