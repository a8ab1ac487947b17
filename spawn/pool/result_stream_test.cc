// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/spawn/pool/result_stream.h"

#include <fcntl.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <stdexcept>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/futures/future.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/testing/status_matchers.h"
#include "tenon/spawn/pool/pool_function.h"
#include "tenon/spawn/pool/pool_options.h"
#include "tenon/spawn/pool/process_pool.h"
#include "tenon/spawn/testing/child_testing.h"

namespace tenon::spawn {
namespace {

using ::testing::HasSubstr;
using ::testing::UnorderedElementsAreArray;

class ResultStreamTest : public ChildTest {};

int64_t Squared(int64_t x) { return x * x; }
TENON_POOL_FUNCTION(Squared);

InputGenerator<int64_t> UpTo(int64_t end, int64_t fail_at = -1) {
  return [end, fail_at,
          i = int64_t{0}]() mutable -> absl::StatusOr<std::optional<int64_t>> {
    if (i == fail_at) return absl::DataLossError("a bad input");
    if (i == end) return std::optional<int64_t>();
    return std::optional<int64_t>(i++);
  };
}

TEST_F(ResultStreamTest, StreamInOrder) {
  TENON_ASSERT_OK_AND_ASSIGN(ProcessPool pool,
                             ProcessPool::Create({.workers = 3}));
  for (const size_t chunk : {1, 7}) {
    auto stream = pool.Stream(Squared, UpTo(100), {.chunk_size = chunk});
    for (int64_t i = 0; i < 100; ++i) {
      ASSERT_THAT(stream.Next(Watchdog()), IsOkAndHolds(i * i));
    }
    for (int i = 0; i < 2; ++i) {
      EXPECT_THAT(stream.Next(Watchdog()),
                  StatusIs(absl::StatusCode::kOutOfRange));
    }
  }
}

int64_t SleepTenfold(int64_t x) {
  absl::SleepFor(absl::Milliseconds(10 * x));
  return x;
}
TENON_POOL_FUNCTION(SleepTenfold);

TEST_F(ResultStreamTest, StreamAsReady) {
  TENON_ASSERT_OK_AND_ASSIGN(ProcessPool pool,
                             ProcessPool::Create({.workers = 2}));
  // The first takes long; in order, no result would come before it.
  const std::vector<int64_t> inputs = {30, 1, 2, 3, 4};
  auto stream = pool.Stream(
      SleepTenfold,
      [&, i = size_t{0}]() mutable -> absl::StatusOr<std::optional<int64_t>> {
        if (i == inputs.size()) return std::optional<int64_t>();
        return std::optional<int64_t>(inputs[i++]);
      },
      {.ordered = false, .max_chunks = 5});
  std::vector<int64_t> got;
  for (size_t i = 0; i < inputs.size(); ++i) {
    TENON_ASSERT_OK_AND_ASSIGN(const int64_t one, stream.Next(Watchdog()));
    got.push_back(one);
  }
  EXPECT_THAT(got, UnorderedElementsAreArray(inputs));
  EXPECT_NE(got[0], 30);
}

TEST_F(ResultStreamTest, StreamWhoseInputFails) {
  TENON_ASSERT_OK_AND_ASSIGN(ProcessPool pool,
                             ProcessPool::Create({.workers = 2}));
  for (const bool ordered : {true, false}) {
    for (const int64_t fail_at : {0, 2, 6}) {
      for (const size_t chunk : {1, 2, 4}) {
        auto stream = pool.Stream(Squared, UpTo(10, fail_at),
                                  {.ordered = ordered, .chunk_size = chunk});
        std::vector<int64_t> got;
        std::vector<int64_t> want;
        for (int64_t i = 0; i < fail_at; ++i) {
          got.push_back(*stream.Next(Watchdog()));
          want.push_back(i * i);
        }
        EXPECT_THAT(got, UnorderedElementsAreArray(want));
        EXPECT_THAT(stream.Next(Watchdog()),
                    StatusIs(absl::StatusCode::kDataLoss, "a bad input"));
        EXPECT_THAT(stream.Next(Watchdog()),
                    StatusIs(absl::StatusCode::kOutOfRange));
      }
    }
  }
  futures::Future<int64_t> nine = pool.Submit(Squared, 3);
  ASSERT_THAT(nine.Wait(absl::Seconds(60)), IsOk());
  EXPECT_THAT(nine.value(), IsOkAndHolds(9)) << "usable again";
}

TEST_F(ResultStreamTest, StreamWhoseInputThrows) {
  TENON_ASSERT_OK_AND_ASSIGN(ProcessPool pool,
                             ProcessPool::Create({.workers = 2}));
  for (const bool ordered : {true, false}) {
    auto stream = pool.Stream(
        Squared,
        [i = int64_t{0}]() mutable -> absl::StatusOr<std::optional<int64_t>> {
          if (i == 3) throw std::runtime_error("a torn file");
          return std::optional<int64_t>(i++);
        },
        {.ordered = ordered, .chunk_size = 2});
    std::vector<int64_t> got;
    for (int i = 0; i < 3; ++i) got.push_back(*stream.Next(Watchdog()));
    EXPECT_THAT(got, UnorderedElementsAreArray({0, 1, 4}));
    EXPECT_THAT(stream.Next(Watchdog()),
                StatusIs(absl::StatusCode::kInternal, HasSubstr("torn file")));
    EXPECT_THAT(stream.Next(Watchdog()),
                StatusIs(absl::StatusCode::kOutOfRange));
  }
}

TEST_F(ResultStreamTest, ChunksOfAnySize) {
  TENON_ASSERT_OK_AND_ASSIGN(ProcessPool pool,
                             ProcessPool::Create({.workers = 1}));
  constexpr size_t kMost = std::numeric_limits<size_t>::max();
  for (const size_t chunk : {kMost, kMost / 2 + 1}) {
    auto stream = pool.Stream(Squared, UpTo(5), {.chunk_size = chunk});
    for (int64_t i = 0; i < 5; ++i) {
      ASSERT_THAT(stream.Next(Watchdog()), IsOkAndHolds(i * i));
    }
  }
}

UniqueFd Duplicate(const UniqueFd& fd) {
  return UniqueFd(fcntl(fd.get(), F_DUPFD_CLOEXEC, 0));
}
TENON_POOL_FUNCTION(Duplicate);

TEST_F(ResultStreamTest, ChunksWithMoreDescriptorsThanAMessage) {
  TENON_ASSERT_OK_AND_ASSIGN(ProcessPool pool,
                             ProcessPool::Create({.workers = 1}));
  auto stream =
      pool.Stream(Duplicate,
                  [i = 0]() mutable -> absl::StatusOr<std::optional<UniqueFd>> {
                    if (++i > 300) return std::optional<UniqueFd>();
                    return UniqueFd(open("/dev/null", O_RDONLY | O_CLOEXEC));
                  },
                  {.chunk_size = 300, .max_chunks = 1});
  for (int i = 0; i < 300; ++i) {
    ASSERT_THAT(stream.Next(Watchdog()), IsOk()) << i;
  }
}

TEST_F(ResultStreamTest, StreamAsksForInputsAsResultsAreTaken) {
  TENON_ASSERT_OK_AND_ASSIGN(ProcessPool pool,
                             ProcessPool::Create({.workers = 2}));
  int asked = 0;
  auto stream = pool.Stream(Squared,
                            [&]() -> absl::StatusOr<std::optional<int64_t>> {
                              return std::optional<int64_t>(asked++);
                            },
                            {.max_chunks = 3});
  EXPECT_EQ(asked, 3);
  EXPECT_THAT(stream.Next(Watchdog()), IsOkAndHolds(0));
  EXPECT_EQ(asked, 4);
}

TEST_F(ResultStreamTest, StreamHasDeadlines) {
  TENON_ASSERT_OK_AND_ASSIGN(ProcessPool pool,
                             ProcessPool::Create({.workers = 1}));
  auto stream = pool.Stream(SleepTenfold, UpTo(20));
  EXPECT_THAT(stream.Next(Watchdog()), IsOkAndHolds(0));
  absl::StatusOr<int64_t> next = stream.Next(Deadline::Passed());
  while (absl::IsDeadlineExceeded(next.status())) {
    next = stream.Next(Deadline::After(absl::Milliseconds(1)));
  }
  EXPECT_THAT(next, IsOkAndHolds(1));
}

}  // namespace
}  // namespace tenon::spawn
