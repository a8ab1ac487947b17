// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// A test of code that uses Tenon: with GoogleTest, in two processes. Its main()
// is @tenon//spawn/testing:gtest_main, as GoogleTest's own does not call
// spawn::Init().

#include "gtest/gtest.h"
#include "tenon/ipc/queue/queue.h"
#include "tenon/spawn/arguments/queue_arguments.h"
#include "tenon/spawn/child/function.h"
#include "tenon/spawn/process/start.h"

namespace {

using tenon::Deadline;
using tenon::Queue;

// The code under test: a process that doubles numbers.
absl::Status Double(int /*index*/, Queue<int> in, Queue<int> out) {
  for (;;) {
    const absl::StatusOr<int> number = in.Get(Deadline::Never());
    if (absl::IsOutOfRange(number.status())) return absl::OkStatus();
    if (!number.ok()) return number.status();
    const absl::Status put = out.Put(2 * *number, Deadline::Never());
    if (!put.ok()) return put;
  }
}
TENON_SPAWN_FUNCTION(Double);

// A test bounds each wait: a process that hangs fails it.
Deadline Soon() { return Deadline::After(absl::Seconds(20)); }

TEST(DoubleTest, DoublesEachNumberUntilTheQueueIsClosed) {
  auto in = Queue<int>::Create();
  auto out = Queue<int>::Create();
  ASSERT_TRUE(in.ok() && out.ok());
  auto process = tenon::spawn::Start(1, Double, {}, *in, *out);
  ASSERT_TRUE(process.ok()) << process.status();
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(in->Put(i, Soon()).ok());
    const absl::StatusOr<int> doubled = out->Get(Soon());
    ASSERT_TRUE(doubled.ok()) << doubled.status();
    EXPECT_EQ(*doubled, 2 * i);
  }
  ASSERT_TRUE(in->Close().ok());
  EXPECT_TRUE(process->Join().ok());
}

}  // namespace
