// SPDX-License-Identifier: Apache-2.0
// Tensors between processes. One process may be both ends: it then has the memory twice.
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <utility>

#include "pytorch.hpp"

namespace {

class Ipc : public PyTorch {
 protected:
  static std::string failure(const std::function<void()>& call) {
    try {
      call();
    } catch (const c10::Error& error) {
      return error.what();
    }
    return "";
  }
  static bool has(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

  static uint64_t mappings() { return fake_cuda().live().mappings; }
  static unsigned char* bytes(void* ptr) { return static_cast<unsigned char*>(ptr); }
};

TEST_F(Ipc, WhatOneWritesTheOtherReads) {
  auto* const tensor = bytes(torch->raw_alloc(30 * kMiB));
  const auto sent = torch->shareIpcHandle(tensor + kMiB);
  EXPECT_EQ(sent.offset, kMiB);
  EXPECT_EQ(torch->shareIpcHandle(tensor).handle, sent.handle);
  const auto received = torch->getIpcDevPtr(sent.handle);
  auto* const theirs = bytes(received.get());
  ASSERT_NE(theirs, tensor);
  tensor[kMiB] = 7;
  EXPECT_EQ(theirs[sent.offset], 7);
  theirs[30 * kMiB - 1] = 8;
  EXPECT_EQ(tensor[30 * kMiB - 1], 8);
}

TEST_F(Ipc, TensorsOfOneBlockAreMappedOnceUntilTheLastGoes) {
  void* const tensor = torch->raw_alloc(3 * kMiB);
  const std::string handle = torch->shareIpcHandle(tensor).handle;
  const uint64_t before = mappings();
  auto first = torch->getIpcDevPtr(handle);
  const uint64_t with_import = mappings();
  EXPECT_GT(with_import, before);
  auto second = torch->getIpcDevPtr(handle);
  EXPECT_EQ(second.get(), first.get());
  first.reset();
  EXPECT_EQ(mappings(), with_import);
  second.reset();
  EXPECT_EQ(mappings(), before);
}

TEST_F(Ipc, AFreedTensorCannotBeReceivedAndStaysWithThoseWhoHaveIt) {
  auto* const tensor = bytes(torch->raw_alloc(3 * kMiB));
  const std::string handle = torch->shareIpcHandle(tensor).handle;
  auto received = torch->getIpcDevPtr(handle);
  std::memset(tensor, 5, 3 * kMiB);
  torch->raw_delete(tensor);
  void* const other = torch->raw_alloc(3 * kMiB);
  std::memset(other, 6, 3 * kMiB);
  EXPECT_EQ(bytes(received.get())[kMiB], 5);
  torch->raw_delete(other);
  received.reset();
  EXPECT_TRUE(has(failure([&] { (void)torch->getIpcDevPtr(handle); }), "has freed the block"));
  torch->emptyCache({0, 0});
  EXPECT_EQ(reserved(), 0);
}

TEST_F(Ipc, AnotherAllocatorsHandlesAreRefused) {
  for (const std::string& handle :
       {std::string(), std::string("c\xff\xfe\x01"), std::string("gpupool-2 5 6 7 8")}) {
    const std::string why = failure([&] { (void)torch->getIpcDevPtr(handle); });
    EXPECT_TRUE(has(why, "another allocator")) << why;
    for (const char letter : why) EXPECT_TRUE(letter == '\n' || (letter >= ' ' && letter <= '~')) << why;
  }
  EXPECT_TRUE(has(failure([&] { (void)torch->shareIpcHandle(this); }), "in no live block"));
}

TEST_F(Ipc, BlocksOfGraphsAndMemPoolsAreSharedToo) {
  begin({1, 0}, side);
  auto* const graph = bytes(torch->raw_alloc_with_stream(3 * kMiB, side));
  const auto sent = torch->shareIpcHandle(graph);
  const auto received = torch->getIpcDevPtr(sent.handle);
  graph[9] = 4;
  EXPECT_EQ(bytes(received.get())[sent.offset + 9], 4);
}

TEST_F(Ipc, AnImportEndsDuringACaptureAndLeavesItAlone) {
  void* const tensor = torch->raw_alloc(3 * kMiB);
  torch->raw_delete(torch->raw_alloc_with_stream(kMiB, side));  // the pool knows the stream
  torch->emptyCache({0, 0});
  const uint64_t before = mappings();
  auto received = torch->getIpcDevPtr(torch->shareIpcHandle(tensor).handle);
  fake_cuda().begin_capture(number(side), 0);
  received.reset();
  EXPECT_EQ(mappings(), before);
  EXPECT_EQ(fake_cuda().end_capture(number(side)), 1) << "the capture was disturbed";
}

TEST_F(Ipc, PeersMayUseWhatIsReceived) {
  cudaStream_t theirs = new_stream(1);
  void* const tensor = torch->raw_alloc(3 * kMiB);
  const auto before = torch->getIpcDevPtr(torch->shareIpcHandle(tensor).handle);
  EXPECT_FALSE(is_usable(1, before.get(), 3 * kMiB, theirs));
  torch->enablePeerAccess(1, 0);
  void* const other = torch->raw_alloc(3 * kMiB);
  const auto later = torch->getIpcDevPtr(torch->shareIpcHandle(other).handle);
  EXPECT_TRUE(is_usable(1, before.get(), 3 * kMiB, theirs));
  EXPECT_TRUE(is_usable(1, later.get(), 3 * kMiB, theirs));
}

TEST_F(Ipc, AForkedChildLetsGoOfWhatItInherited) {
  void* const tensor = torch->raw_alloc(3 * kMiB);
  auto received = torch->getIpcDevPtr(torch->shareIpcHandle(tensor).handle);
  bytes(tensor)[0] = 3;
  const uint64_t before = mappings();
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);  // a hang ends the child with a signal
    received.reset();
    torch->raw_delete(tensor);
    _exit(0);
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_EQ(mappings(), before);
  EXPECT_EQ(bytes(received.get())[0], 3);
}

}  // namespace
