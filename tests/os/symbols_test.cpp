// SPDX-License-Identifier: Apache-2.0
// What functions are called in the lists of files, whatever happened to these.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>

#include "os/stack.hpp"
#include "os/symbols.hpp"
#include "support/own_folder.hpp"

namespace gpupool::internal {
namespace {

#if defined(__linux__)

[[gnu::noinline, gnu::used]] int only_here(int number) {
  asm volatile("" ::: "memory");
  return number + 1;
}

TEST(Symbols, AreOfFunctionsThatAreNotExported) {
  os::Symbols symbols;
  const char* const code = reinterpret_cast<const char*>(&only_here) + 1;
  os::Origin origin = os::origin_of(code);
  ASSERT_EQ(origin.function, "");
  symbols.complete(origin, code);
  EXPECT_NE(origin.function.find("only_here"), std::string::npos);
  EXPECT_EQ(origin.function_begin, reinterpret_cast<uintptr_t>(&only_here));
  origin.function = "known";
  symbols.complete(origin, code);
  EXPECT_EQ(origin.function, "known");
  os::Origin nowhere;
  symbols.complete(nowhere, &nowhere);
  symbols.complete(nowhere, nullptr);
  EXPECT_EQ(nowhere.function, "");
}

std::string read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Puts other bytes where the file was, which is still loaded.
void replace(const std::filesystem::path& path, const std::string& bytes) {
  const std::filesystem::path other = path.string() + ".new";
  std::ofstream(other, std::ios::binary) << bytes;
  std::filesystem::rename(other, path);
}

TEST(Symbols, OfAFileThatIsNoMoreWhatItWas) {
  const OwnFolder folder;
  const std::filesystem::path path = folder.path() / "library.so";
  std::filesystem::copy_file(FAKE_CUDA_LIBRARY, path);
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  const char* const code = static_cast<const char*>(dlsym(library, "cuInit")) + 1;
  const auto name = [&] {
    os::Symbols symbols;
    os::Origin origin;
    symbols.complete(origin, code);
    return origin.function;
  };
  const std::string good = read(path);
  EXPECT_EQ(name(), "cuInit");

  constexpr size_t kHead = 64;
  std::mt19937 pick(7);
  size_t named = 0;
  for (int turn = 0; turn < 300; ++turn) {
    std::string bad = good;
    const size_t place = kHead + pick() % (bad.size() - kHead);
    if (turn % 3 == 0) {
      bad.resize(place);
    } else {
      // The sections' heads are at the end: half of the time, something in there.
      const size_t from = turn % 2 == 0 ? kHead : bad.size() - std::min<size_t>(bad.size() - kHead, 4096);
      for (int i = 0; i < 40; ++i) bad[from + pick() % (bad.size() - from)] = static_cast<char>(pick());
    }
    replace(path, bad);
    named += name() == "cuInit";
  }
  EXPECT_GT(named, 0U);
  EXPECT_LT(named, 300U);

  std::string other = good;
  other[kHead - 1] = static_cast<char>(other[kHead - 1] + 1);  // another build's head
  replace(path, other);
  EXPECT_EQ(name(), "");
  std::filesystem::remove(path);
  EXPECT_EQ(name(), "");
  dlclose(library);
}

#endif

}  // namespace
}  // namespace gpupool::internal
