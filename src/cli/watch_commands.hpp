// SPDX-License-Identifier: Apache-2.0
// The commands about recordings.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace gpupool::cli {

struct RecordOptions {
  std::vector<std::string> program;  // with its arguments
  std::string output;
  std::string stacks = "language";
};

struct SalvageOptions {
  std::string file;
  std::string output;
};

struct ExportOptions {
  std::string file;
  std::string output = "-";
  std::string format = "text";
  uint64_t pool = 0;  // 0: the only one
};

struct ImportOptions {
  std::string file;
  std::string output = "-";
};

struct LeaksOptions {
  std::string file;
  std::string fail_over;
  bool growing = false;
  bool json = false;
  size_t count = 20;
};

int run_record(const RecordOptions& options);
int run_salvage(const SalvageOptions& options);
int run_export(const ExportOptions& options);
int run_import(const ImportOptions& options);
int run_leaks(const LeaksOptions& options);

/// These commands, as a part of the whole.
class WatchCommands {
 public:
  explicit WatchCommands(CLI::App& app);
  /// The exit status of the one that was given; nothing if none was.
  std::optional<int> run() const;

 private:
  const CLI::App* record_;
  const CLI::App* salvage_;
  const CLI::App* export_;
  const CLI::App* import_;
  const CLI::App* leaks_;
  RecordOptions record_options_;
  SalvageOptions salvage_options_;
  ExportOptions export_options_;
  ImportOptions import_options_;
  LeaksOptions leaks_options_;
};

}  // namespace gpupool::cli
