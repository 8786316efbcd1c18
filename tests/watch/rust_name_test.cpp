// SPDX-License-Identifier: Apache-2.0
// Rust's names of functions.
#include "watch/rust_name.hpp"

#include <gtest/gtest.h>

#include <ostream>
#include <string>

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

}  // namespace
}  // namespace gpupool::internal
