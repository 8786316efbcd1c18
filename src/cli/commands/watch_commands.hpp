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
  std::vector<std::string> program;  // with its arguments; or a process that runs already
  uint64_t pid = 0;
  double seconds = -1;  // of that process; below 0: until ctrl-C, or its end
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
  std::string listen;  // "": write once
  uint64_t pool = 0;   // 0: the only one
  uint64_t last = 100000;
  bool at_peak = false;
};

struct ImportOptions {
  std::string file;
  std::string output = "-";
  std::string format = "text";
  std::optional<uint32_t> device;  // of a snapshot; nothing: all, or the only one
};

struct LeaksOptions {
  std::string file;
  std::string fail_over;
  bool growing = false;
  bool json = false;
  size_t count = 20;
};

struct AdviseOptions {
  std::string file;
  uint64_t pool = 0;  // 0: the only one
  bool json = false;
};

struct ReportOptions {
  std::vector<std::string> files;
  std::string output = "report.html";
  uint64_t pool = 0;  // 0: all
  bool no_fit = false;
};

struct WhyOptions {
  std::string what;  // an address, a line with one, or - for such lines on standard input
  std::string file;
};

int run_record(const RecordOptions& options);
int run_salvage(const SalvageOptions& options);
int run_export(const ExportOptions& options);
int run_import(const ImportOptions& options);
int run_leaks(const LeaksOptions& options);
int run_report(const ReportOptions& options);
int run_advise(const AdviseOptions& options);
int run_why(const WhyOptions& options);

/// Adds these commands to the whole.
class WatchCommands {
 public:
  explicit WatchCommands(CLI::App& app);
  /// Runs the one that was given and returns its exit status; nothing if none was.
  std::optional<int> run() const;

 private:
  RecordOptions record_options_;
  SalvageOptions salvage_options_;
  ExportOptions export_options_;
  ImportOptions import_options_;
  LeaksOptions leaks_options_;
  ReportOptions report_options_;
  AdviseOptions advise_options_;
  WhyOptions why_options_;
  const CLI::App* record_;
  const CLI::App* salvage_;
  const CLI::App* export_;
  const CLI::App* import_;
  const CLI::App* leaks_;
  const CLI::App* report_;
  const CLI::App* advise_;
  const CLI::App* why_;
};

}  // namespace gpupool::cli
