// SPDX-License-Identifier: Apache-2.0
#include "device/upstream.hpp"

#include <cinttypes>
#include <new>
#include <utility>

#include "device/without_mappings.hpp"

namespace gpupool::internal {
namespace {

class UpstreamDevice final : public DeviceWithoutMappings {
 public:
  UpstreamDevice(std::unique_ptr<Device> streams, const Upstream& upstream)
      : streams_(std::move(streams)), upstream_(upstream) {}

  const DeviceInfo& info() const noexcept override { return streams_->info(); }
  Status free_memory(uint64_t& free) override { return streams_->free_memory(free); }
  uint64_t now_ns() noexcept override { return streams_->now_ns(); }
  bool is_lost() noexcept override { return streams_->is_lost(); }

  Status add_peer(int32_t, bool) override {
    return fail(GPUPOOL_ERROR_UNSUPPORTED, "who may access an upstream's memory is the upstream's to say");
  }
  void remove_peer(int32_t) noexcept override {}

  Status allocate(Kind, uint64_t size, Stream stream, Address& address) override {
    Address given = 0;
    int32_t refused = 0;
    try {
      refused = upstream_.malloc(upstream_.user, size, stream, &given);
    } catch (const std::bad_alloc&) {
      return fail(GPUPOOL_ERROR_HOST_OUT_OF_MEMORY, "the upstream has no memory of the host");
    } catch (...) {
      return fail(GPUPOOL_ERROR_INTERNAL, "the upstream's malloc of %" PRIu64 " bytes threw an exception",
                  size);
    }
    if (refused != 0 || given == 0) {
      return fail_driver(GPUPOOL_ERROR_OUT_OF_MEMORY, refused,
                         "the upstream refused %" PRIu64 " bytes with %d", size, static_cast<int>(refused));
    }
    address = given;
    return kSuccess;
  }

  Status deallocate(Kind, Address address, uint64_t size, Stream stream) override {
    try {
      upstream_.free(upstream_.user, address, size, stream);
      return kSuccess;
    } catch (...) {
      return fail(GPUPOOL_ERROR_INTERNAL, "the upstream's free of 0x%" PRIx64 " threw an exception", address);
    }
  }

  Status context_of(Stream stream, uint64_t& context) override {
    return streams_->context_of(stream, context);
  }
  Status record(Stream stream, uint64_t context, Event& event) override {
    return streams_->record(stream, context, event);
  }
  Status query(Event event, bool& passed) override { return streams_->query(event, passed); }
  Status wait(Stream stream, Event event) override { return streams_->wait(stream, event); }
  Status synchronize(Event event) override { return streams_->synchronize(event); }
  void recycle(Event event) noexcept override { streams_->recycle(event); }
  Status synchronize_all(uint64_t context) override { return streams_->synchronize_all(context); }
  Status is_capturing(Stream stream, bool& capturing) override {
    return streams_->is_capturing(stream, capturing);
  }
  Status capture_id(Stream stream, uint64_t& id) override { return streams_->capture_id(stream, id); }

  Status create_stream(Stream& stream) override { return streams_->create_stream(stream); }
  Status destroy_stream(Stream stream) override { return streams_->destroy_stream(stream); }
  Status synchronize_stream(Stream stream) override { return streams_->synchronize_stream(stream); }
  Status copy(Address destination, Address source, uint64_t size, Stream stream) override {
    return streams_->copy(destination, source, size, stream);
  }
  Status fill(Address destination, uint8_t value, uint64_t size, Stream stream) override {
    return streams_->fill(destination, value, size, stream);
  }
  Status fill_words(Address destination, uint32_t word, uint64_t size, Stream stream) override {
    return streams_->fill_words(destination, word, size, stream);
  }
  Status host_memory(uint64_t& available) override { return streams_->host_memory(available); }
  Status transfer(Address destination, Address source, uint64_t size, Stream stream) override {
    return streams_->transfer(destination, source, size, stream);
  }
  Status begin_inspecting() override { return streams_->begin_inspecting(); }
  Status inspect(std::span<const Look> looks, Address report, Stream stream) override {
    return streams_->inspect(looks, report, stream);
  }

 private:
  std::unique_ptr<Device> streams_;
  Upstream upstream_;
};

}  // namespace

std::unique_ptr<Device> make_upstream_device(std::unique_ptr<Device> streams, const Upstream& upstream) {
  return std::make_unique<UpstreamDevice>(std::move(streams), upstream);
}

}  // namespace gpupool::internal
