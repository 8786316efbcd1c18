// SPDX-License-Identifier: Apache-2.0
// gpupool info: what this library and this machine support.
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include <nlohmann/json.hpp>

#include "cli/base/library.hpp"
#include "cli/base/output.hpp"
#include "cli/base/size.hpp"
#include "cli/commands/commands.hpp"
#include "cli/commands/options.hpp"
#include "cli/commands/process_state.hpp"

namespace gpupool::cli {
namespace {

struct InfoOptions {
  std::string device;   // empty: all there are
  std::string process;  // only this one; empty: devices
  bool json = false;
};

using Json = nlohmann::ordered_json;

/// A backend or a device, and why it cannot be used.
struct Unavailable {
  std::string name;
  std::string why;
};

struct Found {
  std::vector<gpupool_device_info_t> devices;
  std::vector<Unavailable> unavailable;
};

/// Calls action(backend, name) for all that the library has.
template <typename Action>
void for_each_backend(Action&& action) {
  for (int32_t each = 1; gpupool_backend_name(each) != nullptr; ++each)
    action(static_cast<Backend>(each), std::string(gpupool_backend_name(each)));
}

/// Those with at least one usable device.
std::vector<std::string> usable_backends() {
  std::vector<std::string> names;
  for_each_backend([&](Backend backend, const std::string& name) {
    int32_t count = 0;
    (void)gpupool_device_count(static_cast<gpupool_backend_t>(backend), &count);
    if (count > 0) names.push_back(name);
  });
  return names;
}

/// Adds the devices of one backend. One that is busy hides no other.
void find_devices(Backend backend, const std::string& name, Found& found) {
  std::string label = name;
  const auto look = [&](auto&& action) {
    try {
      action();
    } catch (const Error& error) {
      found.unavailable.push_back({label, error.what()});
    }
  };
  int32_t count = 0;
  look([&] { count = device_count(backend); });
  for (int32_t number = 0; number < count; ++number) {
    label = fmt::format("{}:{}", name, number);
    look([&] { found.devices.push_back(device_info(number, backend)); });
  }
}

struct Word {
  uint64_t bit;
  const char* name;
  const char* meaning;
};

constexpr Word kCapabilities[] = {
    {GPUPOOL_CAPABILITY_VMM, "vmm", "virtual memory management"},
    {GPUPOOL_CAPABILITY_RDMA, "rdma", "direct access by network cards"},
    {GPUPOOL_CAPABILITY_MANAGED, "managed", "managed memory"},
    {GPUPOOL_CAPABILITY_INTEGRATED, "integrated", "uses the host's memory"},
};

/// The names of the bits that are set.
template <size_t n>
std::vector<std::string> words_of(uint64_t bits, const Word (&words)[n], const char* Word::*text) {
  std::vector<std::string> result;
  for (const Word& word : words) {
    if ((bits & word.bit) != 0) result.emplace_back(word.*text);
  }
  return result;
}

std::string join(const std::vector<std::string>& words) {
  return words.empty() ? "-" : fmt::format("{}", fmt::join(words, ", "));
}

/// As CUDA writes it: 13000 is 13.0.
std::string driver_version(const gpupool_device_info_t& info) {
  if (info.driver_version == 0) return "-";
  return fmt::format("{}.{}", info.driver_version / 1000, info.driver_version % 1000 / 10);
}

std::string compute_capability(const gpupool_device_info_t& info) {
  return fmt::format("{}.{}", info.compute_capability / 10, info.compute_capability % 10);
}

Json to_json(const gpupool_device_info_t& info) {
  return {
      {"device", device_label(info)},
      {"name", info.name},
      {"total_bytes", info.total_bytes},
      {"free_bytes", info.free_bytes},
      {"granularity_bytes", info.granularity_bytes},
      {"capabilities", words_of(info.capabilities, kCapabilities, &Word::name)},
      {"driver_version", info.driver_version},
      {"compute_capability", info.compute_capability},
  };
}

void print_as_json(const Found& found) {
  Json json = {
      {"version", gpupool_version_string()}, {"version_number", gpupool_version()},
      {"features", usable_backends()},       {"devices", Json::array()},
      {"unavailable", Json::object()},
  };
  for (const auto& device : found.devices) json["devices"].push_back(to_json(device));
  for (const auto& [name, why] : found.unavailable) json["unavailable"][name] = why;
  print_json(json);
}

/// Everything in a device's row but its label.
std::vector<std::string> to_cells(const gpupool_device_info_t& device) {
  return {device.name,
          format_bytes(device.total_bytes),
          format_bytes(device.free_bytes),
          format_bytes(device.granularity_bytes),
          driver_version(device),
          compute_capability(device),
          join(words_of(device.capabilities, kCapabilities, &Word::meaning))};
}

/// A row for each GPU, and one row for adjacent identical simulated devices.
void add_rows(Table& table, const std::vector<gpupool_device_info_t>& devices) {
  for (size_t first = 0, last = 0; first < devices.size(); first = ++last) {
    std::vector<std::string> cells = to_cells(devices[first]);
    const bool may_share = devices[first].backend == GPUPOOL_BACKEND_SIM;
    while (may_share && last + 1 < devices.size() && to_cells(devices[last + 1]) == cells) ++last;
    std::string label = device_label(devices[first]);
    if (last != first) label += fmt::format(" to {}", device_label(devices[last]));
    cells.insert(cells.begin(), std::move(label));
    table.add(std::move(cells));
  }
}

void print_for_people(const Found& found) {
  fmt::print("gpupool {}\n", gpupool_version_string());
  fmt::print("features: {}\n\n", join(usable_backends()));
  using Align = Table::Align;
  Table table({{"device", Align::left},
               {"name", Align::left},
               {"total"},
               {"free"},
               {"granularity"},
               {"driver"},
               {"compute"},
               {"can do", Align::left}});
  add_rows(table, found.devices);
  table.print();
  for (const auto& [name, why] : found.unavailable) fmt::print("\n{} is not available here: {}\n", name, why);
}

int run_info(const InfoOptions& options) {
  if (!options.process.empty()) return show_process(options.process, options.json);
  Found found;
  if (options.device.empty()) {
    for_each_backend([&](Backend backend, const std::string& name) { find_devices(backend, name, found); });
  } else {
    found.devices = {find_device(options.device)};
  }
  if (options.json) {
    print_as_json(found);
  } else {
    print_for_people(found);
  }
  return 0;
}

constexpr const char* kInfoAbout =
    "Show the devices, and why CUDA cannot be used where it cannot\n\n"
    "Shows the version of the library, what it can do, every device with\n"
    "its memory, and, where CUDA cannot be used, why. With --process it shows instead\n"
    "how a process of yours is: running, locked, checkpointed (asleep as a whole) or\n"
    "failed. It only looks.\n";

constexpr const char* kInfoExamples =
    "Examples:\n"
    "  gpupool info\n"
    "  gpupool info --device cuda:0\n"
    "  gpupool info --process llama-server\n"
    "  gpupool info --json | jq '.unavailable'";

}  // namespace

Command add_info(CLI::App& app) {
  auto [command, options, made] = new_command<InfoOptions>(app, "info", kInfoAbout, kInfoExamples, run_info);
  CLI::Option* const device =
      command.add_option("--device", options.device, "Only this one: cuda:N, sim:N, ...")
          ->option_text("NAME [all]");
  command.add_option("--process", options.process, "How this process that uses CUDA is, by number or name")
      ->excludes(device)
      ->option_text("PID|NAME");
  json_flag(command, options.json);
  return made;
}

}  // namespace gpupool::cli
