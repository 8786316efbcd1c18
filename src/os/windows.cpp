// SPDX-License-Identifier: Apache-2.0
#define WIN32_LEAN_AND_MEAN
#include <windows.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>

#include "os/clock.hpp"
#include "os/files.hpp"
#include "os/library.hpp"
#include "os/mutex.hpp"
#include "os/process.hpp"
#include "os/thread.hpp"

namespace gpupool::internal::os {

// ---- the process

uint64_t process_id() noexcept {
  return GetCurrentProcessId();
}

uint64_t user_id() noexcept {
  return 0;
}

const char* program_name() noexcept {
  static constinit std::array<char, MAX_PATH> path{};
  (void)GetModuleFileNameA(nullptr, path.data(), static_cast<DWORD>(path.size()) - 1);
  const char* const slash = std::strrchr(path.data(), '\\');
  return slash != nullptr ? slash + 1 : path.data();
}

/// The arguments are one text here: it is for each program to take it apart.
void read_command_line(char* text, size_t room) noexcept {
  (void)std::snprintf(text, room, "%s", GetCommandLineA());
}

const char* const* environment() noexcept {
  return _environ;
}

const char* trusted_environment(const char* name) noexcept {
  return std::getenv(name);
}

void kill_process() noexcept {
  for (;;) TerminateProcess(GetCurrentProcess(), 9);
}

void watch_fork(ForkHook, ForkHook, ForkHook) noexcept {}

void stay_loaded() noexcept {
  HMODULE self = nullptr;
  (void)GetModuleHandleExA(GET_MODULE_HANDLE_EX_FLAG_PIN | GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS,
                           reinterpret_cast<LPCSTR>(&stay_loaded), &self);
}

// ---- threads

uint32_t thread_id() noexcept {
  return GetCurrentThreadId();
}

void forget_thread_id() noexcept {}

void read_thread_name(char* text, size_t room) noexcept {
  using Describe = HRESULT(WINAPI*)(HANDLE, PWSTR*);
  text[0] = '\0';
  const HMODULE kernel = GetModuleHandleA("kernelbase.dll");
  const auto describe = kernel == nullptr ? nullptr
                                          : reinterpret_cast<Describe>(reinterpret_cast<void*>(
                                                GetProcAddress(kernel, "GetThreadDescription")));
  PWSTR name = nullptr;
  if (describe == nullptr || FAILED(describe(GetCurrentThread(), &name))) return;
  size_t at = 0;
  for (; at + 1 < room && name[at] != 0; ++at) text[at] = name[at] < 128 ? static_cast<char>(name[at]) : '?';
  text[at] = '\0';
  LocalFree(name);
}

namespace {

/// What a thread is to do at its end.
struct AtEnd {
  void (*run)(void*);
  size_t bytes;
  alignas(std::max_align_t) std::array<unsigned char, 512> data;
};

void WINAPI on_thread_end(void* value) {
  auto* const at_end = static_cast<AtEnd*>(value);
  at_end->run(at_end->data.data());
  delete at_end;
}

}  // namespace

/// With a copy, because some compilers end thread-local storage before the system calls this.
void at_thread_end(std::atomic<uint64_t>& key, void (*run)(void*), void* data, size_t bytes) noexcept {
  uint64_t known = key.load(std::memory_order_acquire);
  if (known == kNoKey) {
    const DWORD made = FlsAlloc(on_thread_end);
    if (made == FLS_OUT_OF_INDEXES) return;
    // Where several threads come first, one slot stays.
    if (key.compare_exchange_strong(known, made)) {
      known = made;
    } else {
      (void)FlsFree(made);
    }
  }
  const auto slot = static_cast<DWORD>(known);
  if (bytes > sizeof(AtEnd::data)) return;
  auto* at_end = static_cast<AtEnd*>(FlsGetValue(slot));
  if (at_end == nullptr) {
    at_end = new (std::nothrow) AtEnd{run, bytes, {}};
    if (at_end == nullptr) return;
    if (FlsSetValue(slot, at_end) == 0) {
      delete at_end;
      return;
    }
  }
  std::memcpy(at_end->data.data(), data, bytes);
}

namespace {

struct Task {
  void* (*run)(void*);
  void* with;
};

DWORD WINAPI run_task(void* task) {
  const Task own = *static_cast<Task*>(task);
  delete static_cast<Task*>(task);
  (void)own.run(own.with);
  return 0;
}

HANDLE as_handle(uintptr_t handle) noexcept {
  return reinterpret_cast<HANDLE>(handle);
}

}  // namespace

bool HelperThread::start(const char*, void* (*run)(void*), void* with) noexcept {
  auto* const task = new (std::nothrow) Task{run, with};
  const HANDLE thread = task != nullptr ? CreateThread(nullptr, 0, run_task, task, 0, nullptr) : nullptr;
  if (thread == nullptr) {
    delete task;
    errno = ENOMEM;
    return false;
  }
  handle_ = reinterpret_cast<uintptr_t>(thread);
  return true;
}

bool HelperThread::is_this() const noexcept {
  return GetThreadId(as_handle(handle_)) == GetCurrentThreadId();
}

void HelperThread::join() noexcept {
  (void)WaitForSingleObject(as_handle(handle_), INFINITE);
  detach();
}

void HelperThread::detach() noexcept {
  (void)CloseHandle(as_handle(handle_));
}

// ---- mutexes

static_assert(sizeof(SRWLOCK) == sizeof(void*));

void Mutex::lock() noexcept {
  AcquireSRWLockExclusive(reinterpret_cast<SRWLOCK*>(&slim_));
}

bool Mutex::try_lock() noexcept {
  return TryAcquireSRWLockExclusive(reinterpret_cast<SRWLOCK*>(&slim_)) != 0;
}

void Mutex::unlock() noexcept {
  ReleaseSRWLockExclusive(reinterpret_cast<SRWLOCK*>(&slim_));
}

// ---- libraries

const char* const kCudaLibrary = "nvcuda.dll";

void* open_library(const char* name, const char*& reason) noexcept {
  // The driver is the system's: none beside the program, or in the current folder, may take its place.
  const bool is_path = std::strpbrk(name, "/\\") != nullptr;
  const HMODULE library =
      LoadLibraryExA(name, nullptr, is_path ? LOAD_WITH_ALTERED_SEARCH_PATH : LOAD_LIBRARY_SEARCH_SYSTEM32);
  if (library != nullptr) return reinterpret_cast<void*>(library);
  static constinit thread_local std::array<char, 160> text{};
  (void)std::snprintf(text.data(), text.size(), "%.100s cannot be loaded: error %lu", name, GetLastError());
  reason = text.data();
  return nullptr;
}

void* find_symbol(void* library, const char* name) noexcept {
  return reinterpret_cast<void*>(GetProcAddress(static_cast<HMODULE>(library), name));
}

void* find_in_process(const char* name) noexcept {
  return find_symbol(GetModuleHandleA(nullptr), name);
}

// ---- clocks

void write_time(char* text, size_t room) noexcept {
  SYSTEMTIME now{};
  GetSystemTime(&now);
  (void)std::snprintf(text, room, "%04d-%02d-%02dT%02d:%02d:%02d.%03d000Z", now.wYear, now.wMonth, now.wDay,
                      now.wHour, now.wMinute, now.wSecond, now.wMilliseconds);
}

bool append_to_file(const char* path, const char* text, size_t bytes) noexcept {
  const HANDLE file = CreateFileA(path, FILE_APPEND_DATA, FILE_SHARE_READ | FILE_SHARE_WRITE, nullptr,
                                  OPEN_ALWAYS, FILE_ATTRIBUTE_NORMAL, nullptr);
  if (file == INVALID_HANDLE_VALUE) return false;
  DWORD written = 0;
  const bool is_done =
      WriteFile(file, text, static_cast<DWORD>(bytes), &written, nullptr) != 0 && written == bytes;
  (void)CloseHandle(file);
  return is_done;
}

bool replace_file(const char* from, const char* to) noexcept {
  if (MoveFileExA(from, to, MOVEFILE_REPLACE_EXISTING) != 0) return true;
  errno = GetLastError() == ERROR_FILE_NOT_FOUND ? ENOENT : EACCES;
  return false;
}

bool is_there(const char* path) noexcept {
  return GetFileAttributesA(path) != INVALID_FILE_ATTRIBUTES;
}

bool whole_path(const char* path, char* whole, size_t room) noexcept {
  const DWORD length = GetFullPathNameA(path, static_cast<DWORD>(room), whole, nullptr);
  if (length != 0 && length < room) return true;
  errno = ENAMETOOLONG;
  return false;
}

/// A timer of high resolution, from Windows 10 on; else what is left of a slice of time.
void rest(uint32_t nanoseconds) noexcept {
  constexpr DWORD kHighResolution = 2;  // CREATE_WAITABLE_TIMER_HIGH_RESOLUTION
  const HANDLE timer = CreateWaitableTimerExW(nullptr, nullptr, kHighResolution, TIMER_ALL_ACCESS);
  LARGE_INTEGER due{};
  due.QuadPart = -static_cast<LONGLONG>((nanoseconds + 99) / 100);
  if (timer != nullptr && SetWaitableTimer(timer, &due, 0, nullptr, nullptr, FALSE) != 0) {
    (void)WaitForSingleObject(timer, INFINITE);
  } else {
    Sleep(1);
  }
  if (timer != nullptr) (void)CloseHandle(timer);
}

uint64_t coarse_ns() noexcept {
  return GetTickCount64() * 1'000'000;
}

/// The system does not say.
bool trusts_processor_clock() noexcept {
  return false;
}

}  // namespace gpupool::internal::os
