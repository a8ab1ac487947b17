// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/worker/loading.h"

#include <atomic>
#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "tenon/loader/data/on_sample_error.h"
#include "tenon/loader/worker/messages.h"
#include "tenon/loader/worker/worker_link.h"
#include "tenon/shm/base/atomics.h"

namespace tenon::loader {
namespace {

constexpr uint64_t kTicket = 7;

// What a worker has noted of task kTicket: the number of a sample plus 1.
Loading Noted(uint64_t sample, uint64_t ticket = kTicket) {
  WorkerNote note = {};
  StdAtomics::Store(note.ticket, ticket, std::memory_order_relaxed);
  StdAtomics::Store(note.sample, sample, std::memory_order_relaxed);
  return Loading(note);
}

// Items 40, 50, 60 at positions 16 to 18.
WorkerLink::Task ThreeItems() {
  return {.job = {.ticket = kTicket, .number = 4, .first_position = 16},
          .indices = {40, 50, 60}};
}

TEST(LoadingTest, DescribesTheSample) {
  const WorkerLink::Task task = ThreeItems();
  EXPECT_EQ(Noted(1).Describe(&task), "sample 16 (item 40)");
  EXPECT_EQ(Noted(3).Describe(&task), "sample 18 (item 60)");
  EXPECT_EQ(Noted(WorkerNote::kAll).Describe(&task), "samples 16 to 18");
  WorkerLink::Task of_lane = {
      .job = {.ticket = kTicket, .number = 4, .lane = 1, .samples = 8},
      .indices = {}};
  EXPECT_EQ(Noted(3).Describe(&of_lane), "sample 2 of batch 4");
}

TEST(LoadingTest, IsNothingOutsideTheTask) {
  const WorkerLink::Task task = ThreeItems();
  EXPECT_FALSE(Loading().IsOf(&task));
  EXPECT_FALSE(Noted(1).IsOf(nullptr));
  EXPECT_EQ(Noted(WorkerNote::kNone).Describe(&task), "");
  EXPECT_EQ(Noted(1, kTicket + 1).Describe(&task), "");
  // A number that no worker of this program notes.
  EXPECT_EQ(Noted(4).Describe(&task), "");
}

TEST(LoadingTest, TwoSnapshotsOfOneSampleAreEqual) {
  EXPECT_EQ(Noted(2), Noted(2));
  EXPECT_NE(Noted(2), Noted(3));
  EXPECT_NE(Noted(2), Noted(2, kTicket + 1));
}

TEST(LoadingTest, SamplesAreLeftOutInTheOrderOfTheirPositions) {
  WorkerLink::Task task = ThreeItems();
  const absl::Status end = absl::AbortedError("killed");
  EXPECT_TRUE(Noted(3).LeaveOutOf(task, end, OnSampleError::kSkip, 100));
  EXPECT_TRUE(Noted(1).LeaveOutOf(task, end, OnSampleError::kSkip, 100));
  ASSERT_EQ(task.left_out.size(), 2u);
  EXPECT_EQ(task.left_out[0].position, 16);
  EXPECT_EQ(task.left_out[0].index, 40);
  EXPECT_EQ(task.left_out[0].status, end);
  EXPECT_EQ(task.left_out[1].position, 18);
  // There is nothing more to leave out.
  EXPECT_FALSE(Noted(3).LeaveOutOf(task, end, OnSampleError::kSkip, 100));
}

TEST(LoadingTest, NothingIsLeftOutOfATaskThatWasNotBegun) {
  WorkerLink::Task task = ThreeItems();
  for (const Loading& loading :
       {Loading(), Noted(1, kTicket - 1), Noted(WorkerNote::kNone), Noted(4)}) {
    EXPECT_FALSE(loading.LeaveOutOf(task, absl::AbortedError("killed"),
                                    OnSampleError::kSkip, 100));
  }
  EXPECT_TRUE(task.left_out.empty());
}

TEST(LoadingTest, ABatchOfGetBatchIsMadeOneByOneFirst) {
  WorkerLink::Task task = ThreeItems();
  const Loading all = Noted(WorkerNote::kAll);
  const absl::Status end = absl::AbortedError("killed");
  EXPECT_TRUE(all.LeaveOutOf(task, end, OnSampleError::kSkip, 100));
  EXPECT_TRUE(task.one_by_one);
  EXPECT_TRUE(task.left_out.empty());
  EXPECT_FALSE(all.LeaveOutOf(task, end, OnSampleError::kSkip, 100));
}

TEST(LoadingTest, ItemsInThePlaceOfASampleAreTriedInTheirOrder) {
  WorkerLink::Task task = ThreeItems();
  const absl::Status end = absl::AbortedError("killed");
  const auto dies = [&] {
    return Noted(3).LeaveOutOf(task, end, OnSampleError::kReplace, 62);
  };
  EXPECT_TRUE(dies());
  EXPECT_EQ(task.left_out[0].replaced_by, -1);
  // After the last item the first.
  for (const int64_t item : {61, 0, 1}) {
    EXPECT_TRUE(dies());
    EXPECT_EQ(task.left_out[0].replaced_by, item);
  }
  int64_t tried = 3;
  while (dies()) ++tried;
  EXPECT_EQ(tried, kReplacements);
}

}  // namespace
}  // namespace tenon::loader
