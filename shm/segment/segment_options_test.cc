// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Segments of huge pages, of a NUMA node, and prefaulted: requests, outcomes,
// and attacks of a hostile peer. To test all of it: sysctl -w
// vm.nr_hugepages=16.

#include "tenon/shm/segment/segment_options.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/memfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/pages/mapping.h"
#include "tenon/shm/segment/segment.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/seccomp_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;

constexpr size_t kHuge = kHugePageBytes;
using absl::StatusCode::kFailedPrecondition;
using absl::StatusCode::kInvalidArgument;
using absl::StatusCode::kResourceExhausted;
constexpr int kSeals =
    F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL | F_SEAL_FUTURE_WRITE;

uintptr_t AddressOf(const ReadOnlyMapping& mapping) {
  return reinterpret_cast<uintptr_t>(mapping.data());
}

class SegmentOptionsTest
    : public testing::TestWithParam<std::tuple<SharingStrategy, SegmentKind>> {
 protected:
  SharingStrategy strategy() const { return std::get<0>(GetParam()); }
  SegmentKind kind() const { return std::get<1>(GetParam()); }
  bool may_be_hugetlb() const {
    return strategy() == SharingStrategy::kFileDescriptor &&
           kind() == SegmentKind::kOwnerWritten;
  }

  SegmentOptions Options() const {
    return {.strategy = strategy(), .name_prefix = prefix_};
  }
  SegmentOptions Huge(HugePages huge_pages) const {
    SegmentOptions options = Options();
    options.huge_pages = huge_pages;
    return options;
  }

  // The segment alone.
  absl::StatusOr<Segment> Create(size_t size_bytes,
                                 const SegmentOptions& options) {
    if (kind() == SegmentKind::kSharedWritable) {
      return Segment::CreateSharedWritable(size_bytes, options);
    }
    auto owned = Segment::CreateOwnerWritten(size_bytes, options);
    if (!owned.ok()) return owned.status();
    return std::move(owned->segment);
  }

  absl::StatusOr<Segment> Receive(const Segment& segment) {
    if (strategy() == SharingStrategy::kFileSystem) {
      return Segment::Open(segment.name(), kind());
    }
    return Segment::Adopt(UniqueFd(dup(segment.fd())), kind());
  }

  const std::string prefix_ = UniqueTestPrefix();
};

TEST_P(SegmentOptionsTest, SmallPagesUnlessAskedFor) {
  TENON_ASSERT_OK_AND_ASSIGN(const Segment segment, Create(kHuge, Options()));
  EXPECT_EQ(segment.pages(), SegmentPages::kSmall);
}

TEST_P(SegmentOptionsTest, TriedHugePagesAlwaysGiveASegment) {
  for (size_t size : {size_t{1}, kHuge - 1, kHuge, kHuge + 1, 3 * kHuge}) {
    TENON_ASSERT_OK_AND_ASSIGN(const Segment segment,
                               Create(size, Huge(HugePages::kTry)));
    EXPECT_EQ(segment.size_bytes(), size);
    if (size < kHuge) {
      EXPECT_EQ(segment.pages(), SegmentPages::kSmall);
    }
    if (segment.pages() == SegmentPages::kHugetlb) {
      EXPECT_TRUE(may_be_hugetlb());
      EXPECT_EQ(size % kHuge, 0u);
    }
    TENON_ASSERT_OK_AND_ASSIGN(const ReadOnlyMapping mapping,
                               segment.MapReadOnly());
    const auto bytes = mapping.bytes();
    EXPECT_EQ(std::count(bytes.begin(), bytes.end(), std::byte{0}),
              static_cast<ptrdiff_t>(size));
    if (segment.pages() != SegmentPages::kSmall) {
      EXPECT_EQ(AddressOf(mapping) % kHuge, 0u);
    }
    TENON_ASSERT_OK_AND_ASSIGN(const Segment received, Receive(segment));
    EXPECT_EQ(received.size_bytes(), size);
    EXPECT_EQ(received.pages() == SegmentPages::kHugetlb,
              segment.pages() == SegmentPages::kHugetlb);
  }
}

TEST_P(SegmentOptionsTest, RequiredHugePagesAreThereOrSaidToBeMissing) {
  const absl::StatusOr<Segment> segment =
      Create(2 * kHuge, Huge(HugePages::kRequire));
  if (segment.ok()) {
    EXPECT_NE(segment->pages(), SegmentPages::kSmall);
  } else {
    EXPECT_THAT(
        segment,
        AnyOf(StatusIs(kResourceExhausted, HasSubstr("/proc/sys")),
              StatusIs(kFailedPrecondition, HasSubstr("shmem_enabled"))));
  }
  EXPECT_THAT(Create(kHuge - 1, Huge(HugePages::kRequire)),
              StatusIs(kInvalidArgument, HasSubstr("2 MiB")));
}

TEST_P(SegmentOptionsTest, WithoutAnyHugePagesItIsSaidHowToGetThem) {
  EXPECT_TRUE(PassesInChild([&] {
    ASSERT_TRUE(FailSystemCall({.number = SYS_madvise,
                                .argument = 2,
                                .value = 25,  // MADV_COLLAPSE
                                .error = EINVAL}));
    // Of hugetlbfs: none that can be mapped.
    const size_t size = size_t{1} << 30;
    const auto small = Create(kHuge + 1, Huge(HugePages::kTry));
    ASSERT_THAT(small, IsOk());
    EXPECT_EQ(small->pages(), SegmentPages::kSmall);
    const auto required = Create(size, Huge(HugePages::kRequire));
    if (required.ok()) return;  // The pool is too large for this test.
    EXPECT_THAT(required,
                StatusIs(kFailedPrecondition, HasSubstr("shmem_enabled")));
    if (may_be_hugetlb()) {
      EXPECT_THAT(std::string(required.status().message()),
                  HasSubstr("huge pages"));
    }
  }));
}

TEST_P(SegmentOptionsTest, FilledOnesMayHaveHugePagesToo) {
  std::vector<std::byte> contents(2 * kHuge);
  for (size_t i = 0; i < contents.size(); ++i) {
    contents[i] = std::byte(i / 4096 % 251);
  }
  TENON_ASSERT_OK_AND_ASSIGN(
      const Segment segment,
      Segment::CreateFilled(contents, kind(), Huge(HugePages::kTry)));
  TENON_ASSERT_OK_AND_ASSIGN(const Segment received, Receive(segment));
  TENON_ASSERT_OK_AND_ASSIGN(const ReadOnlyMapping mapping,
                             received.MapReadOnly());
  EXPECT_TRUE(std::equal(contents.begin(), contents.end(),
                         mapping.bytes().begin(), mapping.bytes().end()));
}

TEST_P(SegmentOptionsTest, MovesKeepWhatPagesTheyAre) {
  TENON_ASSERT_OK_AND_ASSIGN(Segment segment,
                             Create(kHuge, Huge(HugePages::kTry)));
  const SegmentPages pages = segment.pages();
  Segment moved(std::move(segment));
  EXPECT_EQ(moved.pages(), pages);
  TENON_ASSERT_OK_AND_ASSIGN(Segment other, Create(1, Options()));
  other = std::move(moved);
  EXPECT_EQ(other.pages(), pages);
}

TEST_P(SegmentOptionsTest, NumaNodeThatIsNotThereIsRefused) {
  SegmentOptions options = Options();
  options.numa_node = 1000;
  for (HugePages huge_pages : {HugePages::kNo, HugePages::kTry}) {
    options.huge_pages = huge_pages;
    const absl::Status status = Create(kHuge, options).status();
    if (absl::IsUnimplemented(status) || absl::IsPermissionDenied(status)) {
      GTEST_SKIP() << status;
    }
    EXPECT_THAT(status, StatusIs(kInvalidArgument,
                                 HasSubstr("NUMA node 1000 does not exist")));
  }
}

TEST_P(SegmentOptionsTest, NumaNodeIsWhereThePagesAre) {
  SegmentOptions options = Options();
  options.numa_node = 0;
  const std::vector<std::byte> contents(10000, std::byte{1});
  for (bool filled : {false, true}) {
    absl::StatusOr<Segment> segment =
        filled ? Segment::CreateFilled(contents, kind(), options)
               : Create(10000, options);
    if (absl::IsUnimplemented(segment.status()) ||
        absl::IsPermissionDenied(segment.status())) {
      GTEST_SKIP() << segment.status();
    }
    ASSERT_THAT(segment, IsOk());
    TENON_ASSERT_OK_AND_ASSIGN(const ReadOnlyMapping mapping,
                               segment->MapReadOnly({.prefault = true}));
    constexpr unsigned kAtAddress = 2;
    int policy = -1;
    ASSERT_EQ(syscall(SYS_get_mempolicy, &policy, nullptr, 0ul, mapping.data(),
                      kAtAddress),
              0);
    EXPECT_EQ(policy, 2) << "not MPOL_BIND";
    int node = -1;
    ASSERT_EQ(syscall(SYS_get_mempolicy, &node, nullptr, 0ul, mapping.data(),
                      kAtAddress | 1u),
              0);
    EXPECT_EQ(node, 0);
  }
}

long MinorFaults() {
  rusage usage;
  EXPECT_EQ(getrusage(RUSAGE_THREAD, &usage), 0);
  return usage.ru_minflt;
}

TEST_P(SegmentOptionsTest, PrefaultedMappingsTakeNoFaults) {
  constexpr size_t kPages = 1000;
#ifdef __SANITIZE_ADDRESS__
  constexpr long kFew = kPages / 4;  // The shadow memory takes an eighth.
#else
  constexpr long kFew = kPages / 10;
#endif
  SegmentOptions options = Options();
  options.prefault = true;
  const auto faults = [](std::byte* data) {
    const long before = MinorFaults();
    for (size_t i = 0; i < kPages; ++i) data[i * 4096] = std::byte{1};
    return MinorFaults() - before;
  };
  if (kind() == SegmentKind::kOwnerWritten) {
    TENON_ASSERT_OK_AND_ASSIGN(
        const auto owned, Segment::CreateOwnerWritten(kPages * 4096, options));
    EXPECT_LT(faults(owned.mapping.data()), kFew);
    return;
  }
  TENON_ASSERT_OK_AND_ASSIGN(const Segment segment,
                             Create(kPages * 4096, options));
  TENON_ASSERT_OK_AND_ASSIGN(const WritableMapping mapping,
                             segment.MapWritable({.prefault = true}));
  EXPECT_LT(faults(mapping.data()), kFew);
}

INSTANTIATE_TEST_SUITE_P(
    Ways, SegmentOptionsTest,
    testing::Combine(testing::ValuesIn(AllSharingStrategies()),
                     testing::Values(SegmentKind::kOwnerWritten,
                                     SegmentKind::kSharedWritable)),
    [](const auto& param) {
      return absl::StrCat(
          std::get<0>(param.param) == SharingStrategy::kFileSystem
              ? "FileSystem"
              : "FileDescriptor",
          std::get<1>(param.param) == SegmentKind::kOwnerWritten
              ? "OwnerWritten"
              : "SharedWritable");
    });

// A peer's segment: hugetlbfs with all its pages, sealed with `seals`.
UniqueFd MakeHugetlb(int seals) {
  UniqueFd fd(memfd_create("segment_options_test",
                           MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB));
  if (!fd.valid() || ftruncate(fd.get(), kHuge) != 0 ||
      fallocate(fd.get(), 0, 0, kHuge) != 0) {
    return UniqueFd();
  }
  EXPECT_EQ(fcntl(fd.get(), F_ADD_SEALS, seals), 0);
  return fd;
}

constexpr char kNoPool[] = "the pool of huge pages is empty";

TEST(HostileHugePagesTest, ArePunchedByWhoMayWriteSoTheyAreRefused) {
  const UniqueFd fd = MakeHugetlb(kSeals & ~F_SEAL_FUTURE_WRITE);
  if (!fd.valid()) GTEST_SKIP() << kNoPool;
  EXPECT_THAT(
      Segment::Adopt(UniqueFd(dup(fd.get())), SegmentKind::kSharedWritable),
      StatusIs(kInvalidArgument,
               AllOf(HasSubstr("hugetlbfs"), HasSubstr("owner-written"))));
  EXPECT_THAT(
      Segment::Adopt(UniqueFd(dup(fd.get())), SegmentKind::kOwnerWritten),
      StatusIs(kFailedPrecondition, HasSubstr("F_SEAL_FUTURE_WRITE")));
  // The reason: the seals that shared-writable memory has do not stop it.
  EXPECT_EQ(
      fallocate(fd.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, kHuge),
      0);
}

TEST(HostileHugePagesTest, OwnerWrittenOnesCannotBePunched) {
  const auto owned =
      Segment::CreateOwnerWritten(kHuge, {.huge_pages = HugePages::kTry});
  ASSERT_THAT(owned, IsOk());
  if (owned->segment.pages() != SegmentPages::kHugetlb) {
    GTEST_SKIP() << kNoPool;
  }
  owned->mapping.data()[0] = std::byte{7};
  TENON_ASSERT_OK_AND_ASSIGN(const Segment peer,
                             Segment::Adopt(UniqueFd(dup(owned->segment.fd())),
                                            SegmentKind::kOwnerWritten));
  EXPECT_EQ(peer.pages(), SegmentPages::kHugetlb);
  EXPECT_EQ(fallocate(peer.fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
                      kHuge),
            -1);
  EXPECT_EQ(errno, EPERM);
  // Nor by the owner, through the mapping that it has.
  EXPECT_EQ(madvise(owned->mapping.data(), kHuge, MADV_REMOVE), -1);
  EXPECT_EQ(mmap(nullptr, kHuge, PROT_WRITE, MAP_SHARED, peer.fd(), 0),
            MAP_FAILED);
  EXPECT_EQ(ftruncate(peer.fd(), 0), -1);
  TENON_ASSERT_OK_AND_ASSIGN(const ReadOnlyMapping mapping, peer.MapReadOnly());
  EXPECT_EQ(mapping.data()[0], std::byte{7});
}

TEST(HostileHugePagesTest, OwnerWrittenOnesThatAreSealedAreTaken) {
  const UniqueFd fd = MakeHugetlb(kSeals);
  if (!fd.valid()) GTEST_SKIP() << kNoPool;
  TENON_ASSERT_OK_AND_ASSIGN(
      const Segment segment,
      Segment::Adopt(UniqueFd(dup(fd.get())), SegmentKind::kOwnerWritten));
  EXPECT_EQ(segment.size_bytes(), kHuge);
  // As shared-writable they are rejected nevertheless.
  EXPECT_THAT(
      Segment::Adopt(UniqueFd(dup(fd.get())), SegmentKind::kSharedWritable),
      StatusIs(kInvalidArgument));
}

TEST(HostileHugePagesTest, PunchedSharedMemoryIsZeroedAndNotFatal) {
  TENON_ASSERT_OK_AND_ASSIGN(
      const Segment segment,
      Segment::CreateSharedWritable(
          2 * kHuge, {.strategy = SharingStrategy::kFileDescriptor,
                      .huge_pages = HugePages::kTry}));
  TENON_ASSERT_OK_AND_ASSIGN(const WritableMapping mapping,
                             segment.MapWritable());
  mapping.data()[0] = std::byte{7};
  mapping.data()[kHuge + 4096] = std::byte{8};
  // A peer may do so: removed pages are allocated again when they are touched.
  ASSERT_EQ(fallocate(segment.fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                      0, kHuge + 4096),
            0);
  EXPECT_EQ(mapping.data()[0], std::byte{0});
  EXPECT_EQ(mapping.data()[kHuge + 4096], std::byte{8});
}

}  // namespace
}  // namespace tenon
