// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/pages/mapping.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/seccomp_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr size_t kSize = 8192;

static_assert(!std::is_copy_constructible_v<WritableMapping>);
static_assert(std::is_nothrow_move_constructible_v<ReadOnlyMapping>);
static_assert(std::is_nothrow_move_assignable_v<WritableMapping>);
// By its type, a ReadOnlyMapping permits no writes.
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

// VmSize of this process, read without allocating memory.
size_t MappedBytes() {
  char text[64] = {};
  const UniqueFd fd(open("/proc/self/statm", O_RDONLY | O_CLOEXEC));
  EXPECT_GT(read(fd.get(), text, sizeof(text) - 1), 0);
  return std::strtoul(text, nullptr, 10) * 4096;
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
  EXPECT_THAT(
      WritableMapping::Map(-1, kSize, "'weights'"),
      StatusIs(
          absl::StatusCode::kFailedPrecondition,
          AllOf(HasSubstr("mmap('weights', 8192 bytes (8.0 KiB) writable)"),
                HasSubstr("[EBADF]"))));
}

TEST(MappingTest, MoreThanTheAddressSpaceNamesTheLimit) {
  const size_t size_bytes = size_t{1} << 47;
  const UniqueFd fd = MakeMemfd(size_bytes);
  EXPECT_THAT(
      ReadOnlyMapping::Map(fd.get(), size_bytes, "x"),
      StatusIs(absl::StatusCode::kResourceExhausted,
               AllOf(HasSubstr("140737488355328 bytes (128.0 TiB) read-only"),
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

// Whether the page table has the page at `address`; does not touch it.
bool IsEntered(const void* address) {
  constexpr uint64_t kPresent = uint64_t{1} << 63;
  const UniqueFd pagemap(open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC));
  uint64_t entry = 0;
  const auto page = reinterpret_cast<uintptr_t>(address) / 4096;
  EXPECT_EQ(pread(pagemap.get(), &entry, sizeof(entry),
                  static_cast<off_t>(page * sizeof(entry))),
            static_cast<ssize_t>(sizeof(entry)));
  return (entry & kPresent) != 0;
}

template <typename Mapping>
void ExpectEntered(const Mapping& mapping, bool entered) {
  for (size_t at = 0; at < mapping.size_bytes(); at += 4096) {
    EXPECT_EQ(IsEntered(mapping.data() + at), entered) << at;
  }
}

TEST(MappingTest, PrefaultEntersEveryPage) {
  const UniqueFd fd = MakeMemfd(64 * 4096);
  TENON_ASSERT_OK_AND_ASSIGN(const WritableMapping untouched,
                             WritableMapping::Map(fd.get(), 64 * 4096, "x"));
  ExpectEntered(untouched, false);
  TENON_ASSERT_OK_AND_ASSIGN(
      const WritableMapping writer,
      WritableMapping::Map(fd.get(), 64 * 4096, "x", {.prefault = true}));
  ExpectEntered(writer, true);
  TENON_ASSERT_OK_AND_ASSIGN(
      const ReadOnlyMapping reader,
      ReadOnlyMapping::Map(fd.get(), 64 * 4096, "x", {.prefault = true}));
  ExpectEntered(reader, true);
  ExpectEntered(untouched, false);
}

TEST(MappingTest, PrefaultWorksOnOlderKernels) {
  EXPECT_TRUE(PassesInChild([] {
    for (uint32_t advice : {22u, 23u}) {
      ASSERT_TRUE(FailSystemCall({.number = SYS_madvise,
                                  .argument = 2,
                                  .value = advice,
                                  .error = EINVAL}));
    }
    const UniqueFd fd = MakeMemfd();
    TENON_ASSERT_OK_AND_ASSIGN(
        const WritableMapping writer,
        WritableMapping::Map(fd.get(), kSize, "x", {.prefault = true}));
    ExpectEntered(writer, true);
    TENON_ASSERT_OK_AND_ASSIGN(
        const ReadOnlyMapping reader,
        ReadOnlyMapping::Map(fd.get(), kSize, "x", {.prefault = true}));
    ExpectEntered(reader, true);
  }));
}

// Touching a page behind the end kills; prefaulting it returns an error.
TEST(MappingTest, PrefaultOfWhatIsNotThereIsAnError) {
  const UniqueFd fd = MakeMemfd(4096);
  const size_t before = MappedBytes();
  EXPECT_THAT(
      WritableMapping::Map(fd.get(), kSize, "x", {.prefault = true}),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("MADV_POPULATE")));
  EXPECT_THAT(ReadOnlyMapping::Map(fd.get(), kSize, "x", {.prefault = true}),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_EQ(MappedBytes(), before);
}

TEST(MappingTest, AlignedOnesBeginAtAHugePageAndLeaveNothingAround) {
  for (size_t size : {kHugePageBytes, kHugePageBytes + 1, 3 * kHugePageBytes}) {
    const UniqueFd fd = MakeMemfd(size);
    const size_t before = MappedBytes();
    {
      TENON_ASSERT_OK_AND_ASSIGN(
          const WritableMapping mapping,
          WritableMapping::Map(fd.get(), size, "x",
                               {.align_to_huge_pages = true}));
      EXPECT_EQ(reinterpret_cast<uintptr_t>(mapping.data()) % kHugePageBytes,
                0u);
      EXPECT_EQ(MappedBytes() - before, (size + 4095) / 4096 * 4096);
      mapping.bytes()[size - 1] = std::byte{7};
    }
    EXPECT_EQ(MappedBytes(), before);
  }
}

TEST(MappingTest, SmallOnesAreNotAligned) {
  const UniqueFd fd = MakeMemfd();
  const size_t before = MappedBytes();
  TENON_ASSERT_OK_AND_ASSIGN(
      const ReadOnlyMapping mapping,
      ReadOnlyMapping::Map(fd.get(), kSize, "x",
                           {.align_to_huge_pages = true}));
  EXPECT_EQ(MappedBytes() - before, kSize);
}

TEST(MappingTest, AlignedOnesThatCannotBeAreErrors) {
  const UniqueFd fd = MakeMemfd(kHugePageBytes);
  const size_t before = MappedBytes();
  for (size_t size : {~size_t{0}, size_t{1} << 47}) {
    EXPECT_THAT(ReadOnlyMapping::Map(fd.get(), size, "x",
                                     {.align_to_huge_pages = true}),
                StatusIs(absl::StatusCode::kResourceExhausted));
  }
  EXPECT_THAT(
      ReadOnlyMapping::Map(-1, kHugePageBytes, "x",
                           {.align_to_huge_pages = true}),
      StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("[EBADF]")));
  EXPECT_EQ(MappedBytes(), before);
}

}  // namespace
}  // namespace tenon
