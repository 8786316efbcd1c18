// SPDX-License-Identifier: Apache-2.0
// The host runs out of memory at each allocation of each of PyTorch's functions in turn: for that allocation
// only, or from there to the end of the call. A function then says so in the way of its header, and the next
// try succeeds. Those that can tell nobody have done their work by the next malloc, a free above all. In the
// end the device has everything back. Every try has its own process.
//
//   torch_host_memory sim|stand_in once|lasting [CALL [ALLOCATION]]
#include <gpupool/torch.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <new>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "attack/each_allocation.hpp"
#include "attack/short_host.hpp"
#include "support/check.h"

namespace attack {
namespace {

constexpr size_t kMiB = size_t{1} << 20;
constexpr size_t kMany = 2500;  // blocks, more than the library has room to remember
constexpr gpupool_torch_mempool_t kGraph{0, 7};
constexpr gpupool_torch_mempool_t kOtherGraph{0, 8};

bool is_sim = true;
bool is_lasting = false;

void fail_at(uint64_t allocation) {
  if (is_lasting) {
    fail_from_allocation(allocation);
  } else {
    fail_allocation(allocation);
  }
}

gpupool_device_info_t device(int number) {
  gpupool_device_info_t info{};
  info.struct_size = sizeof info;
  OK(gpupool_device_info(GPUPOOL_BACKEND_AUTO, number, &info));
  return info;
}

gpupool_t* default_pool(int number) {
  gpupool_t* pool = nullptr;
  OK(gpupool_default_pool(number, &pool));
  return pool;
}

void* pointer(gpupool_stream_t stream) {
  return reinterpret_cast<void*>(stream);
}

/// What calls work on: a process that uses PyTorch.
struct Desk {
  Desk() : free_at_start(device(0).free_bytes) {
    gpupool_t* pool = default_pool(0);
    for (gpupool_stream_t* stream : {&a, &b, &unseen}) OK(gpupool_stream_create(pool, stream));
    (void)gpupool_torch_pools(0, nullptr, nullptr, 0);
  }

  /// A live block of each stream but one, so that the pool has seen them.
  void furnish() {
    first = alloc(3 * kMiB, a);
    gpupool_torch_free(alloc(4 * kMiB, b), 0, 0, pointer(b));
    target = alloc(5 * kMiB, a);
  }

  void* alloc(size_t size, gpupool_stream_t stream) {
    void* block = gpupool_torch_alloc(size, 0, pointer(stream));
    REQUIRE(block != nullptr);
    return block;
  }

  /// A live block in a graph's pool.
  void furnish_graph() {
    furnish();
    gpupool_torch_begin_allocate_to_pool(0, kGraph, nullptr);
    in_graph = alloc(6 * kMiB, a);
    gpupool_torch_end_allocate_to_pool(0, kGraph);
  }

  void furnish_tag(int keep) {
    furnish();
    OK(gpupool_torch_tag("weights", keep, &tag_alloc, &tag_free));
    tagged = tag_alloc(7 * kMiB, 0, pointer(a));
    REQUIRE(tagged != nullptr);
  }

  /// Gives everything back, and looks whether it is.
  void finish() {
    gpupool_torch_free(gpupool_torch_alloc(512, 0, pointer(a)), 512, 0, pointer(a));  // what is owed is done
    for (void* block : {first, target, in_graph}) gpupool_torch_free(block, 0, 0, pointer(a));
    if (tagged != nullptr) tag_free(tagged, 0, 0, pointer(a));
    gpupool_torch_end_allocate_to_pool(0, kGraph);
    while (gpupool_torch_pool_use_count(0, kGraph) != 0) gpupool_torch_release_pool(0, kGraph);
    OK(gpupool_synchronize(default_pool(0)));
    CHECK(gpupool_torch_pools(0, nullptr, nullptr, 0) == 1);
    const gpupool_stats_t now = stats_of(default_pool(0));
    CHECK(now.all.allocated_bytes.current == 0);
    CHECK(now.all.active_bytes.current == 0);
    gpupool_torch_reset();
    const uint64_t left = free_at_start - device(0).free_bytes;
    if (left != 0) fprintf(stderr, "  %llu bytes are lost\n", left + 0ULL);
    CHECK(left == 0);
  }

  uint64_t free_at_start;
  uint64_t total = device(0).total_bytes;
  gpupool_stream_t a = 0;
  gpupool_stream_t b = 0;
  gpupool_stream_t unseen = 0;
  void* first = nullptr;
  void* target = nullptr;
  void* in_graph = nullptr;
  void* tagged = nullptr;
  gpupool_torch_alloc_fn_t tag_alloc = nullptr;
  gpupool_torch_free_fn_t tag_free = nullptr;
};

// ---- the calls

/// Of a try: done, or refused, as its header says, for want of memory on the host.
enum class End { kDone, kRefused };

struct Call {
  const char* name;
  void (*prepare)(Desk&);
  End (*run)(Desk&);
};

void nothing(Desk&) {}
void furnish(Desk& desk) {
  desk.furnish();
}
void furnish_graph(Desk& desk) {
  desk.furnish_graph();
}
void furnish_tag(Desk& desk) {
  desk.furnish_tag(0);
}
void furnish_kept(Desk& desk) {
  desk.furnish_tag(1);
}
void capture(Desk& desk) {
  desk.furnish();
  gpupool_torch_begin_allocate_to_pool(0, kGraph, nullptr);
}
/// Its graph's pool ended before its last block.
void outlive_graph(Desk& desk) {
  desk.furnish_graph();
  gpupool_torch_release_pool(0, kGraph);
}

End status_of(gpupool_status_t status) {
  return status == GPUPOOL_ERROR_HOST_OUT_OF_MEMORY ? End::kRefused : (OK(status), End::kDone);
}

/// What alloc gave: null only with the reason in words.
End given(void* block, void*& place, size_t size) {
  place = block;
  if (block != nullptr) return End::kDone;
  char text[512] = {};
  CHECK(gpupool_torch_explain(size, 0, text, sizeof text) == 0);
  (void)stop_failing();
  CHECK(gpupool_torch_explain(size, 0, text, sizeof text) == 0);
  if (!CHECK(std::string(text).find("memory") != std::string::npos)) fprintf(stderr, "  but: %s\n", text);
  return End::kRefused;
}

/// Calls a function that may throw, which is std::runtime_error with words, and nothing else.
template <typename Function>
End thrown_or_done(Function function) {
  try {
    function();
    return End::kDone;
  } catch (const std::runtime_error& error) {
    CHECK(std::string(error.what()).find("host") != std::string::npos);
    return End::kRefused;
  }
}

/// As thrown_or_done, and looks whether the block's free now waits for the stream.
End recorded(Desk& desk, void*& block, gpupool_stream_t stream) {
  const End end = thrown_or_done([&] { gpupool_torch_record_stream(block, pointer(stream)); });
  (void)stop_failing();
  if (end == End::kRefused || !is_sim) return end;
  gpupool_t* pools[2] = {};
  gpupool_t* pool = pools[gpupool_torch_pools(0, pools, nullptr, 2) - 1];
  OK(gpupool_sim_work(0, stream, 0, 0, 1'000'000'000));
  gpupool_torch_free(std::exchange(block, nullptr), 0, 0, pointer(desk.a));
  const gpupool_stats_t now = stats_of(pool);
  CHECK(now.all.active_bytes.current > now.all.allocated_bytes.current);
  return end;
}

void free_in(void*& block, gpupool_stream_t stream) {
  gpupool_torch_free(block, 0, 0, pointer(stream));
  block = nullptr;
}

/// More frees than a library can remember: a free may then wait, for as long as nobody has memory.
End free_many(Desk& desk) {
  std::vector<void*> blocks;
  (void)stop_failing();
  for (size_t i = 0; i < kMany; ++i) blocks.push_back(desk.alloc(512, desk.a));
  std::atomic<bool> is_over = false;
  std::thread helper([&] {
    while (!is_over) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      gpupool_torch_free(gpupool_torch_alloc(512, 0, pointer(desk.a)), 512, 0, pointer(desk.a));
    }
  });
  fail_from_allocation(0);
  for (void* block : blocks) gpupool_torch_free(block, 512, 0, pointer(desk.unseen));
  CHECK(stop_failing());
  is_over = true;
  helper.join();
  fail_allocation(kNever);
  return End::kDone;
}

/// Larger than std::function has room for, so that each copy allocates.
std::function<bool(void*)> large_filter() {
  return [numbers = std::array<uint64_t, 8>{}](void*) { return numbers[0] == 0; };
}

const Call kCalls[] = {
    // ---- memory
    {"alloc_first", nothing,
     [](Desk& d) { return given(gpupool_torch_alloc(kMiB, 0, pointer(d.a)), d.target, kMiB); }},
    {"alloc", furnish,
     [](Desk& d) { return given(gpupool_torch_alloc(9 * kMiB, 0, pointer(d.a)), d.in_graph, 9 * kMiB); }},
    {"alloc_unseen_stream", furnish,
     [](Desk& d) { return given(gpupool_torch_alloc(kMiB, 0, pointer(d.unseen)), d.in_graph, kMiB); }},
    {"alloc_in_graph", capture,
     [](Desk& d) { return given(gpupool_torch_alloc(kMiB, 0, pointer(d.a)), d.in_graph, kMiB); }},
    {"alloc_on_second_device", furnish,
     [](Desk& d) {
       void* block = nullptr;
       const End end = given(gpupool_torch_alloc(kMiB, 1, pointer(0)), block, kMiB);
       (void)stop_failing();
       gpupool_torch_free(block, kMiB, 1, pointer(0));
       CHECK(stats_of(default_pool(1)).all.allocated_bytes.current == 0);
       (void)d;
       return end;
     }},
    {"alloc_or_throw", furnish,
     [](Desk& d) {
       return thrown_or_done([&] { d.in_graph = gpupool_torch_alloc_or_throw(9 * kMiB, 0, pointer(d.a)); });
     }},
    {"alloc_or_throw_over_limit",
     [](Desk& d) {
       d.furnish();
       gpupool_torch_memory_fraction(0.05, 0);
     },
     [](Desk& d) {
       try {
         (void)gpupool_torch_alloc_or_throw(d.free_at_start / 2, 0, pointer(d.a));
         CHECK(!"it succeeded");
         return End::kDone;
       } catch (const std::runtime_error& error) {
         const std::string text = error.what();
         const bool is_told = text.rfind("CUDA out of memory. Tried to allocate ", 0) == 0;
         CHECK(is_told || text.find("host") != std::string::npos);
         return is_told ? End::kDone : End::kRefused;
       }
     }},
    {"free", furnish, [](Desk& d) { return free_in(d.target, d.a), End::kDone; }},
    {"free_on_another_stream", furnish, [](Desk& d) { return free_in(d.target, d.b), End::kDone; }},
    {"free_on_unseen_stream", furnish, [](Desk& d) { return free_in(d.target, d.unseen), End::kDone; }},
    {"free_in_graph", furnish_graph, [](Desk& d) { return free_in(d.in_graph, d.a), End::kDone; }},
    {"free_in_graph_on_unseen_stream", furnish_graph,
     [](Desk& d) { return free_in(d.in_graph, d.unseen), End::kDone; }},
    {"free_after_graph", outlive_graph, [](Desk& d) { return free_in(d.in_graph, d.a), End::kDone; }},
    {"free_after_graph_on_unseen_stream", outlive_graph,
     [](Desk& d) { return free_in(d.in_graph, d.unseen), End::kDone; }},
    {"free_many", furnish, free_many},
    {"explain",
     [](Desk& d) {
       d.furnish();
       CHECK(gpupool_torch_alloc(device(0).total_bytes * 2, 0, pointer(d.a)) == nullptr);
     },
     [](Desk&) {
       char text[512] = {};
       CHECK(gpupool_torch_explain(kMiB, 0, text, sizeof text) == 1);
       return End::kDone;
     }},
    {"record_stream", furnish, [](Desk& d) { return recorded(d, d.target, d.b); }},
    {"record_unseen_stream", furnish, [](Desk& d) { return recorded(d, d.target, d.unseen); }},
    {"record_stream_in_graph", furnish_graph, [](Desk& d) { return recorded(d, d.in_graph, d.unseen); }},
    {"base_alloc", furnish_graph,
     [](Desk& d) {
       size_t size = 0;
       CHECK(gpupool_torch_base_alloc(static_cast<char*>(d.in_graph) + 5, &size) == d.in_graph);
       CHECK(size == 6 * kMiB);
       return End::kDone;
     }},
    // ---- settings
    {"reset", furnish_graph, [](Desk&) { return gpupool_torch_reset(), End::kDone; }},
    {"memory_fraction", furnish,
     [](Desk&) { return thrown_or_done([] { gpupool_torch_memory_fraction(0.5, 0); }); }},
    {"limit",
     [](Desk& d) {
       d.furnish();
       gpupool_torch_memory_fraction(0.5, 0);
     },
     [](Desk& d) {
       CHECK(gpupool_torch_limit(0) == d.total / 2);
       return End::kDone;
     }},
    {"init", furnish,
     [](Desk&) {
       setenv("GPUPOOL_LIMIT", "1MiB", 1);
       try {
         gpupool_torch_init(1);
         return is_sim ? End::kRefused : End::kDone;
       } catch (const std::runtime_error& error) {
         const bool is_refused = std::string(error.what()).find("simulated") != std::string::npos;
         CHECK(is_refused ? is_sim : std::string(error.what()).find("host") != std::string::npos);
         return is_refused ? End::kDone : End::kRefused;
       }
     }},
    // ---- graphs
    {"begin", furnish,
     [](Desk&) { return thrown_or_done([] { gpupool_torch_begin_allocate_to_pool(0, kGraph, nullptr); }); }},
    {"begin_with_filter", furnish,
     [](Desk&) {
       const std::function<bool(void*)> filter = large_filter();
       return thrown_or_done([&] { gpupool_torch_begin_allocate_to_pool(0, kGraph, &filter); });
     }},
    {"begin_again", furnish_graph,
     [](Desk&) { return thrown_or_done([] { gpupool_torch_begin_allocate_to_pool(0, kGraph, nullptr); }); }},
    {"end", capture, [](Desk&) { return gpupool_torch_end_allocate_to_pool(0, kGraph), End::kDone; }},
    {"end_after_release",
     [](Desk& d) {
       capture(d);
       d.in_graph = d.alloc(6 * kMiB, d.a);
       free_in(d.in_graph, d.unseen);
       gpupool_torch_release_pool(0, kGraph);
     },
     [](Desk&) { return gpupool_torch_end_allocate_to_pool(0, kGraph), End::kDone; }},
    {"release", furnish_graph, [](Desk&) { return gpupool_torch_release_pool(0, kGraph), End::kDone; }},
    {"release_pending",
     [](Desk& d) {
       d.furnish_graph();
       free_in(d.in_graph, d.unseen);
       free_in(d.target, d.b);
     },
     [](Desk&) { return gpupool_torch_release_pool(0, kGraph), End::kDone; }},
    {"release_two",
     [](Desk& d) {
       d.furnish_graph();
       gpupool_torch_retain_pool(0, kOtherGraph);
       gpupool_torch_begin_allocate_to_pool(0, {0, 9}, nullptr);
       gpupool_torch_release_pool(0, {0, 9});
       gpupool_torch_release_pool(0, kGraph);
       gpupool_torch_release_pool(0, kOtherGraph);
     },
     [](Desk&) {
       return gpupool_torch_end_allocate_to_pool(0, {0, 9}), End::kDone;
     }},
    {"retain", furnish, [](Desk&) { return thrown_or_done([] { gpupool_torch_retain_pool(0, kGraph); }); }},
    {"pool_use_count", furnish_graph,
     [](Desk&) { return CHECK(gpupool_torch_pool_use_count(0, kGraph) == 1), End::kDone; }},
    {"pools", furnish_graph,
     [](Desk&) {
       gpupool_t* pools[2] = {};
       gpupool_torch_mempool_t ids[2] = {};
       CHECK(gpupool_torch_pools(0, pools, ids, 2) == 2);
       CHECK(pools[1] != nullptr && ids[1].second == kGraph.second);
       return End::kDone;
     }},
    // ---- tags
    {"tag", furnish,
     [](Desk& d) {
       return status_of(
           gpupool_torch_tag("a name that std::string has no room for", 0, &d.tag_alloc, &d.tag_free));
     }},
    {"tag_alloc_first",
     [](Desk& d) {
       d.furnish();
       OK(gpupool_torch_tag("weights", 0, &d.tag_alloc, &d.tag_free));
     },
     [](Desk& d) { return thrown_or_done([&] { d.tagged = d.tag_alloc(8 * kMiB, 0, pointer(d.a)); }); }},
    {"tag_alloc_kept_first",
     [](Desk& d) {
       d.furnish();
       OK(gpupool_torch_tag("weights", 1, &d.tag_alloc, &d.tag_free));
     },
     [](Desk& d) { return thrown_or_done([&] { d.tagged = d.tag_alloc(8 * kMiB, 0, pointer(d.a)); }); }},
    {"tag_alloc_kept",
     [](Desk& d) {
       d.furnish_tag(1);
       d.tag_free(d.tagged, 0, 0, pointer(d.a));
       d.tagged = nullptr;
     },
     [](Desk& d) { return thrown_or_done([&] { d.tagged = d.tag_alloc(8 * kMiB, 0, pointer(d.unseen)); }); }},
    {"tag_free", furnish_tag,
     [](Desk& d) { return d.tag_free(std::exchange(d.tagged, nullptr), 0, 0, pointer(d.a)), End::kDone; }},
    {"tag_free_on_unseen_stream", furnish_tag,
     [](Desk& d) {
       return d.tag_free(std::exchange(d.tagged, nullptr), 0, 0, pointer(d.unseen)), End::kDone;
     }},
    {"tag_free_kept", furnish_kept,
     [](Desk& d) { return d.tag_free(std::exchange(d.tagged, nullptr), 0, 0, pointer(d.a)), End::kDone; }},
    {"tag_pools", furnish_tag,
     [](Desk&) {
       gpupool_t* pool = nullptr;
       CHECK(gpupool_torch_tag_pools("weights", &pool, 1) == 1 && pool != nullptr);
       return End::kDone;
     }},
    {"tag_margin", furnish_tag, [](Desk&) { return gpupool_torch_tag_margin(kMiB), End::kDone; }},
    {"asleep_bytes", furnish_tag,
     [](Desk&) { return CHECK(gpupool_torch_asleep_bytes(0) == 0), End::kDone; }},
};

// ---- one try

int run_try(const Call& call, uint64_t allocation) {
  Desk desk;
  call.prepare(desk);
  fail_at(allocation);
  bool reached = false;
  try {
    const End end = call.run(desk);
    reached = stop_failing();
    if (end == End::kRefused) {
      CHECK(reached);
      CHECK(call.run(desk) == End::kDone);
    }
  } catch (const std::bad_alloc&) {
    (void)stop_failing();
    CHECK(!"std::bad_alloc came out");
  }
  if (check_failures != 0) return EXIT_FAILURE;  // what follows would tell the same again
  desk.finish();
  if (check_failures != 0) return EXIT_FAILURE;
  return reached ? EXIT_SUCCESS : kNotReached;
}

int run(int count, char** words) {
  const std::set<std::string> machines = {"sim", "stand_in"};
  const std::set<std::string> lastings = {"once", "lasting"};
  if (count < 3 || !machines.contains(words[1]) || !lastings.contains(words[2])) {
    fprintf(stderr, "usage: torch_host_memory sim|stand_in once|lasting [CALL [ALLOCATION]]\n");
    return 2;
  }
  is_sim = words[1] == std::string("sim");
  is_lasting = words[2] == std::string("lasting");
  setenv("GPUPOOL_BACKEND", is_sim ? "sim" : "cuda", 1);
  for (const Call& call : kCalls) {
    if (count > 3 && std::string(words[3]) != call.name) continue;
    if (count > 4) return run_try(call, std::strtoull(words[4], nullptr, 10));
    try_each_allocation(call.name, 20, [&](uint64_t allocation) { return run_try(call, allocation); });
  }
  return finish();
}

}  // namespace
}  // namespace attack

int main(int count, char** words) {
  return attack::run(count, words);
}
