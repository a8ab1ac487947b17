// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/base/demangle.h"

#include <typeinfo>
#include <vector>

#include "gtest/gtest.h"

namespace tenon {
namespace {

TEST(DemangleTest, TypesAndSymbols) {
  EXPECT_EQ(Demangle(typeid(int).name()), "int");
  EXPECT_EQ(Demangle(typeid(std::vector<int>).name()),
            "std::vector<int, std::allocator<int> >");
  EXPECT_EQ(Demangle("_ZN5tenon5AbortEv"), "tenon::Abort()");
}

TEST(DemangleTest, OtherNamesAreUnchanged) {
  EXPECT_EQ(Demangle("main()"), "main()");
  EXPECT_EQ(Demangle(""), "");
}

}  // namespace
}  // namespace tenon
