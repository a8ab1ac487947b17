// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// A process at its limit of mappings.

#include <errno.h>
#include <sys/mman.h>

#include <cstddef>
#include <fstream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/segment/segment.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/segment/shm_name.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr size_t kMappedBytes = 4096;
constexpr size_t kMostTried = 1'000'000;

size_t MaxMapCount() {
  std::ifstream file("/proc/sys/vm/max_map_count");
  size_t count = 0;
  EXPECT_TRUE(file >> count);
  return count;
}

// One page of one file, mapped again and again: as the parts of the file do not
// follow each other, the kernel cannot join the mappings.
class ManyMappings {
 public:
  explicit ManyMappings(size_t most) { pages_.reserve(most); }

  // Returns the errno that ended it.
  int MapAllThereAre(int fd) {
    while (pages_.size() < pages_.capacity()) {
      void* page = mmap(nullptr, kMappedBytes, PROT_READ, MAP_SHARED, fd, 0);
      if (page == MAP_FAILED) return errno;
      pages_.push_back(page);
    }
    return 0;
  }

  void GiveBack(size_t count) {
    for (; count > 0 && !pages_.empty(); --count) {
      munmap(pages_.back(), kMappedBytes);
      pages_.pop_back();
    }
  }

  size_t size() const { return pages_.size(); }

 private:
  std::vector<void*> pages_;
};

class SegmentMapLimitTest : public testing::TestWithParam<SharingStrategy> {
 protected:
  void SetUp() override {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "sanitizers need mappings themselves";
#endif
    if (MaxMapCount() > kMostTried) {
      GTEST_SKIP() << "vm.max_map_count is " << MaxMapCount() << " here";
    }
  }

  SegmentOptions Options() const {
    return {.strategy = GetParam(), .name_prefix = prefix_};
  }

  const std::string prefix_ = UniqueTestPrefix();
};

TEST_P(SegmentMapLimitTest, IsNamedAndTheNextTryWorks) {
  EXPECT_TRUE(PassesInChild([&] {
    const size_t fds = CountOpenFds();
    {
      TENON_ASSERT_OK_AND_ASSIGN(
          const Segment segment,
          Segment::CreateSharedWritable(kMappedBytes, Options()));
      ManyMappings many(MaxMapCount() + 1);
      // Room on the heap: malloc(), too, cannot get more from the kernel.
      { const std::vector<char> room(100'000); }
      const int error = many.MapAllThereAre(segment.fd());
      const size_t most = many.size();
      const absl::Status read = segment.MapReadOnly().status();
      const absl::Status written = segment.MapWritable().status();
      const absl::Status created =
          Segment::CreateOwnerWritten(kMappedBytes, Options()).status();
      many.GiveBack(1);
      const absl::Status next = segment.MapReadOnly().status();
      const absl::Status next_created =
          Segment::CreateOwnerWritten(kMappedBytes, Options()).status();
      many.GiveBack(most);
      // Expectations allocate memory, so only now.
      EXPECT_EQ(error, ENOMEM);
      EXPECT_GT(most, MaxMapCount() / 2);
      const auto is_named = [](const std::string& protection) {
        return StatusIs(
            absl::StatusCode::kResourceExhausted,
            AllOf(HasSubstr("mmap(segment "), HasSubstr(", 4096 bytes "),
                  HasSubstr(protection),
                  HasSubstr(absl::StrCat(MaxMapCount(), " (vm.max_map_count)")),
                  HasSubstr("sysctl -w vm.max_map_count=<more>")));
      };
      EXPECT_THAT(read, is_named("read-only"));
      EXPECT_THAT(written, is_named("writable"));
      EXPECT_THAT(created, is_named("writable"));
      EXPECT_THAT(next, IsOk());
      EXPECT_THAT(next_created, IsOk());
    }
    EXPECT_EQ(CountOpenFds(), fds);
    EXPECT_THAT(ListShmNames(prefix_), IsOkAndHolds(IsEmpty()));
  }));
}

INSTANTIATE_TEST_SUITE_P(Strategies, SegmentMapLimitTest,
                         testing::ValuesIn(AllSharingStrategies()),
                         [](const auto& test) {
                           return std::string(SharingStrategyName(test.param));
                         });

}  // namespace
}  // namespace tenon
