// SPDX-License-Identifier: Apache-2.0
// Decodes bytes into operations.
#include <algorithm>
#include <array>
#include <cstring>

#include "fuzz/wanderers.hpp"
#include "fuzz/world.hpp"

namespace gpupool::fuzz {
namespace {

constexpr size_t kMaxPools = 3;

/// The bytes of a sequence, and zeroes behind them.
class Bytes {
 public:
  Bytes(const uint8_t* data, size_t size) : at_(data), end_(data + size) {}

  bool empty() const { return at_ == end_; }
  uint8_t byte() { return empty() ? uint8_t{0} : *at_++; }
  bool flag() { return (byte() & 1) != 0; }
  uint32_t pick(size_t count) { return static_cast<uint32_t>(byte() % count); }
  uint64_t number(int bytes) {
    uint64_t value = 0;
    for (int i = 0; i < bytes; ++i) value = value << 8 | byte();
    return value;
  }

 private:
  const uint8_t* at_;
  const uint8_t* end_;
};

class Decoder {
 public:
  Decoder(Bytes bytes, const char* debug) : bytes_(bytes), world_(setup(debug)) {}

  void run() {
    create_pool();
    for (size_t steps = 0; !bytes_.empty(); ++steps) {
      if (!wanders_) {
        step();
      } else {
        wanderers_.run(steps * steps / 3 % Wanderers::kCount, [this] { step(); });
      }
    }
    world_.finish();
  }

 private:
  World::Setup setup(const char* debug) {
    static constexpr std::array<uint64_t, 8> kCapacities{4,   16,  48,   64,
                                                         192, 256, 1024, 0};  // MiB; 0: default
    World::Setup setup;
    const uint8_t byte = bytes_.byte();
    setup.capacity = kCapacities[byte % kCapacities.size()] * kMiB;
    setup.price_scale = (byte & 8) != 0 ? 0.01 : 1;
    setup.watched = (byte & 16) != 0;
    setup.debug = debug;
    wanders_ = (byte & 32) != 0;
    if (wanders_) setup.threads = Wanderers::kCount + 1;
    return setup;
  }

  uint64_t size() {
    const uint32_t shape = bytes_.pick(10);
    const uint64_t raw = bytes_.number(2);
    switch (shape) {
      case 0:
      case 1: return raw % 4096;
      case 2: return 512 * (raw % 64);
      case 3: return kMiB - 1024 + raw % 2048;
      case 4: return 2 * kMiB * (raw % 40);
      case 5: return 2 * kMiB * (raw % 16) + 512 * (raw >> 8);
      case 6: return (raw % 64) * 64 * 1024;
      case 7: return raw * 1024;
      case 8: return raw % 16 == 0 ? ~uint64_t{0} - raw : (raw % 16) * 24 * kMiB;
      default: return raw * 100;
    }
  }

  uint64_t alignment() {
    if (bytes_.flag()) return 512;
    return uint64_t{1} << bytes_.pick(23);  // 2^22 is refused
  }

  gpupool_stream_t stream() { return world_.streams()[bytes_.pick(world_.streams().size())]; }
  gpupool_stream_t stream_or_unknown() {
    const uint32_t number = bytes_.pick(world_.streams().size() + 1);
    return number == world_.streams().size() ? GPUPOOL_STREAM_UNKNOWN : world_.streams()[number];
  }
  uint64_t nanoseconds() { return bytes_.number(1) * bytes_.number(1) * 200; }

  void create_pool() {
    gpupool_config_t config{};
    config.struct_size = sizeof config;
    const uint8_t byte = bytes_.byte();
    // Half of the pools are what most callers have.
    static constexpr std::array<int32_t, 8> kModes{
        GPUPOOL_MODE_AUTO, GPUPOOL_MODE_VMM, GPUPOOL_MODE_AUTO,   GPUPOOL_MODE_VMM,
        GPUPOOL_MODE_AUTO, GPUPOOL_MODE_VMM, GPUPOOL_MODE_DRIVER, GPUPOOL_MODE_UPSTREAM};
    config.mode = kModes[byte % kModes.size()];
    if ((byte & 8) != 0) config.flags = GPUPOOL_FLAG_CAPTURE_AWARE;
    if (config.mode == GPUPOOL_MODE_DRIVER) config.kind = static_cast<int32_t>(bytes_.pick(3));
    if ((byte & 16) != 0) config.limit_bytes = bytes_.number(2) * 64 * 1024;
    if ((byte & 32) != 0) config.fraction = static_cast<double>(bytes_.byte()) / 255;
    if ((byte & 64) != 0) config.slack = static_cast<double>(bytes_.byte()) / 128;
    if ((byte & 128) != 0) config.max_chunk_bytes = 2 * kMiB << bytes_.pick(14);
    UpstreamModel upstream;
    if (config.mode == GPUPOOL_MODE_UPSTREAM) {
      upstream.crooked = bytes_.pick(8) == 1;
      upstream.refuse_every = bytes_.pick(8);
    }
    world_.create(config, std::move(upstream));
  }

  void script() {
    static constexpr std::array<const char*, 12> kCalls{
        "create", "release", "map",          "set_access", "unmap",       "address",
        "malloc", "free",    "event_record", "query",      "stream_wait", "host_wait"};
    const uint8_t byte = bytes_.byte();
    std::string text;
    for (int part = byte % 4; part > 0; --part) {
      if (!text.empty()) text += ',';
      text += kCalls[bytes_.pick(kCalls.size())];
      const uint8_t when = bytes_.byte();
      text += when % 8 == 0 ? ":*" : ":" + std::to_string(1 + when % 32);
      if ((when & 128) != 0) text += "=out_of_memory";
    }
    world_.script(text);
  }

  void free_wrong(size_t pool) {
    const uint32_t way = bytes_.pick(4);
    const uint64_t raw = bytes_.number(2);
    gpupool_ptr_t address = 0;
    if (way == 0) {
      address = raw << bytes_.pick(49);
    } else if (way == 1) {
      address = last_freed_;
    } else if (world_.live_count(pool) != 0) {
      address = world_.live_block(pool, raw % world_.live_count(pool)) + (way == 2 ? 1 + raw : 512 * raw);
    }
    world_.free_refused(pool, address, stream_or_unknown());
  }

  void step() {
    const uint8_t op = bytes_.byte();
    if (world_.pool_count() == 0) return create_pool();
    const size_t pool = world_.pool_count() == 1 ? 0 : bytes_.pick(world_.pool_count());
    if (op < 80) {
      const uint64_t bytes = size();
      const uint64_t aligned = op < 64 ? 512 : alignment();
      world_.malloc(pool, bytes, aligned, op == 79 ? GPUPOOL_STREAM_UNKNOWN : stream());
    } else if (op < 170) {
      on_block(op, pool);
    } else {
      on_pool(op, pool);
    }
  }

  void on_block(uint8_t op, size_t pool) {
    if (world_.live_count(pool) == 0) return;
    const gpupool_ptr_t address = world_.live_block(pool, bytes_.pick(world_.live_count(pool)));
    if (op < 120) {
      world_.use(pool, address, stream(), nanoseconds(), bytes_.flag());
    } else if (op < 126) {
      world_.record_stream(pool, address, stream());
    } else if (op < 130) {
      world_.block_info(pool, address + bytes_.number(2));
    } else {
      last_freed_ = address;
      world_.free(pool, address, stream_or_unknown());
    }
  }

  void on_pool(uint8_t op, size_t pool) {
    switch (op % 28) {
      case 0:
      case 1:
      case 2: return world_.work(stream(), nanoseconds());
      case 3:
      case 4: return world_.advance(nanoseconds());
      case 5:
      case 6: return free_wrong(pool);
      case 7:
        return bytes_.flag() ? world_.park_stream(pool, stream()) : world_.release_stream(pool, stream());
      case 8: return world_.capture(stream());
      case 9: return world_.stream_create();
      case 10: return world_.stream_destroy(stream());
      case 11: return world_.synchronize(pool);
      case 12:
      case 13: return world_.empty(pool);
      case 14:
      case 15: return world_.trim(pool, size());
      case 16:
      case 17: return world_.reserve(pool, size(), stream_or_unknown());
      case 18:
      case 19: return world_.set_limit(pool, bytes_.flag() ? 0 : size());
      case 20: return world_.set_fraction(pool, static_cast<double>(bytes_.byte()) / 200);
      case 21: return world_.set_handler(pool, bytes_.flag());
      case 22: return world_.stats(pool);
      case 23: return world_.snapshot(pool);
      case 24: return bytes_.flag() ? world_.reset_peaks(pool) : world_.report(pool);
      case 25: return script();
      case 26: return world_.script("");
      default:
        if (world_.pool_count() >= kMaxPools || bytes_.flag()) return world_.destroy(pool);
        return create_pool();
    }
  }

  Bytes bytes_;
  bool wanders_ = false;  // each step is another thread's
  World world_;
  Wanderers wanderers_;
  gpupool_ptr_t last_freed_ = 0;
};

}  // namespace

void run_sequence(const uint8_t* data, size_t size, const char* debug) {
  Decoder(Bytes(data, size), debug).run();
}

}  // namespace gpupool::fuzz
