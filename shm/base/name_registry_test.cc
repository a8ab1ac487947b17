// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/base/name_registry.h"

#include <optional>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tenon {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

// Used by initialisers below that run before those of other files.
constinit NameRegistry<int> colours("TENON_TEST_COLOUR");

const int kRed = (colours.Add("red", 1), 1);
const int kBlue = (colours.Add("blue", 2), 2);

TEST(NameRegistryTest, FindsObjectsThatInitialisersAdded) {
  EXPECT_EQ(colours.Find("red"), kRed);
  EXPECT_EQ(colours.Find("blue"), kBlue);
  EXPECT_EQ(colours.Find("green"), std::nullopt);
  EXPECT_EQ(colours.Find(""), std::nullopt);
}

TEST(NameRegistryTest, FindsNamesOfObjects) {
  EXPECT_EQ(colours.FindName([](int colour) { return colour == 1; }), "red");
  EXPECT_EQ(colours.FindName([](int colour) { return colour < 3; }), "blue");
  EXPECT_EQ(colours.FindName([](int) { return false; }), std::nullopt);
}

TEST(NameRegistryTest, ListsByName) {
  EXPECT_THAT(colours.Names(), ElementsAre("blue", "red"));
  EXPECT_THAT(colours.All(), ElementsAre(Pair("blue", 2), Pair("red", 1)));
}

TEST(NameRegistryTest, AnEmptyRegistryFindsNothing) {
  static constinit NameRegistry<std::string> none("TENON_TEST_NONE");
  EXPECT_EQ(none.Find("red"), std::nullopt);
  EXPECT_EQ(none.FindName([](const auto&) { return true; }), std::nullopt);
  EXPECT_THAT(none.Names(), IsEmpty());
  EXPECT_THAT(none.All(), IsEmpty());
}

TEST(NameRegistryDeathTest, ATakenNameEndsTheProgram) {
  EXPECT_DEATH(colours.Add("red", 3),
               "TENON_TEST_COLOUR\\(\"red\"\\): this name is already");
}

}  // namespace
}  // namespace tenon
