// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Environments that lack a feature. Each error names the call, the object, the
// limit and its value, and a remedy; the remedy works, and nothing leaks.
// (segment_limits_test.cc has the limits in each strategy and kind.)

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/base/size_text.h"
#include "tenon/shm/pages/mapping.h"
#include "tenon/shm/segment/segment.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/segment/shm_name.h"
#include "tenon/shm/testing/mount_namespace_testing.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

using absl::StatusCode::kResourceExhausted;
using enum SharingStrategy;
constexpr size_t kOneMiB = size_t{1} << 20;

class SegmentEnvironmentTest : public testing::Test {
 protected:
  absl::Status Create(size_t size_bytes, SharingStrategy strategy) const {
    return Segment::CreateOwnerWritten(
               size_bytes, {.strategy = strategy, .name_prefix = prefix_})
        .status();
  }

  // "memfd_create(segment 'prefix' in a memfd, 4096 bytes (4.0 KiB))" and the
  // like.
  std::string InMemfd(const std::string& call, size_t size_bytes) const {
    return absl::StrCat(call, "(segment '", prefix_, "' in a memfd, ",
                        SizeText(size_bytes), ")");
  }
  std::string InShm(const std::string& call, size_t size_bytes) const {
    return absl::StrCat(call, "(segment '", prefix_, "-*' in /dev/shm, ",
                        SizeText(size_bytes), ")");
  }

  const std::string prefix_ = UniqueTestPrefix();
};

// `parts` are in the message in this order; '*' is a random part of a name.
testing::AssertionResult Says(const absl::Status& status, absl::StatusCode code,
                              std::initializer_list<std::string> parts) {
  if (status.code() != code) return testing::AssertionFailure() << status;
  const std::string message(status.message());
  size_t at = 0;
  for (const std::string& part : parts) {
    const size_t star = part.find('*');
    const std::string head = part.substr(0, star);
    at = message.find(head, at);
    if (at == std::string::npos) {
      return testing::AssertionFailure() << "no " << part << " in " << message;
    }
    at += head.size();
    if (star == std::string::npos) continue;
    const std::string tail = part.substr(star + 1);
    at = message.find(tail, at);
    if (at == std::string::npos) {
      return testing::AssertionFailure() << "no " << tail << " in " << message;
    }
    at += tail.size();
  }
  return testing::AssertionSuccess();
}

void SetSoftLimit(decltype(RLIMIT_NOFILE) resource, rlim_t soft) {
  rlimit limit;
  ASSERT_EQ(getrlimit(resource, &limit), 0);
  limit.rlim_cur = soft;
  ASSERT_EQ(setrlimit(resource, &limit), 0);
}

TEST_F(SegmentEnvironmentTest, WithoutDescriptors) {
  EXPECT_TRUE(PassesInChild([&] {
    // UBSan checks a dynamic type through a pipe and keeps the result.
    ASSERT_THAT(Create(4096, kFileDescriptor), IsOk());
    ASSERT_THAT(Create(4096, kFileSystem), IsOk());
    const size_t fds = CountOpenFds();
    rlimit before;
    ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
    const int next = dup(0);
    ASSERT_EQ(close(next), 0);
    SetSoftLimit(RLIMIT_NOFILE, static_cast<rlim_t>(next));
    const absl::Status memfd = Create(4096, kFileDescriptor);
    const absl::Status named = Create(4096, kFileSystem);
    SetSoftLimit(RLIMIT_NOFILE, before.rlim_max);
    const std::string limit = absl::StrCat(next, " (RLIMIT_NOFILE; hard limit ",
                                           before.rlim_max, ")");
    const std::string remedy = absl::StrCat("ulimit -n ", before.rlim_max);
    EXPECT_TRUE(Says(memfd, kResourceExhausted,
                     {InMemfd("memfd_create", 4096), limit, remedy}));
    EXPECT_TRUE(Says(named, kResourceExhausted,
                     {InShm("shm_open", 4096), limit, remedy}));
    EXPECT_THAT(Create(4096, kFileDescriptor), IsOk());
    EXPECT_THAT(Create(4096, kFileSystem), IsOk());
    EXPECT_EQ(CountOpenFds(), fds);
    EXPECT_THAT(ListShmNames(prefix_), IsOkAndHolds(IsEmpty()));
  }));
}

TEST_F(SegmentEnvironmentTest, WithSmallFilesOnly) {
  EXPECT_TRUE(PassesInChild([&] {
    const size_t fds = CountOpenFds();
    SetSoftLimit(RLIMIT_FSIZE, kOneMiB);
    const std::string limit = "1048576 bytes (1.0 MiB), RLIMIT_FSIZE";
    const std::string remedy = "ulimit -f unlimited";
    EXPECT_TRUE(Says(Create(2 * kOneMiB, kFileDescriptor), kResourceExhausted,
                     {InMemfd("fallocate", 2 * kOneMiB), limit, remedy}));
    EXPECT_TRUE(Says(Create(2 * kOneMiB, kFileSystem), kResourceExhausted,
                     {InShm("fallocate", 2 * kOneMiB), limit, remedy}));
    SetSoftLimit(RLIMIT_FSIZE, RLIM_INFINITY);
    EXPECT_THAT(Create(2 * kOneMiB, kFileDescriptor), IsOk());
    EXPECT_THAT(Create(2 * kOneMiB, kFileSystem), IsOk());
    EXPECT_EQ(CountOpenFds(), fds);
    EXPECT_THAT(ListShmNames(prefix_), IsOkAndHolds(IsEmpty()));
  }));
}

TEST_F(SegmentEnvironmentTest, WithLittleAddressSpace) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers need the address space themselves";
#endif
  EXPECT_TRUE(PassesInChild([&] {
    const size_t fds = CountOpenFds();
    std::ifstream statm("/proc/self/statm");
    rlim_t pages = 0;
    ASSERT_TRUE(statm >> pages);
    const rlim_t limit =
        pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE)) + 16 * kOneMiB;
    statm.close();
    SetSoftLimit(RLIMIT_AS, limit);
    EXPECT_TRUE(
        Says(Create(64 * kOneMiB, kFileDescriptor), kResourceExhausted,
             {"mmap(segment in a memfd, 67108864 bytes (64.0 MiB) writable)",
              absl::StrCat(limit, " bytes ("), "), RLIMIT_AS",
              "ulimit -v unlimited"}));
    EXPECT_TRUE(Says(
        Create(64 * kOneMiB, kFileSystem), kResourceExhausted,
        {absl::StrCat("mmap(segment '", prefix_,
                      "-*' in /dev/shm, 67108864 bytes (64.0 MiB) writable)"),
         absl::StrCat(limit, " bytes ("), "), RLIMIT_AS",
         "ulimit -v unlimited"}));
    SetSoftLimit(RLIMIT_AS, RLIM_INFINITY);
    EXPECT_THAT(Create(64 * kOneMiB, kFileDescriptor), IsOk());
    EXPECT_THAT(Create(64 * kOneMiB, kFileSystem), IsOk());
    EXPECT_EQ(CountOpenFds(), fds);
    EXPECT_THAT(ListShmNames(prefix_), IsOkAndHolds(IsEmpty()));
  }));
}

TEST_F(SegmentEnvironmentTest, WithLessMemoryThanItTakes) {
  const size_t size = size_t{1} << 45;
  const std::string bytes = " of memory are available (";
  EXPECT_TRUE(Says(Create(size, kFileDescriptor), kResourceExhausted,
                   {absl::StrCat("memory for segment '", prefix_,
                                 "' in a memfd, ", size, " bytes"),
                    bytes, "add some"}));
  EXPECT_THAT(Create(kOneMiB, kFileDescriptor), IsOk());
}

// As in containers.
TEST_F(SegmentEnvironmentTest, WithShmOf64MiB) {
  if (!CanEnterOwnMountNamespace()) GTEST_SKIP() << kNoMountNamespace;
  EXPECT_TRUE(PassesInChild([&] {
    ASSERT_TRUE(EnterOwnMountNamespace());
    ASSERT_TRUE(MountTmpfs("/dev/shm", "size=64m"));
    const size_t fds = CountOpenFds();
    EXPECT_THAT(Create(100 * kOneMiB, kFileDescriptor), IsOk());
    EXPECT_TRUE(Says(Create(100 * kOneMiB, kFileSystem), kResourceExhausted,
                     {InShm("fallocate", 100 * kOneMiB), "[ENOSPC]",
                      "/dev/shm has 67108864 bytes (64.0 MiB) of "
                      "67108864 bytes (64.0 MiB)",
                      "mount -o remount,size=<bytes> /dev/shm", "--shm-size",
                      "file_descriptor strategy"}));
    EXPECT_EQ(CountOpenFds(), fds);
    EXPECT_THAT(ListShmNames(prefix_), IsOkAndHolds(IsEmpty()));
    ASSERT_EQ(mount(nullptr, "/dev/shm", nullptr, MS_REMOUNT, "size=209715200"),
              0);
    EXPECT_THAT(Create(100 * kOneMiB, kFileSystem), IsOk());
  }));
}

TEST_F(SegmentEnvironmentTest, WithReadOnlyShm) {
  if (!CanEnterOwnMountNamespace()) GTEST_SKIP() << kNoMountNamespace;
  EXPECT_TRUE(PassesInChild([&] {
    ASSERT_TRUE(EnterOwnMountNamespace());
    ASSERT_TRUE(MountTmpfs("/dev/shm", "size=1m", MS_RDONLY));
    const size_t fds = CountOpenFds();
    EXPECT_TRUE(
        Says(Create(4096, kFileSystem), absl::StatusCode::kPermissionDenied,
             {InShm("shm_open", 4096), "[EROFS]",
              "mount -o remount,rw /dev/shm", "file_descriptor strategy"}));
    EXPECT_THAT(Create(4096, kFileDescriptor), IsOk());
    EXPECT_EQ(CountOpenFds(), fds);
    ASSERT_EQ(mount(nullptr, "/dev/shm", nullptr, MS_REMOUNT, nullptr), 0);
    EXPECT_THAT(Create(4096, kFileSystem), IsOk());
  }));
}

TEST_F(SegmentEnvironmentTest, WithoutShm) {
  if (!CanEnterOwnMountNamespace()) GTEST_SKIP() << kNoMountNamespace;
  EXPECT_TRUE(PassesInChild([&] {
    ASSERT_TRUE(EnterOwnMountNamespace());
    ASSERT_TRUE(MountTmpfs("/dev", "size=1m"));
    const size_t fds = CountOpenFds();
    EXPECT_TRUE(Says(Create(4096, kFileSystem), absl::StatusCode::kNotFound,
                     {InShm("shm_open", 4096), "there is no /dev/shm",
                      "mkdir -p /dev/shm && mount -t tmpfs tmpfs /dev/shm",
                      "file_descriptor strategy"}));
    EXPECT_THAT(Create(4096, kFileDescriptor), IsOk());
    EXPECT_EQ(CountOpenFds(), fds);
    ASSERT_EQ(mkdir("/dev/shm", 0755), 0);
    ASSERT_TRUE(MountTmpfs("/dev/shm", ""));
    EXPECT_THAT(Create(4096, kFileSystem), IsOk());
  }));
}

// Messages have fewer details then, and all calls work.
TEST_F(SegmentEnvironmentTest, WithoutProc) {
  if (!CanEnterOwnMountNamespace()) GTEST_SKIP() << kNoMountNamespace;
  EXPECT_TRUE(PassesInChild([&] {
    ASSERT_TRUE(EnterOwnMountNamespace());
    ASSERT_TRUE(MountTmpfs("/proc", "size=1m"));
    for (SharingStrategy strategy : {kFileDescriptor, kFileSystem}) {
      EXPECT_THAT(Create(20 * kOneMiB, strategy), IsOk());
    }
    TENON_ASSERT_OK_AND_ASSIGN(
        const auto made,
        Segment::CreateOwnerWritten(4096, {.name_prefix = prefix_}));
    EXPECT_THAT(made.segment.MapReadOnly(), IsOk());
    EXPECT_TRUE(Says(
        ReadOnlyMapping::Map(made.segment.fd(), size_t{1} << 60, "segment 'x'")
            .status(),
        kResourceExhausted, {"segment 'x'", "unknown (vm.max_map_count)"}));
  }));
}

// Nothing but /dev/shm is written to.
TEST_F(SegmentEnvironmentTest, WithReadOnlyRoot) {
  if (!CanEnterOwnMountNamespace()) GTEST_SKIP() << kNoMountNamespace;
  EXPECT_TRUE(PassesInChild([&] {
    ASSERT_TRUE(EnterOwnMountNamespace());
    ASSERT_TRUE(MountTmpfs("/tmp", "size=1m", MS_RDONLY));
    ASSERT_EQ(
        mount(nullptr, "/", nullptr, MS_REMOUNT | MS_BIND | MS_RDONLY, nullptr),
        0);
    ASSERT_NE(mkdir("/tenon-test", 0700), 0);
    ASSERT_TRUE(MountTmpfs("/dev/shm", "size=1m"));
    for (SharingStrategy strategy : {kFileDescriptor, kFileSystem}) {
      EXPECT_THAT(Create(4096, strategy), IsOk());
    }
  }));
}

// Makes `call` fail with `error`, like a seccomp filter of a container.
void ForbidCall(int call, int error) {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(call), 0, 1),
      BPF_STMT(BPF_RET | BPF_K,
               SECCOMP_RET_ERRNO | static_cast<unsigned>(error)),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter = {.len = std::size(program), .filter = program};
  ASSERT_EQ(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
  ASSERT_EQ(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter), 0);
}

TEST_F(SegmentEnvironmentTest, WithoutMemfds) {
  const std::pair<int, absl::StatusCode> errors[] = {
      {ENOSYS, absl::StatusCode::kUnimplemented},
      {EPERM, absl::StatusCode::kPermissionDenied},
  };
  for (const auto& expected : errors) {
    EXPECT_TRUE(PassesInChild([&] {
      const auto& [error, code] = expected;
      ForbidCall(SYS_memfd_create, error);
      const size_t fds = CountOpenFds();
      EXPECT_TRUE(Says(Create(4096, kFileDescriptor), code,
                       {InMemfd("memfd_create", 4096)}));
      EXPECT_THAT(Create(4096, kFileSystem), IsOk());
      EXPECT_EQ(CountOpenFds(), fds);
    }));
  }
}

}  // namespace
}  // namespace tenon
