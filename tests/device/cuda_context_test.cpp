// SPDX-License-Identifier: Apache-2.0
// The CUDA device and what belongs to the caller: its context, and its graph captures.
#include <algorithm>
#include <functional>
#include <thread>

#include "cuda_fixture.hpp"

namespace gpupool::internal {
namespace {

using CudaContextTest = CudaTest;

/// The context current on this thread.
cuda::CUcontext current(const CudaDriver& driver) {
  cuda::CUcontext context = nullptr;
  EXPECT_EQ(driver.cuCtxGetCurrent(&context), cuda::CUDA_SUCCESS);
  return context;
}

/// Makes one context current for its lifetime, and checks that it still is at the end.
class Current {
 public:
  Current(const CudaDriver& driver, cuda::CUcontext context) : driver_(driver), context_(context) {
    EXPECT_EQ(driver.cuCtxPushCurrent_v2(context), cuda::CUDA_SUCCESS);
  }
  ~Current() {
    cuda::CUcontext popped = nullptr;
    EXPECT_EQ(driver_.cuCtxPopCurrent_v2(&popped), cuda::CUDA_SUCCESS);
    EXPECT_EQ(popped, context_) << "the caller's context was replaced";
  }

 private:
  const CudaDriver& driver_;
  cuda::CUcontext context_;
};

/// Calls everything that a pool calls, once.
void use_everything(Device& device) {
  uint64_t free = 0;
  EXPECT_EQ(device.free_memory(free), kSuccess);
  Address base = 0;
  ChunkHandle chunk = 0;
  EXPECT_EQ(device.reserve_addresses(kGranule, base), kSuccess);
  EXPECT_EQ(device.create_chunk(kGranule, chunk), kSuccess);
  EXPECT_EQ(device.map(base, kGranule, chunk), kSuccess);
  EXPECT_EQ(device.set_access(base, kGranule), kSuccess);
  Stream stream = 0;
  Event event = 0;
  bool passed = false;
  EXPECT_EQ(device.create_stream(stream), kSuccess);
  EXPECT_EQ(device.fill(base, 0, 512, stream), kSuccess);
  EXPECT_EQ(device.copy(base + 512, base, 512, stream), kSuccess);
  EXPECT_EQ(device.record(stream, 0, event), kSuccess);
  EXPECT_EQ(device.query(event, passed), kSuccess);
  EXPECT_EQ(device.wait(stream, event), kSuccess);
  EXPECT_EQ(device.synchronize(event), kSuccess);
  device.recycle(event);
  EXPECT_EQ(device.is_capturing(stream, passed), kSuccess);
  EXPECT_EQ(device.synchronize_all(0), kSuccess);
  EXPECT_EQ(device.synchronize_stream(stream), kSuccess);
  EXPECT_EQ(device.destroy_stream(stream), kSuccess);
  EXPECT_EQ(device.unmap(base, kGranule), kSuccess);
  EXPECT_EQ(device.release_chunk(chunk), kSuccess);
  EXPECT_EQ(device.release_addresses(base, kGranule), kSuccess);
  for (const Kind kind : {Kind::device, Kind::pinned, Kind::managed}) {
    Address address = 0;
    EXPECT_EQ(device.allocate(kind, 512, 0, address), kSuccess);
    EXPECT_EQ(device.deallocate(kind, address, 512, 0), kSuccess);
  }
}

TEST_F(CudaContextTest, ACallerWithoutAContextHasNoneAfterwards) {
  ASSERT_EQ(current(*driver_), nullptr);
  use_everything(*device_);
  EXPECT_EQ(current(*driver_), nullptr);
}

TEST_F(CudaContextTest, ACallersOtherContextStaysCurrent) {
  for (const int32_t ordinal : {0, 1}) {
    const Current mine(*driver_, as_context(fake_.create_context(ordinal)));
    use_everything(*device_);
    EXPECT_EQ(fake_.context_depth(), 1);
  }
}

TEST_F(CudaContextTest, TheDevicesOwnContextIsNotPushedAgain) {
  const auto own = as_context(fake_.create_context(0));
  const Current mine(*driver_, own);
  const auto device = open();
  const uint64_t pushes = fake_.calls("cuCtxPushCurrent_v2");
  use_everything(*device);
  EXPECT_EQ(fake_.calls("cuCtxPushCurrent_v2"), pushes);
}

TEST_F(CudaContextTest, ACallersOwnContextIsUsedAndNoPrimaryOneKept) {
  const int references = fake_.primary_references(0);
  ASSERT_GT(references, 0);  // from SetUp: the primary context is active
  const Current mine(*driver_, as_context(fake_.create_context(0)));
  const auto device = open();
  ASSERT_NE(device, nullptr) << last_message();
  EXPECT_EQ(fake_.primary_references(0), references);
  // Its events belong to that context: the stream would refuse them otherwise.
  const uintptr_t stream = fake_.create_blocking_stream(nullptr);
  Event event = 0;
  EXPECT_EQ(device->record(stream, 0, event), kSuccess) << last_message();
  EXPECT_EQ(device_->record(stream, 0, event), GPUPOOL_ERROR_DRIVER);
  device->recycle(event);
  EXPECT_EQ(device->destroy_stream(stream), kSuccess);
}

TEST_F(CudaContextTest, OneReferenceToThePrimaryContextIsKept) {
  ASSERT_EQ(fake_.primary_references(0), 1);  // from SetUp, whatever was open before
  const auto without_current = open();
  EXPECT_EQ(fake_.primary_references(0), 1);
  cuda::CUcontext primary = nullptr;
  ASSERT_EQ(driver_->cuDevicePrimaryCtxRetain(&primary, 0), cuda::CUDA_SUCCESS);
  const Current mine(*driver_, primary);
  const auto with_primary_current = open();
  EXPECT_EQ(fake_.primary_references(0), 2);
  EXPECT_EQ(driver_->cuDevicePrimaryCtxRelease_v2(0), cuda::CUDA_SUCCESS);
  use_everything(*with_primary_current);
  EXPECT_EQ(fake_.primary_references(0), 1);
}

TEST_F(CudaContextTest, OneReferenceToAPeersPrimaryContextIsKept) {
  for (int round = 0; round < 3; ++round) {
    const auto device = open(0, {1});
    ASSERT_NE(device, nullptr) << last_message();
    Address address = 0;
    EXPECT_EQ(device->allocate(Kind::device, kGranule, 0, address), kSuccess) << last_message();
    EXPECT_EQ(device->deallocate(Kind::device, address, kGranule, 0), kSuccess);
    EXPECT_EQ(fake_.primary_references(1), 1);
  }
}

TEST_F(CudaContextTest, AResetIsNoticed) {
  EXPECT_FALSE(device_->is_lost());
  Stream stream = 0;
  ASSERT_EQ(device_->create_stream(stream), kSuccess);
  fake_.end_context(nullptr);
  EXPECT_EQ(device_->destroy_stream(stream), GPUPOOL_ERROR_DRIVER);
  EXPECT_EQ(last_error().driver_code, 709);
  EXPECT_NE(last_message().find("the context was reset or destroyed"), std::string::npos) << last_message();
  EXPECT_TRUE(device_->is_lost());
  // The context is made anew, with the same handle.
  const auto anew = open();
  ASSERT_NE(anew, nullptr) << last_message();
  EXPECT_TRUE(device_->is_lost());
  EXPECT_FALSE(anew->is_lost());
  use_everything(*anew);
}

TEST_F(CudaContextTest, AResetIsNoticedWhereTheContextIsThereAgain) {
  fake_.end_context(nullptr);
  const auto anew = open();
  ASSERT_NE(anew, nullptr) << last_message();
  EXPECT_TRUE(device_->is_lost());
}

TEST_F(CudaContextTest, TheEndOfACallersContextIsNoticed) {
  void* const own = fake_.create_context(0);
  std::unique_ptr<Device> device;
  {
    const Current mine(*driver_, as_context(own));
    device = open();
    EXPECT_FALSE(device->is_lost());
  }
  fake_.end_context(own);
  EXPECT_TRUE(device->is_lost());
  EXPECT_FALSE(device_->is_lost());
  EXPECT_EQ(fake_.context_depth(), 0);
}

TEST_F(CudaContextTest, WhatIsQueuedInAContextThatEndedHasPassed) {
  void* const other = fake_.create_context(0);
  const uintptr_t stream = fake_.create_blocking_stream(other);
  uint64_t context = 0;
  Event event = 0;
  ASSERT_EQ(device_->context_of(stream, context), kSuccess);
  ASSERT_NE(context, 0u);
  fake_.hold(stream);
  ASSERT_EQ(device_->record(stream, context, event), kSuccess);
  bool passed = true;
  ASSERT_EQ(device_->query(event, passed), kSuccess);
  ASSERT_FALSE(passed);
  fake_.end_context(other);
  EXPECT_EQ(device_->query(event, passed), kSuccess) << last_message();
  EXPECT_TRUE(passed);
  Stream own = 0;
  ASSERT_EQ(device_->create_stream(own), kSuccess);
  EXPECT_EQ(device_->wait(own, event), kSuccess) << last_message();
  EXPECT_EQ(device_->synchronize(event), kSuccess) << last_message();
  EXPECT_EQ(device_->synchronize_all(context), kSuccess) << last_message();
  // The driver gives an ended event's handle to a new one.
  fake_.hold(own);
  Event later = 0;
  ASSERT_EQ(device_->record(own, 0, later), kSuccess) << last_message();
  EXPECT_EQ(device_->query(later, passed), kSuccess);
  EXPECT_FALSE(passed);
  fake_.release(own);
  device_->recycle(later);
  EXPECT_EQ(device_->record(stream, context, later), GPUPOOL_ERROR_DRIVER);
  EXPECT_NE(last_message().find("has ended"), std::string::npos) << last_message();
  // The driver may have given the event's handle to somebody else.
  const uint64_t destroyed = fake_.calls("cuEventDestroy_v2");
  device_->recycle(event);
  EXPECT_EQ(fake_.calls("cuEventDestroy_v2"), destroyed);
  EXPECT_FALSE(device_->is_lost());
  EXPECT_EQ(device_->destroy_stream(own), kSuccess);
}

TEST_F(CudaContextTest, TheEndOfAnotherDevicesPrimaryContextIsNoticed) {
  cuda::CUcontext other = nullptr;
  ASSERT_EQ(driver_->cuDevicePrimaryCtxRetain(&other, 1), cuda::CUDA_SUCCESS);
  const int references = fake_.primary_references(1);
  const uintptr_t stream = fake_.create_blocking_stream(other);
  uint64_t context = 0;
  Event event = 0;
  ASSERT_EQ(device_->context_of(stream, context), kSuccess);
  EXPECT_EQ(fake_.primary_references(1), references);
  ASSERT_EQ(device_->record(stream, context, event), kSuccess);
  for (int i = 0; i < references; ++i)
    ASSERT_EQ(driver_->cuDevicePrimaryCtxRelease_v2(1), cuda::CUDA_SUCCESS);
  EXPECT_FALSE(device_->has_context(context));
  // Somebody makes it anew, with the old handle.
  ASSERT_EQ(driver_->cuDevicePrimaryCtxRetain(&other, 1), cuda::CUDA_SUCCESS);
  EXPECT_FALSE(device_->has_context(context));
  bool passed = false;
  EXPECT_EQ(device_->query(event, passed), kSuccess) << last_message();
  EXPECT_TRUE(passed);
  device_->recycle(event);
}

TEST_F(CudaContextTest, AContextOfAnotherDeviceIsNotUsed) {
  const int references = fake_.primary_references(1);
  const Current mine(*driver_, as_context(fake_.create_context(0)));
  const auto device = open(1);
  EXPECT_EQ(fake_.primary_references(1), std::max(references, 1));
  use_everything(*device);
}

// ---- capture

class CudaCaptureTest : public CudaTest {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    ASSERT_EQ(device_->create_stream(stream_), kSuccess);
  }
  void TearDown() override {
    EXPECT_EQ(device_->destroy_stream(stream_), kSuccess);
    CudaTest::TearDown();
  }

  /// What a stream needs to be named in the controls: its context.
  cuda::CUcontext primary() {
    cuda::CUcontext context = nullptr;
    EXPECT_EQ(driver_->cuDevicePrimaryCtxRetain(&context, 0), cuda::CUDA_SUCCESS);
    EXPECT_EQ(driver_->cuDevicePrimaryCtxRelease_v2(0), cuda::CUDA_SUCCESS);
    return context;
  }

  Stream stream_ = 0;
};

TEST_F(CudaCaptureTest, CapturesHaveNumbersOfTheirOwn) {
  uint64_t id = 9;
  ASSERT_EQ(device_->capture_id(stream_, id), kSuccess);
  EXPECT_EQ(id, 0u);
  fake_.begin_capture(stream_, cuda::CU_STREAM_CAPTURE_MODE_GLOBAL);
  uint64_t first = 0;
  ASSERT_EQ(device_->capture_id(stream_, first), kSuccess);
  EXPECT_NE(first, 0u);
  EXPECT_EQ(fake_.end_capture(stream_), 1);
  fake_.begin_capture(stream_, cuda::CU_STREAM_CAPTURE_MODE_GLOBAL);
  uint64_t second = 0;
  ASSERT_EQ(device_->capture_id(stream_, second), kSuccess);
  EXPECT_NE(second, 0u);
  EXPECT_NE(second, first);
  fake_.end_capture(stream_);
  ASSERT_EQ(device_->capture_id(stream_, id), kSuccess);
  EXPECT_EQ(id, 0u);
}

TEST_F(CudaCaptureTest, UnsafeCallsLeaveAGlobalCaptureAlone) {
  fake_.begin_capture(stream_, cuda::CU_STREAM_CAPTURE_MODE_GLOBAL);
  use_everything(*device_);
  std::thread([this] { use_everything(*device_); }).join();
  EXPECT_EQ(fake_.capture_mode(), cuda::CU_STREAM_CAPTURE_MODE_GLOBAL);
  EXPECT_EQ(fake_.end_capture(stream_), 1) << "a call ended the caller's capture";
}

TEST_F(CudaCaptureTest, ABareDriverCallEndsAGlobalCapture) {
  fake_.begin_capture(stream_, cuda::CU_STREAM_CAPTURE_MODE_GLOBAL);
  cuda::CUdeviceptr pointer = 0;
  EXPECT_EQ(driver_->cuMemAlloc_v2(&pointer, 512), cuda::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  uint64_t id = 0;
  EXPECT_EQ(device_->capture_id(stream_, id), kSuccess);
  EXPECT_EQ(id, UINT64_MAX) << "an invalidated capture";
  EXPECT_EQ(fake_.end_capture(stream_), 0);
}

TEST_F(CudaCaptureTest, TheThreadsOwnModeComesBack) {
  auto mode = cuda::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
  ASSERT_EQ(driver_->cuThreadExchangeStreamCaptureMode(&mode), cuda::CUDA_SUCCESS);
  use_everything(*device_);
  EXPECT_EQ(fake_.capture_mode(), cuda::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  ASSERT_EQ(driver_->cuThreadExchangeStreamCaptureMode(&mode), cuda::CUDA_SUCCESS);
}

TEST_F(CudaCaptureTest, TheLegacyStreamBesideACaptureIsLeftAlone) {
  const Current mine(*driver_, primary());
  const uintptr_t blocking = fake_.create_blocking_stream(nullptr);
  fake_.begin_capture(blocking, cuda::CU_STREAM_CAPTURE_MODE_GLOBAL);
  uint64_t id = 9;
  EXPECT_EQ(device_->capture_id(0, id), kSuccess) << last_message();
  EXPECT_EQ(id, kCaptureElsewhere);
  Event event = 0;
  EXPECT_EQ(device_->record(0, 0, event), GPUPOOL_ERROR_DRIVER);
  EXPECT_EQ(last_error().driver_code, 906);
  EXPECT_EQ(fake_.end_capture(blocking), 1);
  EXPECT_EQ(device_->destroy_stream(blocking), kSuccess);
}

}  // namespace
}  // namespace gpupool::internal
