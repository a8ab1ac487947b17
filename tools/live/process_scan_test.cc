// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/tools/live/process_scan.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/segment/segment.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/segment/shm_name.h"
#include "tenon/shm/testing/forked_child.h"
#include "tenon/shm/testing/kill/census.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon::tools {
namespace {

std::optional<TenonProcess> Find(const ProcessScan& scan, pid_t pid) {
  for (const TenonProcess& process : scan.processes) {
    if (process.pid == pid) return process;
  }
  return std::nullopt;
}

TEST(ProcessScanTest, TellsSegmentsByTheirPaths) {
  const std::string random = "0123456789abcdef0123456789abcdef";
  EXPECT_TRUE(IsSegmentPath("/memfd:tenon (deleted)"));
  EXPECT_TRUE(IsSegmentPath("/memfd:tenon-camera (deleted)"));
  EXPECT_TRUE(IsSegmentPath("/dev/shm/camera-" + random));
  EXPECT_TRUE(IsSegmentPath("/dev/shm/camera-" + random + " (deleted)"));
  for (const std::string& other :
       {std::string(), std::string("/memfd:tenon.arena (deleted)"),
        std::string("/memfd:tenon.column (deleted)"),
        std::string("/memfd:tenon-supervise (deleted)"),
        std::string("/memfd:other (deleted)"), std::string("/dev/shm/camera"),
        "/tmp/camera-" + random, "/dev/shm/" + random, "/dev/shm/-" + random,
        "/dev/shm/camera-" + random.substr(1),
        "/dev/shm/camera-" + random.substr(1) + "F"}) {
    EXPECT_FALSE(IsSegmentPath(other)) << other;
  }
  const auto made = MakeShmName("x");
  TENON_ASSERT_OK_AND_ASSIGN(const std::string name, made);
  EXPECT_TRUE(IsMadeShmName(name));
}

TEST(ProcessScanTest, CountsASegmentOnceWhetherOpenOrMapped) {
  TENON_ASSERT_OK_AND_ASSIGN(ProcessScan scan, ScanProcesses());
  EXPECT_EQ(Find(scan, getpid()), std::nullopt);
  for (const SharingStrategy strategy : AllSharingStrategies()) {
    TENON_ASSERT_OK_AND_ASSIGN(
        std::optional<Segment> segment,
        Segment::CreateSharedWritable(
            12288, {.strategy = strategy,
                    .name_prefix = strategy == SharingStrategy::kFileSystem
                                       ? UniqueShmPrefix()
                                       : "tenon"}));
    const auto expect_it = [&] {
      TENON_ASSERT_OK_AND_ASSIGN(scan, ScanProcesses());
      const auto self = Find(scan, getpid());
      ASSERT_TRUE(self.has_value());
      ASSERT_EQ(self->segments.size(), 1u);
      EXPECT_EQ(self->segments.begin()->second.bytes, 12288u);
      EXPECT_EQ(self->state, "running");
      EXPECT_GE(self->age, absl::ZeroDuration());
    };
    expect_it();
    {
      TENON_ASSERT_OK_AND_ASSIGN(const auto one, segment->MapReadOnly());
      TENON_ASSERT_OK_AND_ASSIGN(const auto two, segment->MapReadOnly());
      expect_it();
      segment.reset();
      expect_it();
    }
    TENON_ASSERT_OK_AND_ASSIGN(scan, ScanProcesses());
    EXPECT_EQ(Find(scan, getpid()), std::nullopt);
  }
}

TEST(ProcessScanTest, ProcessesThatEndMeanwhileAreNoError) {
  TENON_ASSERT_OK_AND_ASSIGN(
      const ForkedChild busy,
      ForkedChild::Fork({.name = "busy"}, [](const Reporter&) {
        for (;;) {
          const pid_t pid = fork();
          if (pid == 0) _exit(0);
          waitpid(pid, nullptr, 0);
        }
      }));
  for (int i = 0; i < 200; ++i) {
    TENON_ASSERT_OK_AND_ASSIGN(const ProcessScan scan, ScanProcesses());
    EXPECT_EQ(Find(scan, busy.pid()), std::nullopt);
  }
}

TEST(ProcessScanTest, PathsThatOnlyLookLikeSegmentsDoNoHarm) {
  // Such a path cannot name a pipe or a directory; it can name a file, which is
  // counted as a file.
  const int fake = memfd_create("tenon\n7f-8f rw-s 0 0:0 1 /memfd:tenon", 0);
  ASSERT_GE(fake, 0);
  ASSERT_EQ(ftruncate(fake, 4096), 0);
  void* mapped = mmap(nullptr, 4096, PROT_READ, MAP_SHARED, fake, 0);
  ASSERT_NE(mapped, MAP_FAILED);
  TENON_ASSERT_OK_AND_ASSIGN(const ProcessScan scan, ScanProcesses());
  const auto self = Find(scan, getpid());
  ASSERT_TRUE(self.has_value());
  EXPECT_EQ(self->segments.size(), 1u);
  munmap(mapped, 4096);
  close(fake);
}

TEST(ProcessScanTest, ALimitOfFilesIsSaidNotHidden) {
  EXPECT_TRUE(PassesInChild([] {
    rlimit before;
    ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
    const rlimit none = {0, before.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
    const auto scan = ScanProcesses();
    // A sanitizer needs descriptors, too.
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
    EXPECT_THAT(scan, StatusIs(absl::StatusCode::kResourceExhausted));
  }));
}

TEST(ProcessScanTest, LeavesNothingOpen) {
  const Census before = TakeCensus();
  TENON_ASSERT_OK_AND_ASSIGN(const ProcessScan scan, ScanProcesses());
  EXPECT_TRUE(ExpectSame(before, TakeCensus()));
}

}  // namespace
}  // namespace tenon::tools
