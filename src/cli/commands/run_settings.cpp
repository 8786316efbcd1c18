// SPDX-License-Identifier: Apache-2.0
#include "cli/commands/run_settings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <string_view>

namespace gpupool::cli {
namespace {

std::string_view variable(const char* name) {
  const char* const text = std::getenv(name);
  return text != nullptr ? text : "";
}

std::optional<double> number_in(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

/// In four places, rounded down, so that it is never more than the cap.
std::string share_text(uint64_t cap, uint64_t total) {
  constexpr double kPlaces = 10000;
  const double share = std::floor(static_cast<double>(cap) / static_cast<double>(total) * kPlaces) / kPlaces;
  return fmt::format("{:.4f}", std::max(share, 1 / kPlaces));
}

/// Sets the variable, unless the user's own value is a smaller limit.
void lower(const char* name, const std::string& value, RunSettings& settings) {
  const std::string_view now = variable(name);
  const std::optional<double> mine = number_in(now);
  if (!now.empty() && mine && *mine <= *number_in(value)) {
    settings.notes.push_back(fmt::format("{}={} is no larger, and stays", name, now));
  } else {
    settings.variables.emplace_back(name, value);
  }
}

void set_if_unset(const char* name, const char* value, RunSettings& settings) {
  if (variable(name).empty()) {
    settings.variables.emplace_back(name, value);
  } else if (variable(name) != value) {
    settings.notes.push_back(fmt::format("{}={} stays", name, variable(name)));
  }
}

/// CuPy takes bytes or a share: "30%".
void limit_cupy(uint64_t cap, uint64_t total, RunSettings& settings) {
  constexpr const char* kName = "CUPY_GPU_MEMORY_LIMIT";
  std::string_view now = variable(kName);
  if (!now.empty() && now.back() == '%') {
    now.remove_suffix(1);
    const std::optional<double> share = number_in(now);
    const double bytes = share.value_or(0) / 100 * static_cast<double>(total);
    if (share && (total == 0 || bytes <= static_cast<double>(cap))) {
      settings.notes.push_back(fmt::format("{}={}% stays", kName, now));
      return;
    }
  }
  lower(kName, std::to_string(cap), settings);
}

/// The program's own option for the share of a GPU that it takes: its value is lowered, or the option added.
void lower_option(const char* option, const std::string& share, RunSettings& settings) {
  const std::string with_value = std::string(option) + "=";
  std::vector<std::string>& words = settings.words;
  for (size_t at = 0; at < words.size(); ++at) {
    const bool is_apart = words[at] == option && at + 1 < words.size();
    if (!is_apart && !words[at].starts_with(with_value)) continue;
    const std::string now = is_apart ? words[at + 1] : words[at].substr(with_value.size());
    const std::optional<double> mine = number_in(now);
    if (mine && *mine <= *number_in(share)) {
      settings.notes.push_back(fmt::format("{} {} is no larger, and stays", option, now));
    } else {
      words[is_apart ? at + 1 : at] = is_apart ? share : with_value + share;
      settings.notes.push_back(fmt::format("{} {} instead of {}", option, share, now));
    }
    return;
  }
  words.insert(words.end(), {option, share});
  settings.notes.push_back(fmt::format("{} {} is added to the command", option, share));
}

/// "vllm serve", "sglang serve", and "python -m vllm.entrypoints...".
bool is_server(const std::vector<std::string>& words, const std::string& name) {
  const auto is_it = [&](const std::string& word) {
    return word.substr(word.rfind('/') + 1) == name || word.starts_with(name + ".");
  };
  if (words.size() > 1 && is_it(words[0]) && words[1] == "serve") return true;
  const auto module = std::find(words.begin(), words.end(), "-m");
  return module != words.end() && module + 1 != words.end() && is_it(*(module + 1));
}

}  // namespace

void add_limits(uint64_t cap, uint64_t total, RunSettings& settings) {
  set_if_unset("XLA_PYTHON_CLIENT_PREALLOCATE", "false", settings);
  set_if_unset("TF_FORCE_GPU_ALLOW_GROWTH", "true", settings);
  limit_cupy(cap, total, settings);
  if (total == 0) {
    settings.notes.emplace_back(
        "JAX, vLLM and SGLang take a share, and NVML does not say of how much: not set");
  } else if (cap < total) {
    const std::string share = share_text(cap, total);
    // JAX refuses both names at once, and knows the older one in every release.
    const bool has_new = !variable("XLA_CLIENT_MEM_FRACTION").empty();
    lower(has_new ? "XLA_CLIENT_MEM_FRACTION" : "XLA_PYTHON_CLIENT_MEM_FRACTION", share, settings);
    if (is_server(settings.words, "vllm")) lower_option("--gpu-memory-utilization", share, settings);
    if (is_server(settings.words, "sglang")) lower_option("--mem-fraction-static", share, settings);
  }
  settings.notes.emplace_back("no variable limits TensorFlow, ONNX Runtime (gpu_mem_limit) and PyTorch");
}

}  // namespace gpupool::cli
