// SPDX-License-Identifier: Apache-2.0
// One interface for every language. Numbers and structs come from gpupool.h itself, the objects from src/; they are the
// same everywhere. What differs by language (integers, bytes, callbacks, exceptions) is in languages/<language>.swg,
// which defines
//
//   %gpupool_constant(c_name, script_name, java_name, csharp_name)   how a constant is called
//   typemaps for 64-bit integers, (const char* data, size_t length), OomHandler*, SleepHook* and StreamArgument: a
//   number, or, in scripts, a Stream as well; languages with types get overloads from languages/by_stream.swg
//   %gpupool_copied(TYPE)                                             a member struct is handed out as a copy
//   %gpupool_more_bytes(TYPE)                                         in languages with types: Block's and Slice's own
//                                                                     ways of moving bytes
//   %gpupool_more_backups                                           the same of a pool's saved bytes
//   %gpupool_raises                                                   what a failed call does
%module gpupool

%{
#include <gpupool/gpupool.h>

#include <algorithm>

#include "library.hpp"
#include "objects.hpp"
#include "share.hpp"

using namespace binding;
%}

%include <stdint.i>
%include <std_string.i>

// First, because a language may hide a function, or say more of it.
%include "comments.swg"
#if defined(SWIGJAVA)
%include "languages/java.swg"
#elif defined(SWIGCSHARP)
%include "languages/csharp.swg"
#elif defined(SWIGLUA)
%include "languages/lua.swg"
#elif defined(SWIGRUBY)
%include "languages/ruby.swg"
#else
#error "this language has no file in languages/ yet: see README.md"
#endif

// ---- the header: numbers and structs. Its functions are called by the objects.

%include "names.swg"

// SWIG would guess a narrower type. The version macros are the header's; version() is the library's.
%constant uint64_t STREAM_UNKNOWN = GPUPOOL_STREAM_UNKNOWN;

// Otherwise the member would point into a struct that the language may have collected.
%gpupool_copied(gpupool_stat_t)
%gpupool_copied(gpupool_stat_group_t)
%gpupool_copied(gpupool_call_stat_t)
%gpupool_copied(gpupool_driver_stats_t)

// Only the library makes these.
%nodefaultctor gpupool_device_info_t;
%nodefaultctor gpupool_stat_t;
%nodefaultctor gpupool_stat_group_t;
%nodefaultctor gpupool_call_stat_t;
%nodefaultctor gpupool_driver_stats_t;
%nodefaultctor gpupool_stats_t;
%nodefaultctor gpupool_block_t;
%nodefaultctor gpupool_sleep_result_t;
%nodefaultctor gpupool_segment_t;
%nodefaultctor gpupool_holder_t;
%nodefaultctor gpupool_share_t;
%nodefaultctor gpupool_share_member_t;

// Each enum has its own names where the language has scopes: both Mode.AUTO and Backend.AUTO.
#if defined(SWIGJAVA) || defined(SWIGCSHARP)
#define enum enum class
#endif
%include <gpupool/gpupool.h>
#undef enum

%gpupool_raises

%extend gpupool_config_t {
  /// With the defaults.
  gpupool_config_t() {
    return new gpupool_config_t(default_config());
  }
  ~gpupool_config_t() {
    delete[] $self->peers;
    delete[] $self->share;
    delete $self;
  }
  /// "cuda:1", "sim", "2". Since 0.2.
  void set_device(const std::string& device) { binding::set_device(*$self, device); }
  /// "8GiB", or "40%" of the device. Replaces both limits. Since 0.2.
  void set_limit(const std::string& limit) { binding::set_limit(*$self, limit); }
  /// The group of processes to share the device's memory with. Since 0.2.
  void set_share(const std::string& group) {
    auto* const copy = new char[group.size() + 1];
    std::copy_n(group.c_str(), group.size() + 1, copy);
    delete[] $self->share;
    $self->share = copy;
  }
  /// Asks the driver at every malloc and free whether the stream is capturing a graph.
  void set_capture_aware(bool aware) {
    const uint32_t flag = GPUPOOL_FLAG_CAPTURE_AWARE;
    $self->flags = aware ? $self->flags | flag : $self->flags & ~flag;
  }
  /// Another device that may access the pool's memory.
  void add_peer(int32_t device) {
    const uint32_t count = $self->peer_count;
    auto* const peers = new int32_t[count + 1];
    std::copy_n($self->peers, count, peers);
    peers[count] = device;
    delete[] $self->peers;
    $self->peers = peers;
    $self->peer_count = count + 1;
  }
}

%extend gpupool_sim_config_t {
  /// With the defaults.
  gpupool_sim_config_t() {
    auto* const config = new gpupool_sim_config_t{};
    config->struct_size = sizeof *config;
    return config;
  }
}

%extend gpupool_stats_t {
  /// In words: "2 MiB of 64 MiB reserved, 1 block live".
  std::string to_string() const { return describe_stats(*$self); }
}

// ---- the objects

%nodefaultctor binding::DeviceChoice;
%immutable binding::DeviceChoice::backend;
%immutable binding::DeviceChoice::device;
%nodefaultctor binding::Stream;
%nodefaultctor binding::Block;
%nodefaultctor binding::Slice;
%nodefaultctor binding::Transfer;
%nodefaultctor binding::Snapshot;
%ignore binding::Stream::Stream;
%ignore binding::Snapshot::Snapshot;
%nodefaultctor binding::Holders;
%ignore binding::Holders::Holders;
%nodefaultctor binding::ShareGroup;
%ignore binding::ShareGroup::ShareGroup;
%newobject binding::share_info;
%newobject binding::Pool::shared;
%newobject binding::Pool::create_child;
%newobject binding::Pool::allocate;
%newobject binding::Pool::create_stream;
%newobject binding::Pool::snapshot;
%newobject binding::Pool::holders;
%define %gpupool_hands_out(TYPE)
%newobject binding::TYPE::slice;
%newobject binding::TYPE::write_async;
%newobject binding::TYPE::read_async;
%newobject binding::TYPE::copy_from;
%enddef
%gpupool_hands_out(Block)
%gpupool_hands_out(Slice)

#if defined(SWIGJAVA) || defined(SWIGCSHARP)
%include "languages/by_stream.swg"
%gpupool_more_bytes(Block)
%gpupool_more_bytes(Slice)
%gpupool_more_backups
#endif
%include "library.hpp"
%include "share.hpp"
%include "slices.hpp"
%include "blocks.hpp"
%include "objects.hpp"
