// SPDX-License-Identifier: Apache-2.0
// The cached paths under Google Benchmark, for its statistics and its counters.
//
//   gpupool_benchmark [--benchmark_filter=...] [TRACE...]      traces as plain text
#include <benchmark/benchmark.h>

#include <memory>

#include "peers/gpupool.hpp"

namespace {

using gpupool_bench::Churn;
using gpupool_bench::Gpupool;
using gpupool_bench::Trace;

/// The pool that the threads of a benchmark share, with a stream for each or one for all.
struct Shared {
  Gpupool pool{0};
  std::vector<gpupool_stream_t> streams;
};

/// Arguments: bytes, and whether all threads use one stream.
void pair(benchmark::State& state) {
  static std::unique_ptr<Shared> shared;
  const auto bytes = static_cast<uint64_t>(state.range(0));
  const bool is_one_stream = state.range(1) != 0;
  if (state.thread_index() == 0) {
    shared = std::make_unique<Shared>();
    for (int i = 0; i < state.threads(); ++i) shared->streams.push_back(shared->pool.new_stream());
  }
  // The first iteration begins when all threads have come: only then is `shared` there for them.
  gpupool_stream_t stream = 0;
  for (auto _ : state) {
    if (stream == 0) stream = shared->streams[is_one_stream ? 0 : static_cast<size_t>(state.thread_index())];
    shared->pool.free(gpupool_bench::must_malloc(shared->pool, bytes, stream), bytes, stream);
  }
  if (state.thread_index() == 0) shared.reset();
}

/// Argument: live blocks.
void churn(benchmark::State& state) {
  const auto live_blocks = static_cast<uint64_t>(state.range(0));
  Churn<Gpupool> churn(live_blocks, gpupool_bench::churn_size(live_blocks));
  for (auto _ : state) churn.replace();
}

/// One iteration is a pass of a warm pool.
void replay(benchmark::State& state, const Trace& trace) {
  gpupool_bench::ReplayOptions options;
  gpupool_bench::Replay<Gpupool> replay(trace, options);
  replay.run_pass();
  for (auto _ : state) replay.run_pass();
  state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(trace.events.size()));
}

}  // namespace

// One size alone, and programs have many.
BENCHMARK(pair)->Name("floor/pair")->ArgsProduct({{4 << 10, 1 << 20}, {0}})->UseRealTime();
BENCHMARK(pair)->Name("floor/pair")->ArgsProduct({{64 << 10}, {0, 1}})->ThreadRange(2, 16)->UseRealTime();
BENCHMARK(churn)->RangeMultiplier(10)->Range(1000, 1000000);

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  std::vector<Trace> traces;
  for (int i = 1; i < argc; ++i) traces.push_back(gpupool_bench::load_trace(argv[i]));
  for (const Trace& trace : traces) {
    benchmark::RegisterBenchmark(("replay/" + trace.name).c_str(), replay, trace);
  }
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
