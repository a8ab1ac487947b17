// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/value/array.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/pages/mapping.h"
#include "tenon/shm/segment/segment.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/segment/shm_name.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"
#include "tenon/shm/value/value_header.h"

namespace tenon {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

struct Point {
  double x = 1;
  double y = 2;
};

// The operations of an Array of T are checked at compile time.
template <typename T>
concept CanLoad = requires(const Array<T>& array) {
  array.Load(0);
};
template <typename T>
concept CanAdd = requires(const Array<T>& array) {
  array.FetchAdd(0, T());
};
static_assert(CanLoad<int8_t> && CanAdd<int8_t>);
static_assert(CanLoad<uint64_t> && CanAdd<uint64_t>);
static_assert(CanLoad<bool> && !CanAdd<bool>);
static_assert(!CanLoad<float> && !CanAdd<float>);
static_assert(!CanLoad<Point>);

UniqueFd Duplicate(int fd) { return UniqueFd(fcntl(fd, F_DUPFD_CLOEXEC, 0)); }

TEST(ArrayTest, IsValueInitialised) {
  const auto numbers = Array<int64_t>::Create(1000);
  ASSERT_THAT(numbers, IsOk());
  EXPECT_EQ(numbers->size(), 1000u);
  EXPECT_THAT(numbers->data().value(),
              testing::AllOf(SizeIs(1000), Each(int64_t{0})));
  const auto points = Array<Point>::Create(3);
  ASSERT_THAT(points, IsOk());
  const absl::Span<const Point> each = points->data().value();
  for (const Point& point : each) {
    EXPECT_EQ(point.x, 1);
    EXPECT_EQ(point.y, 2);
  }
  const auto atomics = Array<std::atomic<int>>::Create(3);
  ASSERT_THAT(atomics, IsOk());
  EXPECT_EQ(atomics->data().value()[2].load(), 0);
}

TEST(ArrayTest, AChildMakesTheRunningSum) {
  const auto array = Array<int64_t>::Create(10);
  ASSERT_THAT(array, IsOk());
  const absl::Span<int64_t> numbers = array->data().value();
  for (size_t i = 0; i < 10; ++i) numbers[i] = static_cast<int64_t>(i) - 3;
  EXPECT_TRUE(PassesInChild([&] {
    const auto same = Array<int64_t>::Adopt(Duplicate(array->fd()));
    ASSERT_THAT(same, IsOk());
    const absl::Span<int64_t> theirs = same->data().value();
    for (size_t i = 1; i < theirs.size(); ++i) theirs[i] += theirs[i - 1];
  }));
  EXPECT_THAT(numbers, ElementsAre(-3, -5, -6, -6, -5, -3, 0, 4, 9, 15));
  EXPECT_THAT(numbers.subspan(2, 3), ElementsAre(-6, -6, -5));
}

// Former contents of the memory are not visible.
TEST(ArrayTest, IsZeroedWhereOthersWereBefore) {
  for (int round = 0; round < 3; ++round) {
    const auto array = Array<int32_t>::Create(100'000);
    ASSERT_THAT(array, IsOk());
    const absl::Span<int32_t> numbers = array->data().value();
    EXPECT_THAT(numbers, Each(0));
    for (int32_t& number : numbers) number = round + 1;
  }
}

class ArrayStrategyTest : public testing::TestWithParam<SharingStrategy> {};

TEST_P(ArrayStrategyTest, IsTheSameMemoryInAnotherProcess) {
  const std::string prefix = UniqueTestPrefix();
  {
    const auto array = Array<uint32_t>::Create(
        5, {.strategy = GetParam(), .name_prefix = prefix});
    ASSERT_THAT(array, IsOk());
    ASSERT_THAT(array->Store(1, 11), IsOk());
    const bool by_name = GetParam() == SharingStrategy::kFileSystem;
    EXPECT_EQ(array->name().empty(), !by_name);
    EXPECT_TRUE(PassesInChild([&] {
      const auto same = by_name
                            ? Array<uint32_t>::Open(array->name())
                            : Array<uint32_t>::Adopt(Duplicate(array->fd()));
      ASSERT_THAT(same, IsOk());
      EXPECT_EQ(same->size(), 5u);
      EXPECT_THAT(same->Load(1), IsOkAndHolds(11u));
      EXPECT_THAT(same->FetchAdd(1, 2), IsOkAndHolds(11u));
      same->data().value()[4] = 44;
    }));
    EXPECT_THAT(array->data().value(), ElementsAre(0, 13, 0, 0, 44));
  }
  EXPECT_THAT(ListShmNames(prefix), IsOkAndHolds(IsEmpty()));
}

INSTANTIATE_TEST_SUITE_P(Strategies, ArrayStrategyTest,
                         testing::ValuesIn(AllSharingStrategies().begin(),
                                           AllSharingStrategies().end()));

TEST(ArrayTest, IndicesThatAreNotThere) {
  const auto array = Array<int>::Create(3);
  ASSERT_THAT(array, IsOk());
  for (const size_t index : {size_t{3}, ~size_t{0}}) {
    EXPECT_THAT(array->Load(index), StatusIs(absl::StatusCode::kOutOfRange,
                                             HasSubstr("of 3 elements")));
    EXPECT_THAT(array->Store(index, 1),
                StatusIs(absl::StatusCode::kOutOfRange));
    EXPECT_THAT(array->FetchAdd(index, 1),
                StatusIs(absl::StatusCode::kOutOfRange));
  }
}

TEST(ArrayTest, SizesThatCannotBe) {
  EXPECT_THAT(Array<int>::Create(0),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("want at least one")));
  for (const size_t count : {~size_t{0}, ~size_t{0} / 8 + 1, ~size_t{0} / 16}) {
    EXPECT_THAT(Array<int64_t>::Create(count),
                StatusIs(absl::StatusCode::kInvalidArgument));
  }
  EXPECT_THAT(Array<int64_t>::Create(size_t{1} << 50),
              StatusIs(absl::StatusCode::kResourceExhausted));
}

TEST(ArrayTest, AddsOfAllAreCounted) {
  const auto array = Array<uint16_t>::Create(2);
  ASSERT_THAT(array, IsOk());
  const auto same = Array<uint16_t>::Adopt(Duplicate(array->fd()));
  ASSERT_THAT(same, IsOk());
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      const Array<uint16_t>& mine = i % 2 == 0 ? *array : *same;
      for (int n = 0; n < 20'000; ++n) {
        ASSERT_THAT(mine.FetchAdd(1, 1, std::memory_order_relaxed), IsOk());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(array->Load(1), IsOkAndHolds(80'000 % 65'536));
  EXPECT_THAT(array->Load(0), IsOkAndHolds(0));
}

TEST(ArrayTest, SignedWrapsAround) {
  const auto array = Array<int8_t>::Create(1);
  ASSERT_THAT(array, IsOk());
  ASSERT_THAT(array->Store(0, 127), IsOk());
  EXPECT_THAT(array->FetchAdd(0, 1), IsOkAndHolds(127));
  EXPECT_THAT(array->Load(0), IsOkAndHolds(-128));
}

TEST(ArrayTest, MovedToIsWhole) {
  auto array = Array<int>::Create(2);
  ASSERT_THAT(array, IsOk());
  ASSERT_THAT(array->Store(1, 5), IsOk());
  const Array<int> moved = *std::move(array);
  EXPECT_THAT(moved.Load(1), IsOkAndHolds(5));
}

// ---- Segments with other contents ----

TEST(ArrayHeaderTest, OtherElementsAreRefused) {
  const auto array = Array<int32_t>::Create(8);
  ASSERT_THAT(array, IsOk());
  const auto refused = [](const std::string& why) {
    return StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(why));
  };
  EXPECT_THAT(Array<int64_t>::Adopt(Duplicate(array->fd())),
              refused("the size of an element is 4; want 8"));
  EXPECT_THAT(Array<uint32_t>::Adopt(Duplicate(array->fd())),
              refused("the type of an element"));
  EXPECT_THAT(Array<float>::Adopt(Duplicate(array->fd())),
              refused("the type of an element"));
  struct FourBytes {
    char bytes[4];
  };
  EXPECT_THAT(Array<FourBytes>::Adopt(Duplicate(array->fd())),
              refused("the alignment is 4; want 1"));
  EXPECT_THAT(Array<int32_t>::Adopt(Duplicate(array->fd())), IsOk());
}

TEST(ArrayHeaderTest, WhatIsNoArrayIsRefused) {
  const auto segment = Segment::CreateSharedWritable(4096);
  ASSERT_THAT(segment, IsOk());
  EXPECT_THAT(Array<int>::Adopt(Duplicate(segment->fd())),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("it holds neither, or is incomplete")));
  const auto small = Segment::CreateSharedWritable(63);
  ASSERT_THAT(small, IsOk());
  EXPECT_THAT(
      Array<int>::Adopt(Duplicate(small->fd())),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("63; want 64")));
  EXPECT_THAT(Array<int>::Adopt(UniqueFd(dup(0))), Not(IsOk()));
  EXPECT_THAT(Array<int>::Open("../x"),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(Array<int>::Open(UniqueTestPrefix()),
              StatusIs(absl::StatusCode::kNotFound));
}

TEST(ArrayHeaderTest, UnsealedMemoryIsRefused) {
  UniqueFd fd(memfd_create("hostile", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(fd.get(), 4096), 0);
  EXPECT_THAT(Array<int>::Adopt(std::move(fd)),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("lacks required seals: F_SEAL_")));
}

// Every word of the header, set to values of an untrusted peer.
TEST(ArrayHeaderTest, LiesAreRefused) {
  const auto segment = Segment::CreateSharedWritable(64 + 8 * 4);
  ASSERT_THAT(segment, IsOk());
  const auto mapping = segment->MapWritable();
  ASSERT_THAT(mapping, IsOk());
  auto* header = reinterpret_cast<ValueHeader*>(mapping->data());
  const ValueHeader honest = {.magic = ValueHeader::kMagic,
                              .version = 1,
                              .element_bytes = 4,
                              .alignment = 4,
                              .type = 0x00200001,  // int32
                              .count = 8,
                              .zero = {}};
  const auto adopt = [&](const ValueHeader& lie) {
    std::memcpy(header, &lie, sizeof(lie));
    return Array<int32_t>::Adopt(Duplicate(segment->fd())).status();
  };
  ASSERT_THAT(adopt(honest), IsOk());
  for (const uint64_t lie :
       {uint64_t{0}, uint64_t{2}, uint64_t{7}, uint64_t{9}, uint64_t{1} << 32,
        (uint64_t{1} << 62) + 8, uint64_t{1} << 63, ~uint64_t{0}}) {
    const auto small = static_cast<uint32_t>(lie);
    ValueHeader lying = honest;
    lying.magic = lie;
    EXPECT_THAT(adopt(lying), StatusIs(absl::StatusCode::kInvalidArgument));
    lying = honest;
    lying.version = small;
    EXPECT_THAT(adopt(lying), StatusIs(absl::StatusCode::kInvalidArgument,
                                       HasSubstr("version")));
    lying = honest;
    lying.element_bytes = small;
    EXPECT_THAT(adopt(lying), StatusIs(absl::StatusCode::kInvalidArgument));
    lying = honest;
    lying.alignment = small;
    EXPECT_THAT(adopt(lying), StatusIs(absl::StatusCode::kInvalidArgument));
    lying = honest;
    lying.type = small;
    EXPECT_THAT(adopt(lying), StatusIs(absl::StatusCode::kInvalidArgument));
    lying = honest;
    lying.count = lie;
    EXPECT_THAT(adopt(lying), StatusIs(absl::StatusCode::kInvalidArgument));
  }
}

// An array's known layout does not change with later writes of its header.
TEST(ArrayHeaderTest, IsReadOnce) {
  const auto array = Array<int>::Create(4);
  ASSERT_THAT(array, IsOk());
  const auto segment =
      Segment::Adopt(Duplicate(array->fd()), SegmentKind::kSharedWritable);
  ASSERT_THAT(segment, IsOk());
  const auto mapping = segment->MapWritable();
  ASSERT_THAT(mapping, IsOk());
  std::memset(mapping->data(), 0xff, sizeof(ValueHeader));
  EXPECT_EQ(array->size(), 4u);
  EXPECT_THAT(array->Load(4), StatusIs(absl::StatusCode::kOutOfRange));
  EXPECT_THAT(array->data().value(), SizeIs(4));
}

}  // namespace
}  // namespace tenon
