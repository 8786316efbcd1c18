// SPDX-License-Identifier: Apache-2.0
// The loader's auditing interface (rtld-audit(7)): it tells of every object that is loaded and of every
// symbol that is bound, by a program's links and by dlsym alike, and takes another address in its place. Only
// what is bound to the driver and to NVML comes here, so that no other call is any slower.
#include <link.h>

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "frameworks/audit/bindings.hpp"
#include "frameworks/audit/coverage.hpp"
#include "frameworks/audit/group.hpp"
#include "frameworks/audit/ledger.hpp"
#include "frameworks/audit/line.hpp"
#include "frameworks/audit/relocations.hpp"

namespace gpupool::audit {
namespace {

/// What an object is to us; the loader keeps it with the object.
enum Role : uintptr_t { kProgram, kExempt, kDriver, kNvml };

/// The driver itself; those that patch or watch its functions at the addresses that they find; and NCCL,
/// which expects no refusal.
constexpr std::string_view kExemptNames[] = {
    "libcuda.so", "libnvidia-", "libnvperf_", "libcupti.so", "libsanitizer-collection.so",
    "libucm",     "libnccl.so",
};

constinit const link_map* program = nullptr;
constinit const link_map* driver = nullptr;
constinit const link_map* nvml = nullptr;

std::string_view file_of(const link_map& object) {
  const char* const slash = std::strrchr(object.l_name, '/');
  return slash != nullptr ? slash + 1 : object.l_name;
}

bool is_named(const link_map& object, const char* variable, std::string_view name) {
  const char* const given = secure_getenv(variable);
  return file_of(object).starts_with(name) ||
         (given != nullptr && *given != '\0' && object.l_name == std::string_view(given));
}

bool is_exempt(const link_map& object) {
  for (const std::string_view name : kExemptNames)
    if (file_of(object).starts_with(name)) return true;
  return false;
}

void read_cap() {
  const char* const text = secure_getenv("GPUPOOL_RUN_CAP");
  if (text == nullptr) return;
  uint64_t bytes = 0;
  const char* const end = text + std::strlen(text);
  if (const auto read = std::from_chars(text, end, bytes);
      read.ec == std::errc{} && read.ptr == end && bytes != 0) {
    cap = bytes;
    return;
  }
  Line line;
  line.add("gpupool run: GPUPOOL_RUN_CAP is not a number of bytes, so nothing is capped");
  line.write();
}

}  // namespace
}  // namespace gpupool::audit

using namespace gpupool::audit;

// The loader's names: NOLINTBEGIN(readability-identifier-naming)
extern "C" __attribute__((visibility("default"))) unsigned la_version(unsigned version) {
  if (!Ledger::begin()) return 0;  // the loader goes on without this library
  remember_standard_error();
  read_cap();
  read_group();
  return version;  // versions differ in what la_pltenter is told, which is not here
}

extern "C" __attribute__((visibility("default"))) unsigned la_objopen(link_map* object, Lmid_t space,
                                                                      uintptr_t* cookie) {
  if (program == nullptr) program = object;  // the first of all
  if (driver == nullptr && is_named(*object, "GPUPOOL_LIBCUDA", "libcuda.so")) {
    driver = object;
    begin_library(*object);
    begin_driver(*object, space);
    *cookie = kDriver;
    return LA_FLG_BINDTO;
  }
  if (nvml == nullptr && is_named(*object, "GPUPOOL_LIBNVML", "libnvidia-ml.so")) {
    nvml = object;
    begin_library(*object);
    *cookie = kNvml;
    return LA_FLG_BINDTO;
  }
  if (space == LM_ID_BASE && file_of(*object) == "libc.so.6") begin_libc(*object);
  *cookie = is_exempt(*object) ? kExempt : kProgram;
  return *cookie == kProgram ? LA_FLG_BINDFROM : 0;
}

/// All that the program begins with is relocated.
extern "C" __attribute__((visibility("default"))) void la_preinit(uintptr_t*) {
  begin_program();
  if (driver == nullptr) return;  // it is not linked to the driver
  for (const link_map* object = program; object != nullptr; object = object->l_next)
    if (!is_exempt(*object)) hook_data(*object);
}

extern "C" __attribute__((visibility("default"))) unsigned la_objclose(uintptr_t* cookie) {
  if (*cookie == kDriver) {
    end_library(*driver);
    driver = nullptr;
  }
  if (*cookie == kNvml) {
    end_library(*nvml);
    nvml = nullptr;
  }
  return 0;
}

extern "C" __attribute__((visibility("default"))) uintptr_t la_symbind64(Elf64_Sym* symbol, unsigned,
                                                                         uintptr_t* from, uintptr_t* to,
                                                                         unsigned* flags, const char*) {
  *flags |= LA_SYMB_NOPLTENTER | LA_SYMB_NOPLTEXIT;
  if (*from != kProgram || (*to != kDriver && *to != kNvml)) return symbol->st_value;
  return reinterpret_cast<uintptr_t>(hook_for(reinterpret_cast<void*>(symbol->st_value)));
}
// NOLINTEND(readability-identifier-naming)
