// SPDX-License-Identifier: Apache-2.0
// What functions are called: Rust's names, and the lists in files, whatever happened to these.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <ostream>
#include <random>
#include <string>

#include "os/stack.hpp"
#include "os/symbols.hpp"
#include "support/own_folder.hpp"
#include "watch/rust_name.hpp"

namespace gpupool::internal {
namespace {

struct Named {
  const char* symbol;
  const char* name;
};
void PrintTo(const Named& named, std::ostream* to) {
  *to << named.symbol;
}

class RustName : public testing::TestWithParam<Named> {};

TEST_P(RustName, IsAsProgrammersWriteIt) {
  EXPECT_EQ(rust_name(GetParam().symbol), GetParam().name);
}

// The first are what rustc 1.95 made of a program and its standard library.
INSTANTIATE_TEST_SUITE_P(
    All, RustName,
    testing::Values(
        Named{"_RNvCsjMaewn57Afh_1t4main", "t::main"},
        Named{"_RNCNvCsjMaewn57Afh_1t4main0", "t::main::{closure#0}"},
        Named{"_RNvXCsjMaewn57Afh_1tINtB2_1AhENtB2_4Work2goB2_", "<t::A<..>>::go"},
        Named{"_RINvNtCsgEmfK2I1SDS_4core3ptr13drop_in_placeNCINvNtNtCsjrHSEGnQ3l9_"
              "3std6thread9lifecycle15spawn_"
              "uncheckedNCNvCsjMaewn57Afh_1t4main0uEs_0EB1J_",
              "core::ptr::drop_in_place<..>"},
        Named{"_RINvC1a1fFUKCPaOhEbDNtC1b1Tp1ClEL_Ajj3_TlEE", "a::f<..>"},
        Named{"_RINvC1a1fRL_eQSyKb1_Kln5_E", "a::f<..>"}, Named{"_RNvMC1aSh1g", "<..>::g"},
        Named{"_RNvMs_C7gpupoolINtB4_4PoolTlEE6malloc", "<gpupool::Pool<..>>::malloc"},
        Named{"_RNSC1as_6vtable", "a::{shim#1}"}, Named{"_RINvC1a1fTB5_B5_EE", "a::f<..>"},
        Named{"_ZN4core3fmt9Formatter9write_str17h0123456789abcdefE", "core::fmt::Formatter::write_str"},
        Named{"_ZN60_$LT$alloc..vec..Vec$LT$T$GT$$u20$as$u20$core..ops..Drop$GT$4drop17h0123456789abcdefE",
              "<alloc::vec::Vec<T> as core::ops::Drop>::drop"},
        Named{"_ZN1a28_$u7b$$u7b$closure$u7d$$u7d$17h0123456789abcdefE", "a::{{closure}}"},
        Named{"_ZN5$u$.b17h0123456789abcdefE", "$u$.b"},
        // None of Rust's: C++ and C.
        Named{"_ZN7gpupool4PoolC1Ev", ""}, Named{"main", ""}, Named{"", ""},
        // Cut, or longer than what they are made of.
        Named{"_R", ""}, Named{"_RNvC1t", ""}, Named{"_RNvC1t9main", ""}, Named{"_RB_", ""},
        Named{"_RNvB_4main", ""}, Named{"_ZN99main17h0123456789abcdefE", ""},
        Named{"_ZN4main17h0123456789abcdef", ""}, Named{"_ZN99999999999999999999999E", ""}));

TEST(RustName, HasBounds) {
  const auto chain = [](int depth) {
    std::string symbol = "C1a";
    for (int i = 0; i < depth; ++i) symbol = "Nv" + symbol + "1b";
    return "_R" + symbol;
  };
  EXPECT_EQ(rust_name(chain(3)), "a::b::b::b");
  EXPECT_EQ(rust_name(chain(200)), "");
  EXPECT_EQ(rust_name("_R" + std::string(100000, 'R') + "l"), "");
  EXPECT_EQ(rust_name("_RINvC1a1f" + std::string(100000, 'l') + "E"), "");
  EXPECT_EQ(rust_name("_RINvC1a1fA31bE"), "");  // wrong in front of a number
}

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
