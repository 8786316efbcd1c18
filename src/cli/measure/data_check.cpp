// SPDX-License-Identifier: Apache-2.0
#include "cli/measure/data_check.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "cli/base/library.hpp"

namespace gpupool::cli {
namespace {

constexpr size_t kStagingSize = size_t{32} << 20;
constexpr size_t kSampleSize = 1024;
constexpr int kRandomSamples = 3;

/// Blocks up to this size are read whole.
constexpr uint64_t kWholeBlock = uint64_t{64} << 10;

/// A byte that differs between neighbours in id and between two blocks that get the same id in turn.
std::byte pattern_of(uint64_t id, uint64_t write_number) {
  uint64_t mixed = (id + write_number * 0x9e3779b97f4a7c15) * 0xff51afd7ed558ccd;
  mixed ^= mixed >> 33;
  return static_cast<std::byte>(mixed & 0xff);
}

gpupool_ptr_t host_address(const std::byte* p) {
  return reinterpret_cast<gpupool_ptr_t>(p);
}

}  // namespace

DataCheck::DataCheck(Pool& pool, std::span<const gpupool_stream_t> streams, uint32_t slot_count)
    : pool_(pool), streams_(streams), blocks_(slot_count), staging_(kStagingSize) {}

void DataCheck::write(uint32_t slot, uint64_t id, gpupool_ptr_t ptr, uint64_t bytes,
                      gpupool_stream_t stream) {
  const Block block{ptr, bytes, id, pattern_of(id, writes_++)};
  blocks_[slot] = block;
  pool_.fill(ptr, std::to_integer<uint8_t>(block.pattern), bytes, stream);
}

void DataCheck::read(uint32_t slot, gpupool_stream_t stream) {
  const Block& block = blocks_[slot];
  if (block.bytes <= kWholeBlock) {
    read_range(block, 0, block.bytes, stream);
    return;
  }
  const uint64_t last = block.bytes - kSampleSize;
  read_range(block, 0, kSampleSize, stream);
  for (int i = 0; i < kRandomSamples; ++i) {
    read_range(block, std::uniform_int_distribution<uint64_t>(0, last)(random_), kSampleSize, stream);
  }
  read_range(block, last, kSampleSize, stream);
}

void DataCheck::read_range(const Block& block, uint64_t offset, size_t size, gpupool_stream_t stream) {
  if (staging_.size() - staging_used_ < size) compare();
  pool_.copy(host_address(&staging_[staging_used_]), block.ptr + offset, size, stream);
  samples_.push_back({staging_used_, size, offset, block});
  staging_used_ += size;
}

void DataCheck::compare() {
  for (const gpupool_stream_t stream : streams_) {
    check(gpupool_stream_synchronize(pool_.handle(), stream));
  }
  for (const Sample& sample : samples_) compare_sample(sample);
  samples_.clear();
  staging_used_ = 0;
}

void DataCheck::compare_sample(const Sample& sample) {
  const auto bytes = std::span(staging_).subspan(sample.staging_offset, sample.size);
  const std::byte expected = sample.block.pattern;
  const auto bad = std::find_if(bytes.begin(), bytes.end(), [=](std::byte byte) { return byte != expected; });
  if (bad == bytes.end()) return;
  if (mismatches_++ == 0) {
    first_mismatch_ =
        fmt::format("block {} of {} bytes at {:#x}: byte {} is {:#04x} where {:#04x} was written",
                    sample.block.id, sample.block.bytes, sample.block.ptr,
                    sample.block_offset + static_cast<uint64_t>(bad - bytes.begin()),
                    std::to_integer<unsigned>(*bad), std::to_integer<unsigned>(expected));
  }
}

}  // namespace gpupool::cli
