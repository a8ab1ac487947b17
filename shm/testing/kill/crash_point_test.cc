// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/base/crash_point.h"

#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tenon {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;

std::vector<std::string>* passed = nullptr;

void Remember(const CrashPoint& point) { passed->push_back(point.name()); }

class CrashPointTest : public testing::Test {
 protected:
  CrashPointTest() {
    passed = &passed_;
    former_ = SetCrashPointHook(&Remember);
  }
  ~CrashPointTest() override { SetCrashPointHook(former_); }

  std::vector<std::string> passed_;
  CrashPointHook former_;
};

void TwoSteps() {
  TENON_CRASH_POINT("crash_point_test.first");
  TENON_CRASH_POINT("crash_point_test.second");
}

template <typename T>
void InTemplate(T) {
  TENON_CRASH_POINT("crash_point_test.template");
}

inline void InInlineFunction() { TENON_CRASH_POINT("crash_point_test.inline"); }

// Never called, but registered all the same.
[[gnu::used]] void NeverCalled() {
  TENON_CRASH_POINT("crash_point_test.never");
}

TEST(CrashPointWithoutHookTest, DoesNothing) {
  EXPECT_EQ(SetCrashPointHook(nullptr), nullptr);
  TwoSteps();
}

TEST_F(CrashPointTest, CallsTheHookAtEachPassing) {
  TwoSteps();
  TwoSteps();
  EXPECT_THAT(passed_,
              ElementsAre("crash_point_test.first", "crash_point_test.second",
                          "crash_point_test.first", "crash_point_test.second"));
}

TEST_F(CrashPointTest, IsInertAgainWithoutAHook) {
  EXPECT_EQ(SetCrashPointHook(nullptr), &Remember);
  TwoSteps();
  EXPECT_THAT(passed_, IsEmpty());
}

TEST_F(CrashPointTest, IsOnePointInAllInstantiations) {
  InTemplate(1);
  InTemplate(2.0);
  InInlineFunction();
  EXPECT_THAT(passed_, ElementsAre("crash_point_test.template",
                                   "crash_point_test.template",
                                   "crash_point_test.inline"));
}

TEST_F(CrashPointTest, WorksAsTheOnlyStatementOfABranch) {
  for (bool condition : {false, true}) {
    if (condition)
      TENON_CRASH_POINT("crash_point_test.then");
    else
      TENON_CRASH_POINT("crash_point_test.else");
  }
  EXPECT_THAT(passed_,
              ElementsAre("crash_point_test.else", "crash_point_test.then"));
}

TEST(CrashPointListTest, HasEveryPointOnceUnderItsIndex) {
  std::vector<std::string> names;
  std::set<size_t> indices;
  for (const CrashPoint* p = LastCrashPoint(); p != nullptr; p = p->next()) {
    names.push_back(p->name());
    indices.insert(p->index());
  }
  EXPECT_THAT(
      names,
      IsSupersetOf({"crash_point_test.first", "crash_point_test.second",
                    "crash_point_test.template", "crash_point_test.inline",
                    "crash_point_test.never"}));
  const std::set<std::string> distinct(names.begin(), names.end());
  EXPECT_EQ(distinct.size(), names.size());
  EXPECT_EQ(indices.size(), names.size());
  EXPECT_EQ(*indices.begin(), 0u);
  EXPECT_EQ(*indices.rbegin(), names.size() - 1);
}

}  // namespace
}  // namespace tenon
