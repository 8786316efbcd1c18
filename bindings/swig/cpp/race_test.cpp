// SPDX-License-Identifier: Apache-2.0
// The objects under many threads, without a language around them: race_test [SECONDS]. Worth a run with
// -fsanitize=thread or address.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <thread>

#include "library.hpp"
#include "objects.hpp"

using namespace binding;
// There is no collector here.
inline bool binding::has_thrown() noexcept {
  return false;
}

inline bool binding::run_collector() noexcept {
  return false;
}

inline binding::ByteType binding::byte_type() noexcept {
  return {"a std::string", std::string().max_size()};
}

using Clock = std::chrono::steady_clock;
using Calls = std::vector<std::function<void()>>;

namespace {

constexpr int kDevice = 3;
constexpr const char* kName = "sim:3";
std::chrono::milliseconds seconds(400);

void demand(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "%s\n", what);
  std::exit(1);
}

/// Closes one thing while others use it until they are refused in these words.
void race(const char* refusal, const std::function<void()>& close, const Calls& others) {
  std::vector<std::thread> threads;
  for (const auto& other : others) {
    threads.emplace_back([&] {
      try {
        while (true) other();
      } catch (const Failure& failure) {
        demand(failure.details.message == std::string_view(refusal), failure.details.message);
      }
    });
  }
  std::this_thread::sleep_for(std::chrono::microseconds(200));
  close();
  for (std::thread& thread : threads) thread.join();
}

int again(void (*round)()) {
  int rounds = 0;
  for (const auto end = Clock::now() + seconds; Clock::now() < end; ++rounds) round();
  return rounds;
}

/// Whoever is inside keeps the gate open, and exactly one is the last.
void gates() {
  Gate gate;
  std::atomic<int> lasts{0};
  std::atomic<bool> is_ended{false};
  const auto end = [&] {
    ++lasts;
    is_ended = true;
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 6; ++i) {
    threads.emplace_back([&] {
      while (gate.enter()) {
        demand(!is_ended, "ended with somebody inside");
        if (gate.leave()) end();
      }
    });
  }
  std::this_thread::sleep_for(std::chrono::microseconds(50));
  if (gate.close() == Gate::Close::kEmpty) end();
  for (std::thread& thread : threads) thread.join();
  demand(lasts == 1 && gate.is_closed(), "not exactly one was the last");
}

void pools() {
  Pool pool{std::string(kName)};
  const auto pair = [&] { pool.free(pool.malloc(512)); };
  const auto objects = [&] {
    const std::unique_ptr<Stream> stream(pool.create_stream());
    const std::unique_ptr<Block> block(pool.allocate(4096, *stream));
    (void)pool.stats();
  };
  race("the pool is closed", [&] { pool.close(); }, {pair, pair, objects, objects});
}

void blocks() {
  Pool pool{std::string(kName)};
  const std::unique_ptr<Stream> stream(pool.create_stream());
  const std::unique_ptr<Block> block(pool.allocate(4096, *stream));
  const std::string bytes(4096, 'x');
  race("the block has been freed", [&] { block->close(); },
       {[&] { block->write(bytes.data(), bytes.size()); }, [&] { block->fill(1); },
        [&] { (void)block->read(); }, [&] { block->record_stream(0); }});
}

void streams() {
  Pool pool{std::string(kName)};
  const std::unique_ptr<Stream> stream(pool.create_stream());
  race("the stream is closed", [&] { stream->close(); },
       {[&] { stream->synchronize(); }, [&] { pool.free(pool.malloc(512, *stream)); },
        [&] { delete pool.allocate(512, *stream); }, [&] { (void)pool.capture_id(*stream); }});
}

/// The content of a block stays usable while its pool, and with it its stream, is closed.
void contents() {
  Pool pool{std::string(kName)};
  const std::unique_ptr<Stream> stream(pool.create_stream());
  const std::unique_ptr<Block> block(pool.allocate(4096, *stream));
  const auto use = [&] {
    block->fill(3);
    demand(block->read(5, 1)[0] == 3, "another content");
    (void)pool.stats();
  };
  race("the pool is closed", [&] { pool.close(); }, {use, use});
  block->fill(4);
  demand(stream->is_closed() && block->read(6, 1)[0] == 4, "another content");
}

}  // namespace

int main(int count, char** arguments) try {
  if (count > 1) seconds = std::chrono::milliseconds(1000 * std::atoi(arguments[1]));
  const int rounds = again(gates) + again(pools) + again(blocks) + again(streams) + again(contents);
  demand(sim_faults(kDevice) == 0, sim_last_fault(kDevice).c_str());
  // Nothing is left: a device in use cannot be configured.
  gpupool_sim_config_t config{};
  config.struct_size = sizeof config;
  sim_configure(kDevice, config);
  std::printf("C++: %d races passed\n", rounds);
} catch (const Failure& failure) {
  demand(false, failure.details.message);
}
