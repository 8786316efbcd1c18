// SPDX-License-Identifier: Apache-2.0
// The functions that PyTorch calls through pointers, called as PyTorch does: with its C++ types, on several
// devices, with graph pools, until memory runs out.
#include <gpupool/torch.h>

#include <functional>
#include <stdexcept>
#include <string>
#include <utility>

#include "support/check.h"

namespace {

using MempoolId = std::pair<uint64_t, uint64_t>;

constexpr size_t kMiB = size_t{1} << 20;
void* const kStream = reinterpret_cast<void*>(16);
void* const kOther = reinterpret_cast<void*>(32);

// PyTorch gets the hooks as addresses, and has types of its own for them.
template <typename Hook, typename Function>
Hook as_hook(Function* function) {
  return reinterpret_cast<Hook>(reinterpret_cast<uintptr_t>(function));
}
using Begin = void (*)(int, MempoolId, std::function<bool(void*)>);
using End = void (*)(int, MempoolId);
const auto begin_pool = as_hook<Begin>(&gpupool_torch_begin_allocate_to_pool);
const auto end_pool = as_hook<End>(&gpupool_torch_end_allocate_to_pool);
const auto release_pool = as_hook<End>(&gpupool_torch_release_pool);

gpupool_stats_t stats(int device) {
  gpupool_t* pool = nullptr;
  OK(gpupool_default_pool(device, &pool));
  return stats_of(pool);
}

std::string thrown(const std::function<void()>& call) {
  try {
    call();
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

void test_blocks() {
  CHECK(gpupool_torch_alloc(0, 0, nullptr) == nullptr);
  void* block = gpupool_torch_alloc(1000, 1, kStream);
  REQUIRE(block != nullptr);
  CHECK(stats(1).all.allocated_bytes.current == 1024);
  size_t size = 0;
  CHECK(gpupool_torch_base_alloc(static_cast<char*>(block) + 700, &size) == block && size == 1024);
  gpupool_torch_record_stream(block, kOther);
  gpupool_torch_free(block, 1000, 1, kStream);
  CHECK(stats(1).all.allocated_bytes.current == 0);
  // Not live any more: nothing happens, and it is its own base.
  gpupool_torch_free(block, 1000, 1, kStream);
  gpupool_torch_record_stream(block, kOther);
  CHECK(gpupool_torch_base_alloc(block, &size) == block && size == 0);
  gpupool_torch_free(nullptr, 0, 1, kStream);
  CHECK(stats(1).all.allocated_bytes.current == 0);
  CHECK(stats(1).all.reserved_bytes.current != 0);
  gpupool_torch_reset();
  CHECK(stats(1).all.reserved_bytes.current == 0);
}

void test_shortage() {
  gpupool_torch_memory_fraction(0.25, 2);
  const uint64_t limit = gpupool_torch_limit(2);
  CHECK(limit == stats(2).limit_bytes && limit > 0);
  char text[2048];
  CHECK(gpupool_torch_alloc(limit + kMiB, 2, nullptr) == nullptr);
  CHECK(gpupool_torch_explain(limit + kMiB, 2, text, sizeof text) == 1);
  CHECK(std::string(text).rfind("CUDA out of memory. Tried to allocate ", 0) == 0);
  CHECK(std::string(text).find(" GiB. GPU 2 has a total capacity of ") != std::string::npos);
  char cut[8];
  (void)gpupool_torch_explain(kMiB, 2, cut, sizeof cut);
  CHECK(std::string(cut) == "CUDA ou");
  CHECK(thrown([&] { gpupool_torch_alloc_or_throw(limit + kMiB, 2, nullptr); }) == text);
  CHECK(gpupool_torch_alloc_or_throw(0, 2, nullptr) == nullptr);
  CHECK(gpupool_torch_alloc(size_t{1} << 60, 2, nullptr) == nullptr);
  CHECK(gpupool_torch_explain(size_t{1} << 60, 2, text, sizeof text) == 1);
  CHECK(std::string(text).rfind("CUDA out of memory. Tried to allocate more than 1EB memory.", 0) == 0);
  // Also what is far beyond any device, and yet a size.
  CHECK(gpupool_torch_alloc(size_t{1} << 47, 2, nullptr) == nullptr);
  CHECK(gpupool_torch_explain(size_t{1} << 47, 2, text, sizeof text) == 1);
  CHECK(std::string(text).rfind("CUDA out of memory. Tried to allocate 131072.00 GiB.", 0) == 0);
  // Other failures are no shortage.
  CHECK(gpupool_torch_alloc(1, 77, nullptr) == nullptr);
  CHECK(gpupool_torch_explain(1, 77, text, sizeof text) == 0);
  CHECK(std::string(text).rfind("gpupool: ", 0) == 0);
  void* live = gpupool_torch_alloc(64 * kMiB, 2, nullptr);
  CHECK(thrown([] { gpupool_torch_memory_fraction(0.0, 2); }).find("gpupool: ") == 0);
  CHECK(thrown([] { gpupool_torch_memory_fraction(1.5, 2); }).find("can be 0 to 1") != std::string::npos);
  CHECK(gpupool_torch_limit(2) == limit);
  gpupool_torch_free(live, 64 * kMiB, 2, nullptr);
}

// What a graph allocates and frees is used again by that graph only, and all is given back with it.
void test_graph_pools() {
  const MempoolId id{0, 7};
  const gpupool_torch_mempool_t number{0, 7};
  begin_pool(3, id, [](void* stream) { return stream == kStream; });
  void* inside = gpupool_torch_alloc(kMiB, 3, kStream);
  void* outside = gpupool_torch_alloc(kMiB, 3, kOther);
  CHECK(stats(3).all.allocated_bytes.current == kMiB);
  gpupool_torch_free(inside, kMiB, 3, kStream);
  CHECK(gpupool_torch_alloc(kMiB, 3, kStream) == inside);
  end_pool(3, id);
  gpupool_torch_free(inside, kMiB, 3, kStream);
  void* later = gpupool_torch_alloc(kMiB, 3, kStream);
  CHECK(later != inside);

  CHECK(gpupool_torch_pool_use_count(3, number) == 1);
  begin_pool(3, id, nullptr);  // another graph shares the pool
  CHECK(gpupool_torch_alloc(kMiB, 3, kStream) == inside);
  end_pool(3, id);
  end_pool(3, id);  // once too often
  CHECK(gpupool_torch_pool_use_count(3, number) == 2);
  gpupool_t* pools[2] = {};
  gpupool_torch_mempool_t ids[2];
  CHECK(gpupool_torch_pools(3, pools, ids, 2) == 2);
  CHECK(ids[0].second == 0 && ids[1].second == 7);
  CHECK(stats_of(pools[1]).all.allocated_bytes.current == kMiB);
  // A graph that runs again expects its memory where it was, also what is free in between.
  const uint64_t kept = stats_of(pools[1]).all.reserved_bytes.current;
  gpupool_torch_free(inside, kMiB, 3, kStream);
  gpupool_torch_reset();
  CHECK(kept != 0 && stats_of(pools[1]).all.reserved_bytes.current == kept);
  begin_pool(3, id, nullptr);
  CHECK(gpupool_torch_alloc(kMiB, 3, kStream) == inside);
  end_pool(3, id);
  release_pool(3, id);
  release_pool(3, id);
  release_pool(3, id);
  release_pool(3, id);  // once too often
  CHECK(gpupool_torch_pools(3, nullptr, nullptr, 0) == 1);
  // Its last block outlives it.
  CHECK(gpupool_torch_base_alloc(later, nullptr) == later);
  gpupool_torch_free(inside, kMiB, 3, kStream);
  FAILS(GPUPOOL_ERROR_INVALID_ARGUMENT, gpupool_free(pools[1], 512, 0));
  gpupool_torch_free(outside, kMiB, 3, kOther);
  gpupool_torch_free(later, kMiB, 3, kStream);
  CHECK(stats(3).all.allocated_bytes.current == 0);
}

// The limit holds for the default pool and those of graphs together, and moves to where it is needed.
void test_shared_limit() {
  const MempoolId id{1, 0};
  gpupool_torch_memory_fraction(0.5, 4);
  const uint64_t limit = gpupool_torch_limit(4);
  const size_t half = limit / 2 / kMiB * kMiB;
  void* live = gpupool_torch_alloc(half, 4, nullptr);
  begin_pool(4, id, nullptr);
  CHECK(gpupool_torch_alloc(half + half / 2, 4, nullptr) == nullptr);
  void* graph = gpupool_torch_alloc(half / 2, 4, nullptr);
  REQUIRE(graph != nullptr);
  end_pool(4, id);
  CHECK(gpupool_torch_limit(4) == limit);
  // The graph's pool was given all the room that there was; the default pool takes back what it left.
  void* more = gpupool_torch_alloc(half / 4, 4, nullptr);
  CHECK(more != nullptr);
  CHECK(stats(4).failed_mallocs == 0);
  CHECK(gpupool_torch_alloc(half / 2, 4, nullptr) == nullptr);
  CHECK(stats(4).failed_mallocs == 1);  // though it was tried twice
  gpupool_torch_free(graph, half / 2, 4, nullptr);
  release_pool(4, id);
  CHECK(gpupool_torch_limit(4) == limit && stats(4).limit_bytes == limit);
  gpupool_torch_free(more, half / 4, 4, nullptr);
  gpupool_torch_free(live, half, 4, nullptr);
  void* all = gpupool_torch_alloc(limit / 512 * 512 - 2 * kMiB, 4, nullptr);
  CHECK(all != nullptr);
  gpupool_torch_free(all, 0, 4, nullptr);
}

void test_retain() {
  const gpupool_torch_mempool_t id{0, 9};
  CHECK(gpupool_torch_pool_use_count(5, id) == 0);
  gpupool_torch_retain_pool(5, id);
  CHECK(gpupool_torch_pool_use_count(5, id) == 1);
  void* block = gpupool_torch_alloc(kMiB, 5, nullptr);  // not routed there
  CHECK(stats(5).all.allocated_bytes.current == kMiB);
  gpupool_torch_free(block, kMiB, 5, nullptr);
  gpupool_torch_release_pool(5, id);
  CHECK(gpupool_torch_pool_use_count(5, id) == 0);
  const std::string no_device = "gpupool: there is no device 99: default pools are of devices 0 to 63";
  CHECK(thrown([&] { gpupool_torch_retain_pool(99, id); }) == no_device);
  CHECK(thrown([&] { begin_pool(99, MempoolId{0, 1}, nullptr); }) == no_device);
}

struct Tag {
  Tag(const char* name, int keep) { status = gpupool_torch_tag(name, keep, &alloc, &free); }
  gpupool_torch_alloc_fn_t alloc = nullptr;
  gpupool_torch_free_fn_t free = nullptr;
  gpupool_status_t status;
};

gpupool_t* only_pool(const char* tag) {
  gpupool_t* pool = nullptr;
  CHECK(gpupool_torch_tag_pools(tag, &pool, 1) == 1);
  return pool;
}

// A tag's memory sleeps apart from all other, and what is to be kept stays even where the rest is dropped.
void test_tags() {
  const Tag weights("weights", 1);
  const Tag scratch("weights", 0);
  const Tag cache("kv_cache", 0);
  CHECK(weights.status == GPUPOOL_SUCCESS && weights.alloc == Tag("weights", 7).alloc);
  CHECK(weights.alloc != scratch.alloc && weights.free == scratch.free && weights.free != cache.free);
  CHECK(gpupool_torch_tag_pools(nullptr, nullptr, 0) == 0);
  void* kept = weights.alloc(3 * kMiB, 6, kStream);
  void* dropped = scratch.alloc(3 * kMiB, 6, kStream);
  void* other = cache.alloc(5 * kMiB, 6, kStream);
  REQUIRE(kept != nullptr && dropped != nullptr && other != nullptr);
  CHECK(weights.alloc(0, 6, kStream) == nullptr);
  gpupool_t* pool = only_pool("weights");
  CHECK(gpupool_torch_tag_pools(nullptr, nullptr, 0) == 2);
  gpupool_sleep_options_t options{};
  options.struct_size = sizeof options;
  options.mode = GPUPOOL_SLEEP_MODE_DROP;
  gpupool_sleep_result_t result{};
  result.struct_size = sizeof result;
  OK(gpupool_sleep_tag("weights", &options, &result));
  CHECK(result.pools == 1 && result.saved_bytes == 3 * kMiB && result.dropped_bytes == 3 * kMiB);
  CHECK(gpupool_torch_asleep_bytes(6) == stats_of(pool).asleep_bytes && stats_of(pool).asleep_bytes != 0);
  CHECK(gpupool_torch_asleep_bytes(5) == 0 && gpupool_torch_asleep_bytes(77) == 0);
  CHECK(stats_of(only_pool("kv_cache")).all.reserved_bytes.current != 0);
  // No shortage: PyTorch would empty its cache, and try again.
  CHECK(thrown([&] { (void)weights.alloc(kMiB, 6, kStream); }) ==
        "gpupool: the pool 'weights' is asleep: wake it first");
  weights.free(dropped, 3 * kMiB, 6, kStream);
  OK(gpupool_wake_tag("weights", nullptr, nullptr));
  weights.free(kept, 3 * kMiB, 6, kStream);
  cache.free(other, 5 * kMiB, 6, kStream);
  cache.free(nullptr, 0, 6, kStream);
  CHECK(stats_of(pool).all.reserved_bytes.current == 0);  // PyTorch has a cache of its own
  CHECK(thrown([&] { (void)weights.alloc(kMiB, 77, kStream); }).find("there is no device 77") !=
        std::string::npos);
}

void test_tags_share_the_limit_and_keep_a_margin() {
  const Tag tag("bounded", 0);
  gpupool_torch_memory_fraction(0.25, 7);
  const uint64_t limit = gpupool_torch_limit(7);
  CHECK(tag.alloc(limit + kMiB, 7, nullptr) == nullptr);
  void* live = gpupool_torch_alloc(limit / 2, 7, nullptr);
  CHECK(tag.alloc(limit - kMiB, 7, nullptr) == nullptr);
  gpupool_device_info_t info{};
  info.struct_size = sizeof info;
  OK(gpupool_device_info(GPUPOOL_BACKEND_AUTO, 7, &info));
  gpupool_torch_tag_margin(info.free_bytes - kMiB);
  CHECK(tag.alloc(2 * kMiB, 7, nullptr) == nullptr);
  void* small = tag.alloc(kMiB, 7, nullptr);
  CHECK(small != nullptr);
  gpupool_torch_tag_margin(0);
  tag.free(small, kMiB, 7, nullptr);
  gpupool_torch_free(live, limit / 2, 7, nullptr);
}

void test_names_of_tags() {
  CHECK(Tag(nullptr, 0).status == GPUPOOL_ERROR_INVALID_ARGUMENT);
  CHECK(Tag("", 0).status == GPUPOOL_ERROR_INVALID_ARGUMENT);
  CHECK(Tag(std::string(64, 'x').c_str(), 0).status == GPUPOOL_ERROR_INVALID_ARGUMENT);
  CHECK(Tag(std::string(63, 'x').c_str(), 0).alloc != nullptr);
  gpupool_status_t status = GPUPOOL_SUCCESS;
  int made = 0;
  while (status == GPUPOOL_SUCCESS && made < 100) {
    const Tag tag(("tag " + std::to_string(made)).c_str(), 0);
    status = tag.status;
    CHECK((tag.alloc != nullptr) == (status == GPUPOOL_SUCCESS));
    if (status == GPUPOOL_SUCCESS) ++made;
  }
  CHECK(status == GPUPOOL_ERROR_UNAVAILABLE && made == 60);
  CHECK(Tag("weights", 0).status == GPUPOOL_SUCCESS);
}

}  // namespace

int main() {
  gpupool_torch_init(0);
  const char* backend = getenv("GPUPOOL_BACKEND");
  const bool is_sim = backend != nullptr && std::string(backend) == "sim";
  CHECK(thrown([] { gpupool_torch_init(1); }).empty() != is_sim);
  if (!is_sim) {
    setenv("GPUPOOL_LIMIT", "1000000000000000000", 1);
    CHECK(thrown([] {
            gpupool_torch_init(1);
          }).rfind("gpupool: GPUPOOL_LIMIT is 1000000000000000000 bytes, more than", 0) == 0);
    setenv("GPUPOOL_LIMIT", "much", 1);
    CHECK(thrown([] { gpupool_torch_init(1); }).rfind("gpupool: GPUPOOL_LIMIT: limit is \"much\"", 0) == 0);
  }
  if (!is_sim) return finish();  // the rest needs many devices and streams of any name
  test_blocks();
  test_shortage();
  test_graph_pools();
  test_shared_limit();
  test_retain();
  test_tags();
  test_tags_share_the_limit_and_keep_a_margin();
  test_names_of_tags();
  return finish();
}
