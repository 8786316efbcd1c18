// SPDX-License-Identifier: Apache-2.0
// Runs scenarios (README.md) through gpupool.hpp, and prints the final figures of each. The runners in other
// languages do the same through their bindings, and must print the same.
#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <fstream>
#include <gpupool/gpupool.hpp>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

namespace {

using Json = nlohmann::json;  // sorts its keys
using Figures = std::map<std::string, uint64_t>;

constexpr int32_t kSimDevice = 7;

/// A scenario that did not go as it should, in words.
struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

void add_group(Figures& figures, const std::string& name, const gpupool_stat_group_t& group) {
  const auto add = [&](const char* quantity, const gpupool_stat_t& stat) {
    const std::string path = name + "." + quantity + ".";
    figures[path + "current"] = stat.current;
    figures[path + "peak"] = stat.peak;
    figures[path + "total_allocated"] = stat.total_allocated;
    figures[path + "total_freed"] = stat.total_freed;
  };
  add("requested_bytes", group.requested_bytes);
  add("allocated_bytes", group.allocated_bytes);
  add("active_bytes", group.active_bytes);
  add("reserved_bytes", group.reserved_bytes);
  add("allocated_blocks", group.allocated_blocks);
  add("active_blocks", group.active_blocks);
  add("chunks", group.chunks);
}

/// All that must be the same in every language: no time, and no host memory.
Figures figures_of(const gpupool_stats_t& stats) {
  const gpupool_driver_stats_t& driver = stats.driver;
  Figures figures = {
      {"limit_bytes", stats.limit_bytes},
      {"cached_bytes", stats.cached_bytes},
      {"releasable_bytes", stats.releasable_bytes},
      {"slack_bytes", stats.slack_bytes},
      {"hits", stats.hits},
      {"misses", stats.misses},
      {"steals", stats.steals},
      {"stream_steals", stats.stream_steals},
      {"retries", stats.retries},
      {"oom_handler_calls", stats.oom_handler_calls},
      {"failed_mallocs", stats.failed_mallocs},
      {"streams", stats.streams},
      {"driver.create.count", driver.create.count},
      {"driver.release.count", driver.release.count},
      {"driver.map.count", driver.map.count},
      {"driver.set_access.count", driver.set_access.count},
      {"driver.unmap.count", driver.unmap.count},
      {"driver.address.count", driver.address.count},
      {"driver.malloc.count", driver.malloc.count},
      {"driver.free.count", driver.free.count},
      {"driver.event_record.count", driver.event_record.count},
      {"driver.query.count", driver.query.count},
      {"driver.stream_wait.count", driver.stream_wait.count},
      {"driver.host_wait.count", driver.host_wait.count},
  };
  add_group(figures, "all", stats.all);
  add_group(figures, "large", stats.large);
  add_group(figures, "small", stats.small);
  return figures;
}

gpupool::Mode mode_of(const std::string& name) {
  static const std::map<std::string, gpupool::Mode> modes = {{"vmm", gpupool::Mode::vmm},
                                                             {"driver", gpupool::Mode::driver}};
  return modes.at(name);
}

gpupool::Kind kind_of(const std::string& name) {
  static const std::map<std::string, gpupool::Kind> kinds = {{"device", gpupool::Kind::device},
                                                             {"pinned", gpupool::Kind::pinned},
                                                             {"managed", gpupool::Kind::managed}};
  return kinds.at(name);
}

class Scenario {
 public:
  explicit Scenario(const Json& file) : file_(file) {
    if (!file.contains("sim")) return;
    gpupool_sim_config_t sim{};
    sim.struct_size = sizeof sim;
    sim.data = 2;
    sim.capacity_bytes = file.at("sim").at("capacity_bytes").get<uint64_t>();
    gpupool::check(gpupool_sim_configure(kSimDevice, &sim));
    place_ = {.device = kSimDevice, .backend = gpupool::Backend::sim};
  }

  /// What the scenario ends with. Throws Failure.
  Json run() {
    const Json& steps = file_.at("steps");
    for (size_t i = 0; i < steps.size(); ++i) {
      try {
        do_step(steps[i]);
      } catch (const std::exception& error) {
        throw Failure(fmt::format("step {}: {}: {}", i + 1, steps[i].dump(), error.what()));
      }
    }
    Json pools = Json::object();
    for (const auto& [name, pool] : pools_) {
      const gpupool_stats_t stats = pool.stats();
      if (stats.all.allocated_blocks.current != 0) throw Failure("the last step leaves blocks live");
      pools[name] = figures_of(stats);
    }
    return {{"name", file_.at("name")}, {"pools", std::move(pools)}};
  }

 private:
  using Operation = void (Scenario::*)(const Json& step);

  struct Block {
    gpupool_ptr_t address = 0;
    gpupool_stream_t stream = 0;
  };

  void do_step(const Json& step) {
    if (!step.contains("for")) {
      attempt(step);
    } else {
      const Json& loop = step.at("for");
      for (int i = loop.at(0); i < loop.at(1).get<int>(); i += loop.at(2).get<int>()) {
        Json one = step;
        std::string block = step.at("block");
        if (const size_t place = block.find('#'); place != std::string::npos) {
          block.replace(place, 1, std::to_string(i));
        }
        one["block"] = block;
        attempt(one);
      }
    }
    if (step.contains("expect")) check_expectations(step);
    if (step.contains("save")) {
      for (const auto& [name, path] : step.at("save").items()) saved_[name] = figure(step, path);
    }
  }

  /// Does the step's operation, which ends in the status that is expected.
  void attempt(const Json& step) {
    static const std::map<std::string, Operation> operations = {
        {"create", &Scenario::create},
        {"destroy", &Scenario::destroy},
        {"stream", &Scenario::stream},
        {"destroy_stream", &Scenario::destroy_stream},
        {"malloc", &Scenario::malloc},
        {"free", &Scenario::free},
        {"record_stream", &Scenario::record_stream},
        {"release_stream", &Scenario::release_stream},
        {"synchronize", &Scenario::synchronize},
        {"empty", &Scenario::empty},
        {"reset_peaks", &Scenario::reset_peaks},
        {"validate", &Scenario::validate},
        {"trim", &Scenario::trim},
        {"reserve", &Scenario::reserve},
        {"set_fraction", &Scenario::set_fraction},
        {"set_limit", &Scenario::set_limit},
        {"look", &Scenario::look},
    };
    gpupool_status_t status = GPUPOOL_SUCCESS;
    message_.clear();
    address_ = 0;
    try {
      (this->*operations.at(step.at("op")))(step);
    } catch (const gpupool::Error& error) {
      status = error.status();
      message_ = error.what();
    }
    const Json expect = step.value("expect", Json::object());
    const std::string expected = expect.value("status", "GPUPOOL_SUCCESS");
    if (gpupool_status_name(status) != expected) {
      throw Failure(fmt::format("expected {}, found {} {}", expected, gpupool_status_name(status), message_));
    }
  }

  // ---- operations

  void create(const Json& step) {
    gpupool::Config config = place_;
    config.fraction = step.value("fraction", 0.0);
    config.limit_bytes = step.value("limit_bytes", uint64_t{0});
    config.slack = step.value("slack", 0.0);
    config.max_chunk_bytes = step.value("max_chunk_bytes", uint64_t{0});
    if (step.contains("mode")) config.mode = mode_of(step.at("mode"));
    if (step.contains("kind")) config.kind = kind_of(step.at("kind"));
    pools_.insert_or_assign(step.at("pool"), gpupool::Pool(config));
  }
  void destroy(const Json& step) { pools_.erase(step.at("pool").get<std::string>()); }
  void stream(const Json& step) { streams_.insert_or_assign(step.at("stream"), gpupool::Stream(pool(step))); }
  void destroy_stream(const Json& step) { streams_.erase(step.at("stream").get<std::string>()); }

  void malloc(const Json& step) {
    const gpupool_stream_t on = stream_of(step);
    address_ = step.contains("alignment")
                   ? pool(step).allocate(size(step.at("size")), on, step.at("alignment"))
                   : pool(step).allocate(size(step.at("size")), on);
    blocks_[step.at("block")] = {address_, on};
  }
  void free(const Json& step) {
    const bool is_foreign = step.contains("address");
    const Block block = is_foreign ? Block{step.at("address"), 0} : blocks_.at(step.at("block"));
    pool(step).deallocate(block.address + step.value("offset", uint64_t{0}), stream_of(step, block.stream));
  }

  void record_stream(const Json& step) {
    pool(step).record_stream(blocks_.at(step.at("block")).address, stream_of(step));
  }
  void release_stream(const Json& step) { pool(step).release_stream(stream_of(step)); }
  void synchronize(const Json& step) { pool(step).synchronize(); }
  void empty(const Json& step) { pool(step).empty(); }
  void reset_peaks(const Json& step) { pool(step).reset_peaks(); }
  void validate(const Json& step) { pool(step).validate(); }
  void trim(const Json& step) { pool(step).trim(size(step.at("target_bytes"))); }
  void reserve(const Json& step) { pool(step).reserve(size(step.at("target_bytes")), stream_of(step)); }
  void set_fraction(const Json& step) { pool(step).set_fraction(step.at("fraction")); }
  void set_limit(const Json& step) { pool(step).set_limit(size(step.at("limit_bytes"))); }
  void look(const Json&) {}

  // ---- operands

  gpupool::Pool& pool(const Json& step) { return pools_.at(step.at("pool")); }

  gpupool_stream_t stream_of(const Json& step, gpupool_stream_t otherwise = 0) const {
    if (!step.contains("stream")) return otherwise;
    const std::string name = step.at("stream");
    return name == "unknown" ? gpupool_stream_t{GPUPOOL_STREAM_UNKNOWN} : streams_.at(name).id();
  }

  gpupool_device_info_t device() const { return gpupool::device_info(place_.device, place_.backend); }

  uint64_t size(const Json& operand) const {
    if (!operand.is_object()) return operand.get<uint64_t>();
    const double bytes = operand.at("of_total").get<double>() * static_cast<double>(device().total_bytes);
    return static_cast<uint64_t>(std::floor(bytes)) / 512 * 512;
  }

  uint64_t figure(const Json& step, const std::string& path) {
    return path == "device.free_bytes" ? device().free_bytes : figures_of(pool(step).stats()).at(path);
  }

  // ---- expectations

  void check_expectations(const Json& step) {
    for (const auto& [what, expected] : step.at("expect").items()) {
      if (what == "status") continue;  // looked at in attempt
      if (what == "stats") {
        for (const auto& [path, value] : expected.items()) check_figure(path, value, figure(step, path));
      } else if (what == "same_address" || what == "other_address") {
        const bool is_same = blocks_.at(expected).address == address_;
        require(is_same == (what == "same_address"), what, expected, address_);
      } else if (what == "address_zero") {
        require((address_ == 0) == expected.get<bool>(), what, expected, address_);
      } else if (what == "message_contains") {
        require(message_.find(expected.get<std::string>()) != std::string::npos, what, expected, message_);
      } else {
        throw Failure(fmt::format("nobody knows what it means to expect {}", what));
      }
    }
  }

  void check_figure(const std::string& path, const Json& expected, uint64_t found) const {
    const bool is_range = expected.is_object() && !expected.contains("saved");
    const bool is_good = is_range ? (!expected.contains("min") || found >= value(expected.at("min"))) &&
                                        (!expected.contains("max") || found <= value(expected.at("max")))
                                  : found == value(expected);
    require(is_good, path, expected, found);
  }

  uint64_t value(const Json& expected) const {
    if (!expected.is_object()) return expected.get<uint64_t>();
    return saved_.at(expected.at("saved")) + static_cast<uint64_t>(expected.value("plus", int64_t{0}));
  }

  static void require(bool is_good, const std::string& what, const Json& expected, const Json& found) {
    if (!is_good)
      throw Failure(fmt::format("{}: expected {}, found {}", what, expected.dump(), found.dump()));
  }

  const Json& file_;
  gpupool::Config place_;
  Figures saved_;
  std::map<std::string, Block> blocks_;
  std::map<std::string, gpupool::Pool> pools_;
  std::map<std::string, gpupool::Stream> streams_;  // go before the pools
  gpupool_ptr_t address_ = 0;                       // of the last malloc
  std::string message_;                             // of the last step's failure
};

}  // namespace

int main(int argc, char** argv) {
  bool is_good = argc > 1;
  if (!is_good) fmt::print(stderr, "usage: {} SCENARIO.json...\n", argv[0]);
  for (int i = 1; i < argc; ++i) {
    try {
      std::ifstream stream(argv[i]);
      const Json file = Json::parse(stream);
      fmt::print("{}\n", Scenario(file).run().dump());
    } catch (const std::exception& error) {
      fmt::print(stderr, "{}: {}\n", argv[i], error.what());
      is_good = false;
    }
  }
  return is_good ? 0 : 1;
}
