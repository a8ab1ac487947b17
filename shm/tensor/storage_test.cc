// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/tensor/storage.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/base/unique_fd.h"
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

constexpr size_t kSize = 10'000;

bool AreAll(const Storage& storage, std::byte value) {
  const std::byte* bytes = storage.Read().value();
  return std::all_of(bytes, bytes + storage.size_bytes(),
                     [value](std::byte b) { return b == value; });
}

SegmentOptions Named(const std::string& prefix) {
  return {.strategy = SharingStrategy::kFileSystem, .name_prefix = prefix};
}

// ---- Private memory ----

TEST(PrivateStorageTest, IsZeroedAlignedAndWritable) {
  // From the heap, and as pages.
  for (const size_t size : {size_t{1}, kSize, size_t{3} << 20}) {
    const auto storage = Storage::CreatePrivate(size);
    ASSERT_THAT(storage, IsOk());
    EXPECT_EQ((*storage)->size_bytes(), size);
    EXPECT_FALSE((*storage)->is_shared());
    EXPECT_TRUE((*storage)->writable());
    EXPECT_EQ((*storage)->id(), std::nullopt);
    EXPECT_EQ((*storage)->fd(), -1);
    EXPECT_TRUE(AreAll(**storage, std::byte{0}));
    std::byte* bytes = (*storage)->Write().value();
    EXPECT_EQ(reinterpret_cast<uintptr_t>(bytes) % 64, 0u);
    std::memset(bytes, 1, size);
    EXPECT_TRUE(AreAll(**storage, std::byte{1}));
  }
}

TEST(PrivateStorageTest, MayBeLeftUninitialized) {
  const auto storage =
      Storage::CreatePrivate(kSize, MemoryInit::kUninitialized);
  ASSERT_THAT(storage, IsOk());
  std::memset((*storage)->Write().value(), 7, kSize);
  EXPECT_TRUE(AreAll(**storage, std::byte{7}));
}

TEST(PrivateStorageTest, MayBeEmpty) {
  const auto storage = Storage::CreatePrivate(0);
  ASSERT_THAT(storage, IsOk());
  EXPECT_THAT((*storage)->Read(), IsOkAndHolds(nullptr));
  EXPECT_THAT((*storage)->Write(), IsOkAndHolds(nullptr));
}

TEST(PrivateStorageTest, MoreThanThereIsIsAnError) {
  for (const size_t size : {size_t{1} << 62, ~size_t{0}}) {
    EXPECT_THAT(Storage::CreatePrivate(size),
                StatusIs(absl::StatusCode::kResourceExhausted,
                         HasSubstr("a tensor's private storage of")));
  }
  // Not vm.max_map_count, although mmap() fails with the same code.
  EXPECT_THAT(Storage::CreatePrivate(size_t{1} << 50),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       AllOf(HasSubstr("1125899906842624 bytes (1.0 PiB) "
                                       "exceeds all memory"),
                             HasSubstr("MemTotal"))));
}

// ---- Segments ----

struct SharedCase {
  SegmentKind kind;
  SharingStrategy strategy;
};

class SharedStorageTest : public testing::TestWithParam<SharedCase> {
 protected:
  SegmentOptions Options() const {
    return {.strategy = GetParam().strategy, .name_prefix = prefix_};
  }
  const std::string prefix_ = UniqueTestPrefix();
};

TEST_P(SharedStorageTest, IsASegmentThatItsCreatorMayWrite) {
  const auto storage = Storage::CreateShared(kSize, GetParam().kind, Options());
  ASSERT_THAT(storage, IsOk());
  EXPECT_TRUE((*storage)->is_shared());
  EXPECT_TRUE((*storage)->writable());
  EXPECT_EQ((*storage)->size_bytes(), kSize);
  EXPECT_EQ((*storage)->kind(), GetParam().kind);
  EXPECT_EQ((*storage)->strategy(), GetParam().strategy);
  const bool by_name = GetParam().strategy == SharingStrategy::kFileSystem;
  EXPECT_EQ((*storage)->name().empty(), !by_name);
  EXPECT_EQ((*storage)->fd() < 0, by_name);
  EXPECT_TRUE(AreAll(**storage, std::byte{0}));
  std::memset((*storage)->Write().value(), 3, kSize);
  EXPECT_TRUE(AreAll(**storage, std::byte{3}));
}

TEST_P(SharedStorageTest, IsTheSameMemoryWhereItIsMappedAgain) {
  const auto storage = Storage::CreateShared(kSize, GetParam().kind, Options());
  ASSERT_THAT(storage, IsOk());
  const bool by_name = GetParam().strategy == SharingStrategy::kFileSystem;
  const size_t fds = CountOpenFds();
  auto segment =
      by_name ? Segment::Open((*storage)->name(), GetParam().kind)
              : Segment::Adopt(
                    UniqueFd(fcntl((*storage)->fd(), F_DUPFD_CLOEXEC, 0)),
                    GetParam().kind);
  ASSERT_THAT(segment, IsOk());
  const auto again = Storage::FromSegment(*std::move(segment));
  ASSERT_THAT(again, IsOk());
  EXPECT_EQ((*again)->id(), (*storage)->id());
  EXPECT_EQ((*again)->name(), (*storage)->name());
  // A name costs no descriptor.
  EXPECT_EQ(CountOpenFds(), fds + (by_name ? 0 : 1));
  std::memset((*storage)->Write().value(), 9, kSize);
  EXPECT_TRUE(AreAll(**again, std::byte{9}));

  const bool writable = GetParam().kind == SegmentKind::kSharedWritable;
  EXPECT_EQ((*again)->writable(), writable);
  if (writable) {
    std::memset((*again)->Write().value(), 8, kSize);
    EXPECT_TRUE(AreAll(**storage, std::byte{8}));
  } else {
    EXPECT_THAT((*again)->Write(),
                StatusIs(absl::StatusCode::kFailedPrecondition,
                         HasSubstr("written by its owner alone")));
  }
}

TEST_P(SharedStorageTest, TakesOverTheNameOfACreatedSegment) {
  {
    auto segment = Segment::CreateSharedWritable(kSize, Options());
    ASSERT_THAT(segment, IsOk());
    const auto storage = Storage::FromSegment(*std::move(segment));
    ASSERT_THAT(storage, IsOk());
    const bool by_name = GetParam().strategy == SharingStrategy::kFileSystem;
    EXPECT_THAT(ListShmNames(prefix_),
                IsOkAndHolds(testing::SizeIs(by_name ? 1 : 0)));
  }
  EXPECT_THAT(ListShmNames(prefix_), IsOkAndHolds(IsEmpty()));
}

TEST_P(SharedStorageTest, LeavesNothingBehind) {
  const size_t fds = CountOpenFds();
  {
    const auto storage =
        Storage::CreateShared(kSize, GetParam().kind, Options());
    ASSERT_THAT(storage, IsOk());
  }
  EXPECT_EQ(CountOpenFds(), fds);
  EXPECT_THAT(ListShmNames(prefix_), IsOkAndHolds(IsEmpty()));
}

TEST_P(SharedStorageTest, OfBytesIsLikeOneThatIsFilledLater) {
  const size_t fds = CountOpenFds();
  {
    const std::vector<std::byte> bytes(kSize, std::byte{6});
    const auto storage =
        Storage::CreateSharedFrom(bytes, GetParam().kind, Options());
    ASSERT_THAT(storage, IsOk());
    EXPECT_TRUE((*storage)->is_shared());
    EXPECT_TRUE((*storage)->writable());
    EXPECT_EQ((*storage)->kind(), GetParam().kind);
    EXPECT_EQ((*storage)->strategy(), GetParam().strategy);
    EXPECT_EQ((*storage)->size_bytes(), kSize);
    EXPECT_NE((*storage)->id(), std::nullopt);
    EXPECT_TRUE(AreAll(**storage, std::byte{6}));
    std::memset((*storage)->Write().value(), 5, kSize);
    EXPECT_TRUE(AreAll(**storage, std::byte{5}));
    EXPECT_EQ(bytes[0], std::byte{6});
  }
  EXPECT_EQ(CountOpenFds(), fds);
  EXPECT_THAT(ListShmNames(prefix_), IsOkAndHolds(IsEmpty()));
}

TEST_P(SharedStorageTest, BytesThatCannotBeReadAreAnError) {
  void* data =
      mmap(nullptr, kSize, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(data, MAP_FAILED);
  const size_t fds = CountOpenFds();
  EXPECT_THAT(
      Storage::CreateSharedFrom({static_cast<const std::byte*>(data), kSize},
                                GetParam().kind, Options()),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("[EFAULT]")));
  EXPECT_EQ(CountOpenFds(), fds);
  EXPECT_THAT(ListShmNames(prefix_), IsOkAndHolds(IsEmpty()));
  munmap(data, kSize);
}

TEST_P(SharedStorageTest, WithoutBytesThereIsNoSegment) {
  const size_t fds = CountOpenFds();
  const auto storage = Storage::CreateShared(0, GetParam().kind, Options());
  ASSERT_THAT(storage, IsOk());
  EXPECT_TRUE((*storage)->is_shared());
  EXPECT_EQ((*storage)->strategy(), GetParam().strategy);
  EXPECT_EQ((*storage)->id(), std::nullopt);
  const auto from = Storage::CreateSharedFrom({}, GetParam().kind, Options());
  ASSERT_THAT(from, IsOk());
  EXPECT_TRUE((*from)->is_shared());
  EXPECT_EQ((*from)->kind(), GetParam().kind);
  EXPECT_EQ(CountOpenFds(), fds);
  const SegmentOptions named = {.name = prefix_ + ".named"};
  for (const auto& status :
       {Storage::CreateShared(0, GetParam().kind, named).status(),
        Storage::CreateSharedFrom({}, GetParam().kind, named).status()}) {
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument,
                                 HasSubstr("0 bytes")));
  }
  EXPECT_THAT(Storage::CreateShared(0, GetParam().kind, {.name = "a/b"}),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

INSTANTIATE_TEST_SUITE_P(
    All, SharedStorageTest,
    testing::Values(
        SharedCase{SegmentKind::kSharedWritable,
                   SharingStrategy::kFileDescriptor},
        SharedCase{SegmentKind::kSharedWritable, SharingStrategy::kFileSystem},
        SharedCase{SegmentKind::kOwnerWritten,
                   SharingStrategy::kFileDescriptor},
        SharedCase{SegmentKind::kOwnerWritten, SharingStrategy::kFileSystem}));

TEST(StorageIdTest, TellsSegmentsApart) {
  const auto a = Storage::CreateShared(kSize, SegmentKind::kSharedWritable);
  const auto b = Storage::CreateShared(kSize, SegmentKind::kSharedWritable);
  ASSERT_THAT(a, IsOk());
  ASSERT_THAT(b, IsOk());
  EXPECT_NE((*a)->id(), (*b)->id());
  EXPECT_THAT(Storage::Identify((*a)->fd(), "a"), IsOkAndHolds(*(*a)->id()));
  EXPECT_THAT(Storage::Identify(-1, "nothing"),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("fstat(nothing)")));
}

// ---- Memory that is lent ----

TEST(LentStorageTest, KeepsTheLenderUntilItIsGone) {
  auto memory = std::make_shared<std::array<std::byte, 100>>();
  const std::weak_ptr<void> alive = memory;
  std::byte* const data = memory->data();
  auto storage = Storage::FromLent({.data = data,
                                    .size_bytes = 100,
                                    .writable = true,
                                    .lender = std::move(memory)});
  EXPECT_THAT(storage->Write(), IsOkAndHolds(data));
  EXPECT_FALSE(storage->is_shared());
  EXPECT_FALSE(alive.expired());
  EXPECT_THAT(storage->MoveToSegment(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("another library lent")));
  EXPECT_THAT(storage->Write(), IsOkAndHolds(data));
  storage.reset();
  EXPECT_TRUE(alive.expired());
}

TEST(LentStorageTest, MayBeReadOnly) {
  std::byte memory[4] = {};
  const auto storage = Storage::FromLent({.data = memory, .size_bytes = 4});
  EXPECT_FALSE(storage->writable());
  EXPECT_THAT(storage->Read(), IsOkAndHolds(memory));
  EXPECT_THAT(storage->Write(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                         HasSubstr("read-only")));
}

// ---- MoveToSegment() ----

class MoveToSegmentTest : public testing::TestWithParam<SharingStrategy> {};

TEST_P(MoveToSegmentTest, KeepsTheBytesForEverybodyWhoHasTheStorage) {
  const std::string prefix = UniqueTestPrefix();
  const auto storage = Storage::CreatePrivate(kSize);
  ASSERT_THAT(storage, IsOk());
  const std::shared_ptr<Storage> other = *storage;
  std::memset((*storage)->Write().value(), 5, kSize);

  ASSERT_THAT((*storage)->MoveToSegment(
                  {.strategy = GetParam(), .name_prefix = prefix}),
              IsOk());
  EXPECT_TRUE(other->is_shared());
  EXPECT_TRUE(other->writable());
  EXPECT_EQ(other->strategy(), GetParam());
  EXPECT_EQ(other->kind(), SegmentKind::kSharedWritable);
  EXPECT_NE(other->id(), std::nullopt);
  EXPECT_EQ(other->size_bytes(), kSize);
  EXPECT_TRUE(AreAll(*other, std::byte{5}));
  std::memset((*storage)->Write().value(), 6, kSize);
  EXPECT_TRUE(AreAll(*other, std::byte{6}));
}

INSTANTIATE_TEST_SUITE_P(Strategies, MoveToSegmentTest,
                         testing::ValuesIn(AllSharingStrategies().begin(),
                                           AllSharingStrategies().end()));

TEST(MoveToSegmentOnceTest, AgainIsNothing) {
  const auto storage = Storage::CreatePrivate(kSize);
  ASSERT_THAT(storage, IsOk());
  ASSERT_THAT((*storage)->MoveToSegment(), IsOk());
  const auto id = (*storage)->id();
  std::byte* const bytes = (*storage)->Write().value();
  const std::string prefix = UniqueTestPrefix();
  ASSERT_THAT((*storage)->MoveToSegment(Named(prefix)), IsOk());
  EXPECT_EQ((*storage)->id(), id);
  EXPECT_THAT((*storage)->Write(), IsOkAndHolds(bytes));
  EXPECT_THAT(ListShmNames(prefix), IsOkAndHolds(IsEmpty()));
}

TEST(MoveToSegmentOnceTest, EmptyIsSharedToo) {
  const auto storage = Storage::CreatePrivate(0);
  ASSERT_THAT(storage, IsOk());
  ASSERT_THAT((*storage)->MoveToSegment(), IsOk());
  EXPECT_TRUE((*storage)->is_shared());
  ASSERT_THAT((*storage)->MoveToSegment(), IsOk());
}

TEST(MoveToSegmentOnceTest, NotWhileItIsPinned) {
  const auto storage = Storage::CreatePrivate(kSize);
  ASSERT_THAT(storage, IsOk());
  {
    const Storage::Pin pin(*storage);
    const Storage::Pin another(*storage);
    EXPECT_THAT((*storage)->MoveToSegment(),
                StatusIs(absl::StatusCode::kFailedPrecondition,
                         HasSubstr("lent to another library 2 times")));
    EXPECT_FALSE((*storage)->is_shared());
  }
  EXPECT_THAT((*storage)->MoveToSegment(), IsOk());
  const Storage::Pin pin(*storage);
  EXPECT_THAT((*storage)->MoveToSegment(), IsOk());
}

TEST(MoveToSegmentOnceTest, AFailureLeavesItAsItWas) {
  const auto storage = Storage::CreatePrivate(kSize);
  ASSERT_THAT(storage, IsOk());
  std::byte* const bytes = (*storage)->Write().value();
  std::memset(bytes, 4, kSize);
  EXPECT_THAT((*storage)->MoveToSegment(Named("no/prefix")),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_FALSE((*storage)->is_shared());
  EXPECT_THAT((*storage)->Write(), IsOkAndHolds(bytes));
  EXPECT_TRUE(AreAll(**storage, std::byte{4}));
}

TEST(MoveToSegmentOnceTest, WithoutDescriptorsIsAnErrorThatNamesTheLimit) {
  EXPECT_TRUE(PassesInChild([] {
    const auto storage = Storage::CreatePrivate(kSize);
    ASSERT_THAT(storage, IsOk());
    const rlimit none = {0, 0};
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
    EXPECT_THAT((*storage)->MoveToSegment(
                    {.strategy = SharingStrategy::kFileDescriptor}),
                StatusIs(absl::StatusCode::kResourceExhausted,
                         HasSubstr("RLIMIT_NOFILE")));
    EXPECT_FALSE((*storage)->is_shared());
    EXPECT_TRUE(AreAll(**storage, std::byte{0}));
  }));
}

}  // namespace
}  // namespace tenon
