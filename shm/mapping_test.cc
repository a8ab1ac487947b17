// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/mapping.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/process_testing.h"
#include "tenon/shm/status_matchers.h"
#include "tenon/shm/unique_fd.h"

namespace tenon {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr size_t kSize = 8192;

static_assert(!std::is_copy_constructible_v<WritableMapping>);
static_assert(std::is_nothrow_move_constructible_v<ReadOnlyMapping>);
static_assert(std::is_nothrow_move_assignable_v<WritableMapping>);
// What the type says: nobody writes through a ReadOnlyMapping.
static_assert(std::is_same_v<decltype(std::declval<ReadOnlyMapping>().data()),
                             const std::byte*>);
static_assert(!std::is_convertible_v<ReadOnlyMapping, WritableMapping>);

UniqueFd MakeMemfd(size_t size_bytes = kSize) {
  UniqueFd fd(memfd_create("mapping_test", MFD_CLOEXEC));
  EXPECT_EQ(ftruncate(fd.get(), static_cast<off_t>(size_bytes)), 0);
  return fd;
}

// Whether the page at `address` belongs to any mapping.
bool IsMapped(const void* address) {
  return msync(const_cast<void*>(address), 1, MS_ASYNC) == 0;
}

TEST(MappingTest, EmptyByDefault) {
  const ReadOnlyMapping reader;
  EXPECT_TRUE(reader.bytes().empty());
  EXPECT_EQ(reader.data(), nullptr);
  const WritableMapping writer;
  EXPECT_EQ(writer.size_bytes(), 0u);
}

TEST(MappingTest, WritesAreSeenByOtherMappingsAndByRead) {
  const UniqueFd fd = MakeMemfd();
  TENON_ASSERT_OK_AND_ASSIGN(const WritableMapping writer,
                             WritableMapping::Map(fd.get(), kSize, "x"));
  TENON_ASSERT_OK_AND_ASSIGN(const ReadOnlyMapping reader,
                             ReadOnlyMapping::Map(fd.get(), kSize, "x"));
  EXPECT_EQ(reader.bytes().size(), kSize);
  EXPECT_EQ(writer.bytes().size(), kSize);
  writer.bytes()[kSize - 1] = std::byte{7};
  EXPECT_EQ(reader.bytes()[kSize - 1], std::byte{7});
  std::byte from_file;
  ASSERT_EQ(pread(fd.get(), &from_file, 1, kSize - 1), 1);
  EXPECT_EQ(from_file, std::byte{7});
}

TEST(MappingTest, NeedsNoDescriptorToStay) {
  UniqueFd fd = MakeMemfd();
  TENON_ASSERT_OK_AND_ASSIGN(const WritableMapping writer,
                             WritableMapping::Map(fd.get(), kSize, "x"));
  fd.Reset();
  std::memset(writer.data(), 0x5a, kSize);
  EXPECT_EQ(writer.data()[kSize - 1], std::byte{0x5a});
}

TEST(MappingTest, UnmapsWhenDestroyed) {
  const UniqueFd fd = MakeMemfd();
  const void* data = nullptr;
  {
    TENON_ASSERT_OK_AND_ASSIGN(const ReadOnlyMapping reader,
                               ReadOnlyMapping::Map(fd.get(), kSize, "x"));
    data = reader.data();
    EXPECT_TRUE(IsMapped(data));
  }
  EXPECT_FALSE(IsMapped(data));
}

TEST(MappingTest, MovesKeepTheRangeAndEmptyTheSource) {
  const UniqueFd fd = MakeMemfd();
  TENON_ASSERT_OK_AND_ASSIGN(WritableMapping first,
                             WritableMapping::Map(fd.get(), kSize, "x"));
  std::byte* const data = first.data();
  WritableMapping second(std::move(first));
  EXPECT_EQ(second.data(), data);
  EXPECT_TRUE(first.bytes().empty());
  EXPECT_TRUE(IsMapped(data));
}

TEST(MappingTest, AssignmentUnmapsWhatWasThereAtOnce) {
  const UniqueFd fd = MakeMemfd();
  TENON_ASSERT_OK_AND_ASSIGN(WritableMapping kept,
                             WritableMapping::Map(fd.get(), kSize, "x"));
  TENON_ASSERT_OK_AND_ASSIGN(WritableMapping replaced,
                             WritableMapping::Map(fd.get(), kSize, "x"));
  std::byte* const kept_data = kept.data();
  std::byte* const replaced_data = replaced.data();
  replaced = std::move(kept);
  EXPECT_EQ(replaced.data(), kept_data);
  EXPECT_TRUE(kept.bytes().empty());
  EXPECT_TRUE(IsMapped(kept_data));
  EXPECT_FALSE(IsMapped(replaced_data));
  WritableMapping& same = replaced;
  replaced = std::move(same);
  EXPECT_EQ(replaced.data(), kept_data);
  EXPECT_TRUE(IsMapped(kept_data));
}

TEST(MappingTest, ForkedChildHasTheSameMemory) {
  const UniqueFd fd = MakeMemfd();
  TENON_ASSERT_OK_AND_ASSIGN(const WritableMapping writer,
                             WritableMapping::Map(fd.get(), kSize, "x"));
  EXPECT_TRUE(PassesInChild([&] { writer.data()[0] = std::byte{3}; }));
  EXPECT_EQ(writer.data()[0], std::byte{3});
}

TEST(MappingDeathTest, WritingThroughAReadOnlyMappingKills) {
  const UniqueFd fd = MakeMemfd();
  TENON_ASSERT_OK_AND_ASSIGN(const ReadOnlyMapping reader,
                             ReadOnlyMapping::Map(fd.get(), kSize, "x"));
  EXPECT_DEATH(*const_cast<std::byte*>(reader.data()) = std::byte{1}, "");
}

TEST(MappingTest, NothingCannotBeMapped) {
  const UniqueFd fd = MakeMemfd();
  EXPECT_THAT(ReadOnlyMapping::Map(fd.get(), 0, "x"),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(WritableMapping::Map(-1, kSize, "'weights'"),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("mmap('weights', 8192 bytes writable)"),
                             HasSubstr("[EBADF]"))));
}

TEST(MappingTest, MoreThanTheAddressSpaceNamesTheLimit) {
  const size_t size_bytes = size_t{1} << 47;
  const UniqueFd fd = MakeMemfd(size_bytes);
  EXPECT_THAT(ReadOnlyMapping::Map(fd.get(), size_bytes, "x"),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       AllOf(HasSubstr("140737488355328 bytes read-only"),
                             HasSubstr("vm.max_map_count"))));
}

TEST(MappingTest, ReadOnlyDescriptorGivesNoWritableMapping) {
  const UniqueFd fd = MakeMemfd();
  const std::string path = absl::StrCat("/proc/self/fd/", fd.get());
  const UniqueFd read_only(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  EXPECT_THAT(WritableMapping::Map(read_only.get(), kSize, "x"),
              StatusIs(absl::StatusCode::kPermissionDenied));
  EXPECT_THAT(ReadOnlyMapping::Map(read_only.get(), kSize, "x"), IsOk());
}

TEST(MappingTest, WriteOnlyDescriptorGivesNone) {
  const UniqueFd fd = MakeMemfd();
  const std::string path = absl::StrCat("/proc/self/fd/", fd.get());
  const UniqueFd write_only(open(path.c_str(), O_WRONLY | O_CLOEXEC));
  EXPECT_THAT(ReadOnlyMapping::Map(write_only.get(), kSize, "x"),
              StatusIs(absl::StatusCode::kPermissionDenied));
}

}  // namespace
}  // namespace tenon
