// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Runs all tests for memory of the CPU, and then for the kind of tests.

#include <cstdio>

#include "gtest/gtest.h"
#include "tenon/shm/arena/every_memory.h"
#include "tenon/shm/arena/memory_kind_id.h"

namespace {

class EachMemory final : public testing::EmptyTestEventListener {
  void OnTestIterationStart(const testing::UnitTest& /*unit_test*/,
                            int iteration) override {
    tenon::SetMemoryUnderTest(iteration % 2 == 0 ? tenon::MemoryKindId::kCpu
                                                 : tenon::kTestMemory);
    printf("[ MEMORY   ] %s\n",
           tenon::NameOf(tenon::MemoryUnderTest()).c_str());
    fflush(stdout);
  }
};

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  // A choice of --gtest_repeat stays.
  if (testing::GTEST_FLAG(repeat) == 1) testing::GTEST_FLAG(repeat) = 2;
  testing::UnitTest::GetInstance()->listeners().Append(new EachMemory);
  return RUN_ALL_TESTS();
}
