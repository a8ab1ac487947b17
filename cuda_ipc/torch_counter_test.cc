// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/cuda_ipc/internal/torch_counter.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <limits>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/cuda_ipc/torch_counter_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon::cuda_ipc {
namespace {

using ::testing::HasSubstr;

// Both functions refuse the same.
void ExpectRefused(const std::string& file, int64_t counter,
                   absl::StatusCode code, const std::string& text) {
  EXPECT_THAT(CheckTorchCounter(file, counter), StatusIs(code, HasSubstr(text)))
      << file;
  EXPECT_THAT(ReleaseTorchCounter(file, counter),
              StatusIs(code, HasSubstr(text)))
      << file;
}

TEST(TorchCounterTest, IsLoweredAloneAndNotBelowZero) {
  const TorchCounters counters;
  counters.Set(6, 1);
  counters.Set(7, 2);
  counters.Set(8, 1);
  EXPECT_THAT(CheckTorchCounter(counters.name(), 7), IsOk());
  EXPECT_EQ(counters.Get(7), 2);
  EXPECT_THAT(ReleaseTorchCounter(counters.name(), 7), IsOk());
  EXPECT_EQ(counters.Get(7), 1);
  EXPECT_THAT(ReleaseTorchCounter(counters.name(), 7), IsOk());
  EXPECT_EQ(counters.Get(7), 0);
  ExpectRefused(counters.name(), 7, absl::StatusCode::kFailedPrecondition,
                "is 0: the message was released before");
  EXPECT_EQ(counters.Get(7), 0);
  counters.Set(7, -3);
  ExpectRefused(counters.name(), 7, absl::StatusCode::kFailedPrecondition,
                "is -3");
  EXPECT_EQ(counters.Get(6), 1);
  EXPECT_EQ(counters.Get(8), 1);
  int32_t references = 0;
  EXPECT_EQ(pread(counters.fd(), &references, sizeof(references), 0), 4);
  EXPECT_EQ(references, 1);
}

TEST(TorchCounterTest, OtherNamesThanTorchsAreRefused) {
  const std::string own = TorchCounters().name();
  for (const std::string& name :
       {std::string(), std::string("/"), std::string("torch_1"),
        std::string("/torch_1/2"), std::string("/torch_/../shm/torch_1"),
        std::string("/../dev/shm/torch_1"), std::string("/tenon-1"),
        std::string("//torch_1"), absl::StrCat("/dev/shm", own),
        absl::StrCat(own, std::string(1, '\0'), "x"),
        absl::StrCat("/torch_", std::string(300, '1'))}) {
    ExpectRefused(name, 0, absl::StatusCode::kInvalidArgument,
                  "want a name in /dev/shm");
  }
}

TEST(TorchCounterTest, CountersBeyondTheFileAreRefused) {
  const TorchCounters counters;
  counters.Set(9'999, 2);
  EXPECT_THAT(ReleaseTorchCounter(counters.name(), 9'999), IsOk());
  EXPECT_EQ(counters.Get(9'999), 1);
  ExpectRefused(counters.name(), 10'000, absl::StatusCode::kInvalidArgument,
                "has 80064 bytes; want at least 80072");
  for (const int64_t counter :
       {int64_t{-1}, int64_t{-8}, std::numeric_limits<int64_t>::min(),
        std::numeric_limits<int64_t>::max(),
        std::numeric_limits<int64_t>::max() / 8}) {
    ExpectRefused(counters.name(), counter, absl::StatusCode::kInvalidArgument,
                  "no file has so many bytes");
  }
  const TorchCounters small(70);
  ExpectRefused(small.name(), 0, absl::StatusCode::kInvalidArgument,
                "has 70 bytes; want at least 72");
  const TorchCounters empty(0);
  ExpectRefused(empty.name(), 0, absl::StatusCode::kInvalidArgument,
                "has 4 bytes");
}

TEST(TorchCounterTest, OtherFilesAreRefused) {
  TorchCounters counters;
  counters.Remove();
  ExpectRefused(counters.name(), 0, absl::StatusCode::kNotFound, "open");
  const std::string path = absl::StrCat("/dev/shm", counters.name());
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  ExpectRefused(counters.name(), 0, absl::StatusCode::kPermissionDenied,
                "torch makes regular files");
  counters.Remove();
  ASSERT_EQ(mkdir(path.c_str(), 0700), 0);
  EXPECT_FALSE(CheckTorchCounter(counters.name(), 0).ok());
  ASSERT_EQ(rmdir(path.c_str()), 0);
  const TorchCounters other;
  other.Set(0, 1);
  ASSERT_EQ(
      symlink(absl::StrCat("/dev/shm", other.name()).c_str(), path.c_str()), 0);
  EXPECT_FALSE(ReleaseTorchCounter(counters.name(), 0).ok());
  counters.Remove();
  ASSERT_EQ(link(absl::StrCat("/dev/shm", other.name()).c_str(), path.c_str()),
            0);
  ExpectRefused(counters.name(), 0, absl::StatusCode::kPermissionDenied,
                "and 2 names");
  counters.Remove();
  EXPECT_EQ(other.Get(0), 1);
  const TorchCounters readable(kTorchFileBytes, 0644);
  ExpectRefused(readable.name(), 0, absl::StatusCode::kPermissionDenied,
                "mode 0644");
}

}  // namespace
}  // namespace tenon::cuda_ipc
