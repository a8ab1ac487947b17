// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/base/per_process.h"

#include <mutex>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/testing/process_testing.h"

namespace tenon {
namespace {

struct Counter {
  std::mutex mutex;
  int count = 0;
};

TEST(PerProcessTest, IsMadeOnce) {
  static constinit PerProcess<Counter> counter;
  EXPECT_EQ(counter.GetIfAny(), nullptr);
  ++counter.Get().count;
  EXPECT_EQ(++counter.Get().count, 2);
  EXPECT_EQ(counter.GetIfAny(), &counter.Get());
}

TEST(PerProcessTest, AForkHasOneOfItsOwn) {
  static constinit PerProcess<Counter> counter;
  // Locked in the parent for ever, as far as the child can see.
  const std::lock_guard<std::mutex> lock(counter.Get().mutex);
  counter.Get().count = 7;
  EXPECT_TRUE(PassesInChild([&] {
    EXPECT_EQ(counter.GetIfAny(), nullptr);
    const std::lock_guard<std::mutex> own(counter.Get().mutex);
    EXPECT_EQ(++counter.Get().count, 1);
  }));
  EXPECT_EQ(counter.Get().count, 7);
}

TEST(PerProcessTest, ThreadsThatAreFirstShareOne) {
  static constinit PerProcess<Counter> counter;
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([] {
      Counter& here = counter.Get();
      const std::lock_guard<std::mutex> lock(here.mutex);
      ++here.count;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(counter.Get().count, 8);
}

}  // namespace
}  // namespace tenon
