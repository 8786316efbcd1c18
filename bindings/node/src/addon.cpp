// SPDX-License-Identifier: Apache-2.0
// The native half of the binding: functions over the objects that all languages share (bindings/swig/src),
// which index.js makes classes of. They are called as the C functions that they stand for.
#include "call.hpp"
#include "library.hpp"
#include "share.hpp"

// Node ends what its collector finds only after the JavaScript under way, so a malloc cannot wait for it.
inline bool binding::run_collector() noexcept {
  return false;
}

inline bool binding::has_thrown() noexcept {
  const node::Environment* const here = node::Environment::here;
  return here != nullptr && here->thrown != nullptr;
}

inline binding::ByteType binding::byte_type() noexcept {
  return {"a Buffer", node::most_bytes};
}

namespace node {

using binding::Block;
using binding::Pool;
using binding::Slice;
using binding::Stream;
using binding::StreamArgument;
using binding::Transfer;

namespace {

napi_value undefined(napi_env env) {
  napi_value value = nullptr;
  check(napi_get_undefined(env, &value));
  return value;
}

template <class Record, class At>
napi_value list(napi_env env, uint32_t count, At at) {
  napi_value array = nullptr;
  check(napi_create_array_with_length(env, count, &array));
  for (uint32_t i = 0; i < count; ++i) check(napi_set_element(env, array, i, to_js(env, Record(at(i)))));
  return array;
}

/// An object with the fields of gpupool_config_t, and words for the device and the limit.
Pool* create_pool(napi_env env, napi_value options) {
  gpupool_config_t config = binding::default_config();
  read_fields(env, options, config);
  std::string words;
  read_field(env, options, "deviceWords", words);
  if (!words.empty()) binding::set_device(config, words);
  words.clear();
  read_field(env, options, "limitWords", words);
  if (!words.empty()) binding::set_limit(config, words);
  std::string group;
  bool has_share = false;
  read_field(env, options, "share", group);
  read_field(env, options, "hasShare", has_share);
  if (has_share) config.share = group.c_str();  // "" is no group, whatever the environment says
  bool capture_aware = false;
  read_field(env, options, "captureAware", capture_aware);
  if (capture_aware) config.flags |= GPUPOOL_FLAG_CAPTURE_AWARE;

  std::vector<int32_t> peers;
  napi_value array = nullptr;
  bool is_array = false;
  check(napi_get_named_property(env, options, "peers", &array));
  check(napi_is_array(env, array, &is_array));
  uint32_t count = 0;
  if (is_array) check(napi_get_array_length(env, array, &count));
  for (uint32_t i = 0; i < count; ++i) {
    Argument peer{env, nullptr, "a device of peers"};
    check(napi_get_element(env, array, i, &peer.value));
    peers.push_back(from_js<int32_t>(peer));
  }
  config.peers = peers.data();
  config.peer_count = count;
  return new Pool(config);
}

napi_value snapshot(napi_env env, const Pool& pool) {
  const std::unique_ptr<binding::Snapshot> taken(pool.snapshot());
  napi_value object = nullptr;
  check(napi_create_object(env, &object));
  check(napi_set_named_property(
      env, object, "segments",
      list<gpupool_segment_t>(env, taken->segment_count(), [&](uint32_t i) { return taken->segment(i); })));
  check(napi_set_named_property(
      env, object, "blocks",
      list<gpupool_block_t>(env, taken->block_count(), [&](uint32_t i) { return taken->block(i); })));
  return object;
}

void define_library(napi_env env, napi_value exports) {
  const auto function = [&](const char* name, const char* arguments, auto code) {
    define(env, exports, name, arguments, code);
  };
  function("gpupool_version", "", [](Caller) { return binding::version(); });
  function("gpupool_version_string", "", [](Caller) { return binding::version_string(); });
  function("gpupool_features", "", [](Caller) { return binding::features(); });
  function("gpupool_status_name", "status", [](Caller, int32_t status) {
    return binding::status_name(static_cast<gpupool_status_t>(status));
  });
  function("gpupool_set_log", "level receiver", [](Caller, int32_t level, binding::LogReceiver* receiver) {
    binding::set_log(static_cast<gpupool_log_level_t>(level), receiver);
  });
  function("gpupool_parse_size", "text", [](Caller, std::string text) { return binding::parse_size(text); });
  function("gpupool_parse_device", "text", [](Caller caller, std::string text) {
    const binding::DeviceChoice choice = binding::parse_device(text);
    const napi_env at = caller.environment.env;
    napi_value object = nullptr;
    check(napi_create_object(at, &object));
    set_field(at, object, "backend", to_js(at, choice.backend));
    set_field(at, object, "device", to_js(at, choice.device));
    return object;
  });
  function("gpupool_device_count", "backend", [](Caller, int32_t backend) {
    return binding::device_count(static_cast<gpupool_backend_t>(backend));
  });
  function("gpupool_device_info", "backend device", [](Caller, int32_t backend, int32_t device) {
    return binding::device_info(static_cast<gpupool_backend_t>(backend), device);
  });
  function("gpupool_sim_configure", "device options", [](Caller caller, int32_t device, napi_value options) {
    gpupool_sim_config_t config{};
    config.struct_size = sizeof config;
    read_fields(caller.environment.env, options, config);
    binding::sim_configure(device, config);
  });
  function("gpupool_sim_script", "device script",
           [](Caller, int32_t device, std::string script) { binding::sim_script(device, script); });
  function("gpupool_sim_work", "device stream address size nanoseconds",
           [](Caller, int32_t device, StreamArgument stream, uint64_t address, uint64_t size,
              uint64_t nanoseconds) { binding::sim_work(device, stream, address, size, nanoseconds); });
  function("gpupool_sim_advance", "device nanoseconds",
           [](Caller, int32_t device, uint64_t nanoseconds) { binding::sim_advance(device, nanoseconds); });
  function("gpupool_sim_capture", "device stream begin",
           [](Caller, int32_t device, StreamArgument stream, bool begin) {
             binding::sim_capture(device, stream, begin);
           });
  function("gpupool_sim_launch", "device capture stream",
           [](Caller, int32_t device, uint64_t capture, StreamArgument stream) {
             binding::sim_launch(device, capture, stream);
           });
  function("gpupool_sim_hold", "device address",
           [](Caller, int32_t device, uint64_t address) { binding::sim_hold(device, address); });
  function("gpupool_sim_faults", "device",
           [](Caller, int32_t device) { return binding::sim_faults(device); });
  function("gpupool_sim_last_fault", "device",
           [](Caller, int32_t device) { return binding::sim_last_fault(device); });
}

/// Groups of processes, from outside.
void define_share(napi_env env, napi_value exports) {
  const auto function = [&](const char* name, const char* arguments, auto code) {
    define(env, exports, name, arguments, code);
  };
  function("gpupool_share_info", "group backend device",
           [](Caller caller, std::string group, int32_t backend, int32_t device) {
             const std::unique_ptr<binding::ShareGroup> found(
                 binding::share_info(group, static_cast<gpupool_backend_t>(backend), device));
             const napi_env at = caller.environment.env;
             napi_value object = nullptr;
             check(napi_create_object(at, &object));
             set_field(at, object, "share", to_js(at, found->share()));
             set_field(at, object, "members",
                       list<gpupool_share_member_t>(at, found->member_count(),
                                                    [&](uint32_t i) { return found->member(i); }));
             return object;
           });
  function("gpupool_share_set", "what amount member group backend device",
           [](Caller, int32_t what, int64_t amount, uint32_t member, std::string group, int32_t backend,
              int32_t device) {
             binding::share_set(static_cast<gpupool_share_figure_t>(what), amount, member, group,
                                static_cast<gpupool_backend_t>(backend), device);
           });
  function("gpupool_share_repair", "group backend device",
           [](Caller, std::string group, int32_t backend, int32_t device) {
             return binding::share_repair(group, static_cast<gpupool_backend_t>(backend), device);
           });
}

/// Tags, samples and recordings: of all pools.
void define_watch(napi_env env, napi_value exports) {
  const auto function = [&](const char* name, const char* arguments, auto code) {
    define(env, exports, name, arguments, code);
  };
  function("gpupool_tag_push", "tag", [](Caller, std::string tag) { binding::tag_push(tag); });
  function("gpupool_tag_pop", "", [](Caller) { binding::tag_pop(); });
  function("gpupool_set_sampling", "bytes", [](Caller, uint64_t bytes) { binding::set_sampling(bytes); });
  function("gpupool_record_start", "path flags",
           [](Caller, std::string path, uint32_t flags) { binding::record_start(path, flags); });
  function("gpupool_record_stop", "", [](Caller) { binding::record_stop(); });
  function("gpupool_mark", "text", [](Caller, std::string text) { binding::mark(text); });
  function("gpupool_set_debug", "modes", [](Caller, std::string modes) { binding::set_debug(modes); });
  function("gpupool_why", "address", [](Caller, uint64_t address) { return binding::why(address); });
  function("gpupool_check", "pool", [](Caller, Pool& pool) { return pool.damage(); });
  function("damage_report", "pool", [](Caller, Pool& pool) { return pool.damage_report(); });
  function("gpupool_protect", "pool address access",
           [](Caller, Pool& pool, uint64_t address, int32_t access) {
             pool.protect(address, static_cast<gpupool_access_t>(access));
           });
  function("gpupool_holders", "pool", [](Caller caller, Pool& pool) {
    const std::unique_ptr<binding::Holders> found(pool.holders());
    return list<gpupool_holder_t>(caller.environment.env, found->count(),
                                  [&](uint32_t i) { return found->holder(i); });
  });
}

void define_memory(napi_env env, napi_value exports) {
  const auto function = [&](const char* name, const char* arguments, auto code) {
    define(env, exports, name, arguments, code);
  };
  function("gpupool_create", "options",
           [](Caller caller, napi_value options) { return create_pool(caller.environment.env, options); });
  function("gpupool_create_child", "pool", [](Caller, Pool& pool) { return pool.create_child(); });
  function("gpupool_default_pool", "device", [](Caller, int32_t device) { return Pool::shared(device); });
  function("gpupool_destroy", "pool", [](Caller, Pool& pool) { pool.close(); });
  function("pool_closed", "pool", [](Caller, Pool& pool) { return pool.is_closed(); });
  function("pool_text", "pool", [](Caller, Pool& pool) { return pool.to_string(); });
  function(
      "gpupool_malloc", "pool size stream",
      [](Caller, Pool& pool, uint64_t size, StreamArgument stream) { return pool.malloc(size, stream); });
  function("gpupool_malloc_aligned", "pool size alignment stream",
           [](Caller, Pool& pool, uint64_t size, uint64_t alignment, StreamArgument stream) {
             return pool.malloc_aligned(size, alignment, stream);
           });
  function("gpupool_free", "pool address stream",
           [](Caller, Pool& pool, uint64_t address, StreamArgument stream) { pool.free(address, stream); });
  function("gpupool_record_stream", "pool address stream",
           [](Caller, Pool& pool, uint64_t address, StreamArgument stream) {
             pool.record_stream(address, stream);
           });
  function("gpupool_block_info", "pool address",
           [](Caller, Pool& pool, uint64_t address) { return pool.block_info(address); });
  function("gpupool_empty", "pool", [](Caller, Pool& pool) { return pool.empty(); });
  function("gpupool_trim", "pool target",
           [](Caller, Pool& pool, uint64_t target) { return pool.trim(target); });
  function("gpupool_reserve", "pool target stream",
           [](Caller, Pool& pool, uint64_t target, StreamArgument stream) { pool.reserve(target, stream); });
  function("gpupool_set_fraction", "pool fraction",
           [](Caller, Pool& pool, double fraction) { pool.set_fraction(fraction); });
  function("gpupool_set_limit", "pool limit",
           [](Caller, Pool& pool, uint64_t limit) { pool.set_limit(limit); });
  function("set_limit_words", "pool limit",
           [](Caller, Pool& pool, std::string limit) { pool.set_limit(limit); });
  function("gpupool_set_oom_handler", "pool handler",
           [](Caller, Pool& pool, binding::OomHandler* handler) { pool.set_oom_handler(handler); });
  function("gpupool_set_sleep_hooks", "pool beforeRelease afterMap",
           [](Caller, Pool& pool, binding::SleepHook* before, binding::SleepHook* after) {
             pool.set_sleep_hooks(before, after);
           });
  function("gpupool_stats", "pool", [](Caller, Pool& pool) { return pool.stats(); });
  function("gpupool_reset_peaks", "pool", [](Caller, Pool& pool) { pool.reset_peaks(); });
  function("gpupool_snapshot", "pool",
           [](Caller caller, Pool& pool) { return snapshot(caller.environment.env, pool); });
  function("gpupool_report", "pool", [](Caller, Pool& pool) { return pool.report(); });
  function("gpupool_validate", "pool", [](Caller, Pool& pool) { pool.validate(); });
  function("gpupool_enable_peer", "pool device",
           [](Caller, Pool& pool, int32_t device) { pool.enable_peer(device); });
  function("gpupool_copy", "pool destination source size stream",
           [](Caller, Pool& pool, uint64_t destination, uint64_t source, uint64_t size,
              StreamArgument stream) { pool.copy(destination, source, size, stream); });
  function("gpupool_fill", "pool destination value size stream",
           [](Caller, Pool& pool, uint64_t destination, int32_t value, uint64_t size, StreamArgument stream) {
             pool.fill(destination, value, size, stream);
           });
}

/// A promise of the figures of a sleep or a wake, which may copy all that a device has.
template <class Work>
napi_value figures_of(const Caller& caller, napi_value kept, Work work) {
  auto result = std::make_shared<gpupool_sleep_result_t>();
  return Background::start(
      caller.environment, kept, [result, work] { *result = work(); },
      [result](napi_env at) { return to_js(at, *result); });
}

/// Where a promise keeps no object.
napi_value nothing(napi_env env) {
  napi_value object = nullptr;
  check(napi_create_object(env, &object));
  return object;
}

gpupool_sleep_mode_t mode_of(int32_t mode) {
  return static_cast<gpupool_sleep_mode_t>(mode);
}

void define_sleep(napi_env env, napi_value exports) {
  const auto function = [&](const char* name, const char* arguments, auto code) {
    define(env, exports, name, arguments, code);
  };
  function("gpupool_sleep", "pool mode flags target",
           [](Caller, Pool& pool, int32_t mode, uint32_t flags, uint64_t target) {
             return pool.sleep(mode_of(mode), flags, target);
           });
  function("pool_asleep", "pool mode flags target",
           [](Caller caller, Pool& pool, int32_t mode, uint32_t flags, uint64_t target) {
             return figures_of(caller, caller.values[0], [&pool, mode, flags, target] {
               return pool.sleep(mode_of(mode), flags, target);
             });
           });
  function("gpupool_wake", "pool timeout flags fill",
           [](Caller, Pool& pool, uint64_t timeout, uint32_t flags, int32_t fill) {
             return pool.wake(timeout, flags, fill);
           });
  function("pool_awake", "pool timeout flags fill",
           [](Caller caller, Pool& pool, uint64_t timeout, uint32_t flags, int32_t fill) {
             return figures_of(caller, caller.values[0],
                               [&pool, timeout, flags, fill] { return pool.wake(timeout, flags, fill); });
           });
  function("gpupool_allow_sleep", "pool mode flags",
           [](Caller, Pool& pool, int32_t mode, uint32_t flags) { pool.allow_sleep(mode_of(mode), flags); });
  function("gpupool_sleep_block", "pool address mode flags",
           [](Caller, Pool& pool, uint64_t address, int32_t mode, uint32_t flags) {
             return pool.sleep_block(address, mode_of(mode), flags);
           });
  function("block_asleep", "pool address mode flags",
           [](Caller caller, Pool& pool, uint64_t address, int32_t mode, uint32_t flags) {
             return figures_of(caller, caller.values[0], [&pool, address, mode, flags] {
               return pool.sleep_block(address, mode_of(mode), flags);
             });
           });
  function("gpupool_wake_block", "pool address timeout flags fill",
           [](Caller, Pool& pool, uint64_t address, uint64_t timeout, uint32_t flags, int32_t fill) {
             return pool.wake_block(address, timeout, flags, fill);
           });
  function("block_awake", "pool address timeout flags fill",
           [](Caller caller, Pool& pool, uint64_t address, uint64_t timeout, uint32_t flags, int32_t fill) {
             return figures_of(caller, caller.values[0], [&pool, address, timeout, flags, fill] {
               return pool.wake_block(address, timeout, flags, fill);
             });
           });
  function("gpupool_sleep_tag", "tag mode flags target",
           [](Caller, std::string tag, int32_t mode, uint32_t flags, uint64_t target) {
             return binding::sleep_tag(tag, mode_of(mode), flags, target);
           });
  function("tag_asleep", "tag mode flags target",
           [](Caller caller, std::string tag, int32_t mode, uint32_t flags, uint64_t target) {
             return figures_of(caller, nothing(caller.environment.env), [tag, mode, flags, target] {
               return binding::sleep_tag(tag, mode_of(mode), flags, target);
             });
           });
  function("gpupool_wake_tag", "tag timeout flags",
           [](Caller, std::string tag, uint64_t timeout, uint32_t flags) {
             return binding::wake_tag(tag, timeout, flags);
           });
  function("tag_awake", "tag timeout flags",
           [](Caller caller, std::string tag, uint64_t timeout, uint32_t flags) {
             return figures_of(caller, nothing(caller.environment.env),
                               [tag, timeout, flags] { return binding::wake_tag(tag, timeout, flags); });
           });
  function("gpupool_sleep_state", "pool",
           [](Caller, Pool& pool) { return static_cast<int32_t>(pool.sleep_state()); });
  function("gpupool_set_name", "pool name",
           [](Caller, Pool& pool, std::string name) { pool.set_name(name); });
  function("gpupool_name", "pool", [](Caller, Pool& pool) { return pool.name(); });
  function("gpupool_set_keep", "pool address keep",
           [](Caller, Pool& pool, uint64_t address, bool keep) { pool.set_keep(address, keep); });
  function("gpupool_export", "pool address",
           [](Caller, Pool& pool, uint64_t address) { return pool.export_block(address); });
  function("gpupool_import", "pool handle",
           [](Caller, Pool& pool, std::string handle) { return pool.import_block(handle); });
  function("gpupool_import_close", "pool address",
           [](Caller, Pool& pool, uint64_t address) { pool.close_import(address); });
  function("gpupool_share_request", "pool bytes timeout",
           [](Caller, Pool& pool, uint64_t bytes, uint64_t timeout) { pool.share_request(bytes, timeout); });
  function("backup_length", "pool address",
           [](Caller, Pool& pool, uint64_t address) { return pool.backup_length(address); });
  function("gpupool_read_backup", "pool address length",
           [](Caller, Pool& pool, uint64_t address, uint64_t length) {
             return Bytes{pool.read_backup(address, length)};
           });
  function("backup_bytes", "pool address length",
           [](Caller caller, Pool& pool, uint64_t address, uint64_t length) {
             auto bytes = std::make_shared<Bytes>();
             return Background::start(
                 caller.environment, caller.values[0],
                 [&pool, address, length, bytes] { bytes->bytes = pool.read_backup(address, length); },
                 [bytes](napi_env at) { return to_js(at, *bytes); });
           });
  function("gpupool_prepare_backup", "pool bytes", [](Caller caller, Pool& pool, uint64_t bytes) {
    const Blocking blocking(caller.environment);
    pool.prepare_backup(bytes);
  });
}

void define_streams(napi_env env, napi_value exports) {
  const auto function = [&](const char* name, const char* arguments, auto code) {
    define(env, exports, name, arguments, code);
  };
  function("gpupool_stream_create", "pool", [](Caller, Pool& pool) { return pool.create_stream(); });
  function("gpupool_stream_destroy", "stream", [](Caller, Stream& stream) { stream.close(); });
  function("stream_id", "stream", [](Caller, Stream& stream) { return stream.id(); });
  function("stream_closed", "stream", [](Caller, Stream& stream) { return stream.is_closed(); });
  function("stream_text", "stream", [](Caller, Stream& stream) { return stream.to_string(); });
  function("gpupool_stream_synchronize", "pool stream",
           [](Caller, Pool& pool, StreamArgument stream) { pool.synchronize_stream(stream); });
  function("stream_done", "stream", [](Caller caller, Stream& stream) {
    return Background::start(
        caller.environment, caller.values[0], [&] { stream.synchronize(); }, undefined);
  });
  function("gpupool_synchronize", "pool", [](Caller, Pool& pool) { pool.synchronize(); });
  function("pool_done", "pool", [](Caller caller, Pool& pool) {
    return Background::start(
        caller.environment, caller.values[0], [&] { pool.synchronize(); }, undefined);
  });
  function("gpupool_release_stream", "pool stream",
           [](Caller, Pool& pool, StreamArgument stream) { pool.release_stream(stream); });
  function("gpupool_park_stream", "pool stream",
           [](Caller, Pool& pool, StreamArgument stream) { pool.park_stream(stream); });
  function("gpupool_capture_id", "pool stream",
           [](Caller, Pool& pool, StreamArgument stream) { return pool.capture_id(stream); });
  function("gpupool_release_capture", "pool capture",
           [](Caller, Pool& pool, uint64_t capture) { pool.release_capture(capture); });
  function("gpupool_announce_capture", "pool begins",
           [](Caller, Pool& pool, bool begins) { pool.announce_capture(begins); });
}

/// What Block and Slice have in common.
template <class T>
void define_bytes(napi_env env, napi_value exports, const std::string& prefix) {
  const auto function = [&](const char* name, const char* arguments, auto code) {
    define(env, exports, (prefix + name).c_str(), arguments, code);
  };
  function("address", "block", [](Caller, T& block) { return block.address(); });
  function("size", "block", [](Caller, T& block) { return block.size(); });
  function("text", "block", [](Caller, T& block) { return block.to_string(); });
  function("close", "block", [](Caller, T& block) { block.close(); });
  function("fill", "block value", [](Caller, T& block, int32_t value) { block.fill(value); });
  function("write", "block data offset", [](Caller, T& block, BytesView bytes, uint64_t offset) {
    block.write(bytes.data, bytes.length, offset);
  });
  function("read", "block offset length", [](Caller, T& block, uint64_t offset, uint64_t length) {
    return Bytes{block.read(offset, length)};
  });
  function("read_into", "block data offset", [](Caller, T& block, BytesView bytes, uint64_t offset) {
    block.read_to(const_cast<char*>(bytes.data), bytes.length, offset);
  });
  function("write_async", "block data offset", [](Caller, T& block, BytesView bytes, uint64_t offset) {
    return block.write_async(bytes.data, bytes.length, offset);
  });
  function("read_async", "block offset length", [](Caller, T& block, uint64_t offset, uint64_t length) {
    return block.read_async(offset, length);
  });
  function("copy_from_slice", "block source offset",
           [](Caller, T& block, Slice& source, uint64_t offset) { return block.copy_from(source, offset); });
  function("slice", "block offset length",
           [](Caller, T& block, uint64_t offset, uint64_t length) { return block.slice(offset, length); });
}

void define_blocks(napi_env env, napi_value exports) {
  const auto function = [&](const char* name, const char* arguments, auto code) {
    define(env, exports, name, arguments, code);
  };
  function("allocate", "pool size stream alignment",
           [](Caller, Pool& pool, uint64_t size, StreamArgument stream, uint64_t alignment) {
             return pool.allocate(size, stream, alignment);
           });
  define_bytes<Block>(env, exports, "block_");
  function("block_stream", "block", [](Caller, Block& block) { return block.stream(); });
  function("block_freed", "block", [](Caller, Block& block) { return block.is_freed(); });
  function("block_free", "block", [](Caller, Block& block) { block.free(); });
  function("block_free_on", "block stream",
           [](Caller, Block& block, StreamArgument stream) { block.free(stream); });
  function("block_release", "block", [](Caller, Block& block) { return block.release(); });
  function("block_record_stream", "block stream",
           [](Caller, Block& block, StreamArgument stream) { block.record_stream(stream); });
  define_bytes<Slice>(env, exports, "slice_");
  function("slice_offset", "slice", [](Caller, Slice& slice) { return slice.offset(); });
  function("slice_closed", "slice", [](Caller, Slice& slice) { return slice.is_closed(); });
  function("transfer_done", "transfer", [](Caller caller, Transfer& transfer) {
    return Background::start(
        caller.environment, caller.values[0], [&] { transfer.finish(); }, undefined);
  });
  function("transfer_bytes", "transfer", [](Caller caller, Transfer& transfer) {
    auto bytes = std::make_shared<Bytes>();
    return Background::start(
        caller.environment, caller.values[0], [&transfer, bytes] { bytes->bytes = transfer.read(); },
        [bytes](napi_env at) { return to_js(at, *bytes); });
  });
}

napi_value start(napi_env env, napi_value exports) {
  auto made = std::make_unique<Environment>();
  made->env = env;
  Environment* const at = made.get();
  // Handlers and objects may outlive their thread's JavaScript, and only look at where they are: so it stays.
  if (napi_set_instance_data(env, at, nullptr, nullptr) != napi_ok) return nullptr;
  (void)made.release();
  Environment::here = at;
  try {
    check(napi_add_env_cleanup_hook(
        env, [](void*) { Environment::here = nullptr; }, nullptr));
    define_library(env, exports);
    define_watch(env, exports);
    define_share(env, exports);
    define_memory(env, exports);
    define_streams(env, exports);
    define_sleep(env, exports);
    define_blocks(env, exports);
    define(env, exports, "setMostBytes", "bytes", [](Caller, uint64_t bytes) { most_bytes = bytes; });
    define(env, exports, "setErrors", "make", [](Caller caller, napi_value make) {
      check(napi_create_reference(caller.environment.env, make, 1, &caller.environment.make_error));
    });
    define(env, exports, "setMain", "isMain",
           [](Caller caller, bool is_main) { caller.environment.is_main = is_main; });
    (void)gpupool_set_interrupt_check(Environment::refuse_to_wait, nullptr, 1);
  } catch (const Pending&) {
    return nullptr;
  }
  return exports;
}

}  // namespace
}  // namespace node

NAPI_MODULE_INIT() {
  return node::start(env, exports);
}
