// SPDX-License-Identifier: Apache-2.0
// Tensors between processes: what a handle names is checked, and nothing stays open.
#include "ipc.hpp"

#include <sys/wait.h>

#include <filesystem>

#include "pytorch.hpp"

namespace {

using gpupool_torch::Descriptor;
using gpupool_torch::Shared;
using gpupool_torch::Sharing;
using gpupool_torch::Ticket;

size_t open_descriptors() {
  size_t count = 0;
  for ([[maybe_unused]] const auto& each : std::filesystem::directory_iterator("/proc/self/fd")) ++count;
  return count;
}

/// A process that has shared something: its handle, and the memory's descriptor; here it is this one.
struct Exporter {
  Descriptor chunk{memfd_create("chunk", MFD_CLOEXEC)};
  std::unique_ptr<Ticket> ticket = std::make_unique<Ticket>();
  Shared shared{getpid(), ticket->descriptor(), ticket->number(), {{2 * kMiB, chunk.number()}}};
};

std::string failure(const std::function<void()>& call) {
  try {
    call();
  } catch (const c10::Error& error) {
    return error.what();
  }
  return "";
}

TEST(TorchSharing, AHandleSaysAllOfIt) {
  const Exporter exporter;
  const Shared read = Shared::from_handle(exporter.shared.to_handle());
  EXPECT_EQ(read.pid, getpid());
  EXPECT_EQ(read.number, exporter.ticket->number());
  ASSERT_EQ(read.chunks.size(), 1u);
  EXPECT_EQ(read.chunks.at(0).size, 2 * kMiB);
  EXPECT_NE(Ticket().number(), Ticket().number());
  for (const char* foreign : {"", "e 1 2", "gpupool-1 5 2097152 7", "gpupool-2 5 6 7"})
    EXPECT_NE(failure([&] { (void)Shared::from_handle(foreign); }).find("another allocator"),
              std::string::npos);
}

TEST(TorchSharing, WhatIsFetchedIsWhatWasShared) {
  const Exporter exporter;
  const size_t before = open_descriptors();
  {
    const auto own = exporter.shared.fetch();
    ASSERT_EQ(own.size(), 1u);
    EXPECT_TRUE(own.at(0).is_open());
    EXPECT_NE(own.at(0).number(), exporter.chunk.number());
    EXPECT_EQ(open_descriptors(), before + 1);
  }
  EXPECT_EQ(open_descriptors(), before);
}

TEST(TorchSharing, AnOldHandleIsRefusedWhateverHasItsNumbersNow) {
  Exporter exporter;
  const Shared old = exporter.shared;
  exporter.ticket.reset();
  const size_t before = open_descriptors();
  EXPECT_NE(failure([&] { (void)old.fetch(); }).find("has freed a tensor"), std::string::npos);
  // Another export gets the same numbers.
  exporter.ticket = std::make_unique<Ticket>();
  ASSERT_EQ(exporter.ticket->descriptor(), old.ticket);
  EXPECT_NE(failure([&] { (void)old.fetch(); }).find("is another one by now"), std::string::npos);
  EXPECT_EQ(open_descriptors(), before + 1);  // the new ticket
}

TEST(TorchSharing, AProcessThatIsGoneIsNamed) {
  Exporter exporter;
  const pid_t child = fork();
  if (child == 0) _exit(0);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  exporter.shared.pid = child;
  EXPECT_NE(failure([&] { (void)exporter.shared.fetch(); }).find("is gone"), std::string::npos);
}

TEST(TorchSharing, AnImportThatFailsLeavesNothing) {
  const Exporter exporter;
  Sharing sharing;
  const size_t before = open_descriptors();
  EXPECT_NE(failure([&] { (void)sharing.open(exporter.shared.to_handle()); }), "");
  EXPECT_EQ(open_descriptors(), before);
  EXPECT_EQ(sharing.import_count(), 0u);
}

TEST(TorchSharing, WhatCannotBeExportedLeavesNothing) {
  Sharing sharing;
  gpupool_t* pool = nullptr;
  gpupool_ptr_t ptr = 0;
  gpupool_block_t block{};
  ASSERT_EQ(gpupool_default_pool(0, &pool), GPUPOOL_SUCCESS);
  ASSERT_EQ(gpupool_malloc(pool, kMiB, 0, &ptr), GPUPOOL_SUCCESS);
  ASSERT_EQ(gpupool_block_info(pool, ptr, &block, sizeof block), GPUPOOL_SUCCESS);
  const size_t before = open_descriptors();
  EXPECT_NE(failure([&] { (void)sharing.share(pool, block, reinterpret_cast<void*>(ptr)); }), "");
  EXPECT_EQ(open_descriptors(), before);
}

}  // namespace
