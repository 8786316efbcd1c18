// SPDX-License-Identifier: Apache-2.0
// What is freed during a capture while other streams use it: it is free again after a join, and not before.
#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <set>

#include "pytorch.hpp"

namespace {

using Nodes = std::vector<cudaGraphNode_t>;

class Joins : public PyTorch {
 protected:
  static constexpr size_t kSize = 4096;

  void SetUp() override {
    PyTorch::SetUp();
    third = new_stream(0);
    scratch.emplace(torch->allocate(kSize));
    fake_cuda().begin_capture(number(main), 0);
    begin(id);
  }

  void TearDown() override {
    EXPECT_TRUE(fake_cuda().end_capture(number(main)));
    torch->endAllocateToPool(0, id);
  }

  void work(cudaStream_t stream) const { EXPECT_TRUE(is_usable(0, scratch->get(), kSize, stream)); }

  /// What comes next on `later` comes after what is on `earlier`.
  static void join(cudaStream_t earlier, cudaStream_t later) {
    cudaEvent_t event = nullptr;
    EXPECT_EQ(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), cudaSuccess);
    EXPECT_EQ(cudaEventRecord(event, earlier), cudaSuccess);
    EXPECT_EQ(cudaStreamWaitEvent(later, event, 0), cudaSuccess);
    EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
  }

  c10::DataPtr tensor(cudaStream_t stream) const {
    stand_in::set_current_stream(stream);
    return torch->allocate(kSize);
  }

  /// Frees a tensor that a stream still works on. Returns where it was.
  void* free_in_use(c10::DataPtr tensor, cudaStream_t user) {
    work(user);
    torch->recordStream(tensor, c10::cuda::CUDAStream(user));
    return tensor.get();
  }

  static Nodes frontier(cudaStream_t stream) {
    cudaStreamCaptureStatus status{};
    unsigned long long capture = 0;
    const cudaGraphNode_t* nodes = nullptr;
    size_t count = 0;
    EXPECT_EQ(cudaStreamGetCaptureInfo(stream, &status, &capture, nullptr, &nodes, nullptr, &count),
              cudaSuccess);
    return {nodes, nodes + count};
  }

  /// Everything that the stream's next work comes after.
  static std::set<cudaGraphNode_t> past(cudaStream_t stream) {
    std::set<cudaGraphNode_t> all;
    for (Nodes ahead = frontier(stream); !ahead.empty();) {
      const cudaGraphNode_t node = ahead.back();
      ahead.pop_back();
      if (!all.insert(node).second) continue;
      size_t count = 0;
      EXPECT_EQ(cudaGraphNodeGetDependencies(node, nullptr, nullptr, &count), cudaSuccess);
      ahead.resize(ahead.size() + count);
      EXPECT_EQ(cudaGraphNodeGetDependencies(node, ahead.data() + ahead.size() - count, nullptr, &count),
                cudaSuccess);
    }
    return all;
  }

  const Id id{1, 0};
  cudaStream_t third = nullptr;
  std::optional<c10::DataPtr> scratch;
};

TEST_F(Joins, AreWaitedFor) {
  const c10::DataPtr first = tensor(main);
  c10::DataPtr data = tensor(main);
  work(main);
  join(main, side);
  void* was = free_in_use(std::move(data), side);
  const c10::DataPtr before = tensor(main);
  EXPECT_NE(before.get(), was);
  join(side, main);
  const c10::DataPtr after = tensor(main);
  EXPECT_EQ(after.get(), was);
}

TEST_F(Joins, ThatWereBeforeTheFreeCount) {
  c10::DataPtr data = tensor(main);
  join(main, side);
  work(side);
  torch->recordStream(data, c10::cuda::CUDAStream(side));
  join(side, main);
  work(main);
  void* was = data.get();
  data = tensor(side);  // frees it
  EXPECT_EQ(tensor(main).get(), was);
}

TEST_F(Joins, OfAllUsersAreNeeded) {
  c10::DataPtr data = tensor(main);
  join(main, side);
  join(main, third);
  work(third);
  torch->recordStream(data, c10::cuda::CUDAStream(third));
  void* was = free_in_use(std::move(data), side);
  join(side, main);
  const c10::DataPtr one = tensor(main);
  EXPECT_NE(one.get(), was);
  join(third, side);
  work(side);
  join(side, main);
  EXPECT_EQ(tensor(main).get(), was);
}

/// A stream may be asked where it is by its user alone.
TEST_F(Joins, OfWhatAnotherThreadFreesAreFoundByTheStreamsUser) {
  c10::DataPtr data = tensor(main);
  work(main);
  join(main, side);
  void* was = free_in_use(tensor(main), side);  // and by its own thread
  work(side);
  torch->recordStream(data, c10::cuda::CUDAStream(side));
  void* freed_elsewhere = data.get();
  std::thread::id other;
  std::thread([&] {
    other = std::this_thread::get_id();
    torch->raw_delete(data.release_context());
  }).join();
  EXPECT_FALSE(stand_in::has_asked(other, main));
  EXPECT_FALSE(stand_in::has_asked(other, side));
  const c10::DataPtr before = tensor(main);
  EXPECT_NE(before.get(), was);
  EXPECT_NE(before.get(), freed_elsewhere);
  join(side, main);
  const c10::DataPtr one = tensor(main);
  const c10::DataPtr two = tensor(main);
  EXPECT_EQ((std::set{one.get(), two.get()}), (std::set{was, freed_elsewhere}));
}

/// Another thread's stream is not asked, and what it used stays for the capture's end.
TEST_F(Joins, WithStreamsThatAnotherThreadNamedAreNotLookedFor) {
  c10::DataPtr data = tensor(main);
  void* was = data.get();
  join(main, side);
  work(side);
  std::thread([&] { torch->recordStream(data, c10::cuda::CUDAStream(side)); }).join();
  data = tensor(side);  // frees it
  const auto here = std::this_thread::get_id();
  EXPECT_TRUE(stand_in::has_asked(here, main));
  join(side, main);
  EXPECT_NE(tensor(main).get(), was);
}

TEST_F(Joins, DoNotHelpOtherStreams) {
  join(main, side);
  join(main, third);
  c10::DataPtr data = tensor(main);
  void* was = free_in_use(std::move(data), side);
  join(side, third);
  EXPECT_NE(tensor(third).get(), was);
  EXPECT_NE(tensor(main).get(), was);
}

TEST_F(Joins, DoNotCoverWorkFromBeforeTheCapture) {
  EXPECT_TRUE(fake_cuda().end_capture(number(main)));
  c10::DataPtr data = tensor(main);  // of the same pool
  fake_cuda().begin_capture(number(main), 0);
  join(main, side);
  void* was = free_in_use(std::move(data), side);
  join(side, main);
  EXPECT_NE(tensor(main).get(), was);
}

TEST_F(Joins, DoNotCoverStreamsOutsideOfTheCapture) {
  c10::DataPtr data = tensor(main);
  join(main, side);
  torch->recordStream(data, c10::cuda::CUDAStream(third));
  void* was = free_in_use(std::move(data), side);
  join(side, main);
  EXPECT_NE(tensor(main).get(), was);
}

TEST_F(Joins, AreForgottenWhereAStreamsDependenciesAreReplaced) {
  work(main);
  Nodes start = frontier(main);
  join(main, side);
  c10::DataPtr data = tensor(main);
  void* was = free_in_use(std::move(data), side);
  EXPECT_NE(tensor(main).get(), was);  // here the pool follows the stream
  work(main);
  EXPECT_NE(tensor(main).get(), was);
  EXPECT_EQ(cudaStreamUpdateCaptureDependencies(main, start.data(), nullptr, start.size(),
                                                cudaStreamSetCaptureDependencies),
            cudaSuccess);
  EXPECT_NE(tensor(main).get(), was);
  join(side, main);
  EXPECT_NE(tensor(main).get(), was);
}

TEST_F(Joins, OfAnEarlierCaptureAreForgotten) {
  join(main, side);
  void* was = free_in_use(tensor(main), side);
  EXPECT_TRUE(fake_cuda().end_capture(number(main)));
  fake_cuda().begin_capture(number(main), 0);
  join(main, side);
  join(side, main);
  EXPECT_NE(tensor(main).get(), was);
}

TEST_F(Joins, TheDriversFailuresKeepTheBlock) {
  for (const char* call : {"cuStreamGetCaptureInfo_v2", "cuGraphNodeGetDependencies"}) {
    for (uint64_t index = 1; index <= 4; ++index) {
      c10::DataPtr data = tensor(main);
      work(main);
      join(main, side);
      fake_cuda().fail(call, index, 999);
      void* was = free_in_use(std::move(data), side);
      EXPECT_NE(tensor(main).get(), was) << call << index;
      join(side, main);
      fake_cuda().reset();
      work(main);
      (void)tensor(main);
    }
  }
}

/// Whatever is reused, its last work comes before the new owner's in the graph; and what is due does not
/// wait.
TEST_F(Joins, OfManyStreamsAreRightInAnyOrder) {
  struct Tensor {
    c10::DataPtr data;
    cudaStream_t stream;
    std::set<cudaStream_t> users;
  };
  struct Freed {
    cudaStream_t stream;
    std::set<cudaGraphNode_t> last;
    bool is_pending;
    bool is_due() const {
      const auto now = past(stream);
      return std::includes(now.begin(), now.end(), last.begin(), last.end());
    }
  };
  std::mt19937 random(3);
  const std::vector<cudaStream_t> streams{main, side, third, new_stream(0)};
  for (size_t i = 1; i < streams.size(); ++i) join(main, streams[i]);
  const auto pick = [&] { return streams[random() % streams.size()]; };
  std::map<void*, Freed> freed;
  std::vector<Tensor> live;
  int waited = 0;
  // The pool looks where a stream is at its mallocs, and when a block is freed that others use.
  const auto follow = [&](cudaStream_t stream) {
    for (auto& [address, each] : freed) {
      if (each.stream != stream || !each.is_pending || !each.is_due()) continue;
      each.is_pending = false;
      ++waited;
    }
  };
  for (int step = 0; step < 1500 && !HasFailure(); ++step) {
    const size_t which = live.empty() ? 0 : random() % live.size();
    const auto kind = random() % 8;
    if (kind < 2 || live.empty()) {
      cudaStream_t stream = pick();
      live.push_back({tensor(stream), stream, {}});
      const Tensor& made = live.back();
      follow(stream);
      const auto found = freed.find(made.data.get());
      if (found != freed.end()) {
        EXPECT_EQ(found->second.stream, made.stream);
        EXPECT_TRUE(found->second.is_due()) << step;
        freed.erase(found);
      }
    } else if (kind < 4) {
      cudaStream_t user = pick();
      live[which].users.insert(user);
      torch->recordStream(live[which].data, c10::cuda::CUDAStream(user));
    } else if (kind == 4) {
      Freed gone{live[which].stream, {}, false};
      for (cudaStream_t user : live[which].users) {
        const Nodes nodes = frontier(user);
        if (user != gone.stream) gone.last.insert(nodes.begin(), nodes.end());
      }
      gone.is_pending = !gone.is_due();
      if (!gone.last.empty()) follow(gone.stream);
      freed.insert_or_assign(live[which].data.get(), gone);
      live.erase(live.begin() + static_cast<long>(which));
    } else if (kind == 5) {
      join(pick(), pick());
    } else {
      work(pick());
    }
    const auto pending =
        std::count_if(freed.begin(), freed.end(), [](const auto& each) { return each.second.is_pending; });
    const auto stats = torch->getDeviceStats(0);
    EXPECT_EQ(stats.active_bytes[0].current - stats.allocated_bytes[0].current,
              pending * static_cast<long>(kSize))
        << step;
  }
  EXPECT_GT(waited, 50);
  live.clear();
}

}  // namespace
