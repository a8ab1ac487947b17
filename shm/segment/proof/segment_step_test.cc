// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// A process that creates, maps and destroys a segment, killed at every machine
// instruction of that: at one position in three, or in TENON_STEP_STRIDE of the
// environment.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/segment/named_segments.h"
#include "tenon/shm/segment/segment.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/segment/shm_name.h"
#include "tenon/shm/testing/kill/census.h"
#include "tenon/shm/testing/reporter.h"
#include "tenon/shm/testing/status_matchers.h"
#include "tenon/shm/testing/trace/region.h"
#include "tenon/shm/testing/trace/single_stepper.h"
#include "tenon/shm/testing/trace/step_report.h"
#include "tenon/shm/testing/trace/tracee.h"

namespace tenon {
namespace {

constexpr size_t kSize = 4096;

// One position in this many; 1 selects all.
uint64_t Stride() {
  uint64_t stride;
  const char* wish = std::getenv("TENON_STEP_STRIDE");
  return wish != nullptr && absl::SimpleAtoi(wish, &stride) ? stride : 3;
}

struct Case {
  SharingStrategy strategy;
  SegmentKind kind;
  bool filled = false;
  bool chosen = false;  // Under a name that a program chose.
};

class SegmentStepTest : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (const absl::Status can = CanTrace(); !can.ok()) GTEST_SKIP() << can;
    CreateMapDestroy();  // One-time initialisation is not under test.
  }

  void CreateMapDestroy() {
    const SegmentOptions options = {.strategy = GetParam().strategy,
                                    .name_prefix = prefix_,
                                    .name = GetParam().chosen ? Chosen() : ""};
    if (GetParam().filled) {
      const auto filled =
          Segment::CreateFilled(contents_, GetParam().kind, options);
      if (filled.ok()) filled->MapReadOnly().status().IgnoreError();
      return;
    }
    if (GetParam().kind == SegmentKind::kOwnerWritten) {
      const auto owned = Segment::CreateOwnerWritten(kSize, options);
      if (owned.ok()) owned->mapping.data()[0] = std::byte{1};
      return;
    }
    const auto segment = Segment::CreateSharedWritable(kSize, options);
    if (!segment.ok()) return;
    const auto mapping = segment->MapWritable();
    if (mapping.ok()) mapping->data()[0] = std::byte{1};
  }

  std::string Chosen() const { return prefix_ + ".chosen"; }

  StepScenario Scenario() {
    StepScenario scenario;
    scenario.name =
        ::testing::UnitTest::GetInstance()->current_test_info()->name();
    scenario.victim = [this](const Reporter&) {
      BeginRegion();
      CreateMapDestroy();
      EndRegion();
    };
    scenario.stride = Stride();
    scenario.shm_prefix = prefix_;
    scenario.check = [this](const StepPosition& position) {
      return Check(position);
    };
    return scenario;
  }

  // A killed process may leave the name of the segment that it was creating or
  // had created; nothing under kFileDescriptor, nothing if it completed. A
  // leftover can be opened if it is complete, and is rejected if it is not.
  absl::Status Check(const StepPosition& position) {
    const auto names = ListShmNames(prefix_);
    if (!names.ok()) return names.status();
    if (names->empty()) return absl::OkStatus();
    if (GetParam().strategy != SharingStrategy::kFileSystem ||
        position.moment == StepMoment::kEnded || names->size() > 1) {
      return absl::InternalError("names were left");
    }
    if (names->at(0) == Chosen()) {
      // Opening it removes the name, as all its holders are dead.
      const auto segment = Segment::Open(Chosen(), GetParam().kind);
      if (!absl::IsNotFound(segment.status())) {
        return absl::InternalError("the name of a dead process was opened");
      }
      ++left_whole_;
      return absl::OkStatus();
    }
    {
      const auto segment = Segment::Open(names->at(0), GetParam().kind);
      if (segment.ok() && IsWhole(*segment)) {
        ++left_whole_;
      } else if (absl::IsPermissionDenied(segment.status())) {
        ++left_unfinished_;
      } else {
        return absl::InternalError("a torn segment can be opened");
      }
    }
    const auto removed = ReclaimDeadName(names->at(0));
    if (!removed.ok()) return removed.status();
    return *removed ? absl::OkStatus()
                    : absl::InternalError("the name was not reclaimed");
  }

  // A segment that can be opened has its contents.
  bool IsWhole(const Segment& segment) {
    if (segment.size_bytes() != kSize) return false;
    if (!GetParam().filled) return true;
    const auto mapping = segment.MapReadOnly();
    return mapping.ok() &&
           std::memcmp(mapping->data(), contents_.data(), kSize) == 0;
  }

  const std::string prefix_ = UniqueShmPrefix();
  const std::vector<std::byte> contents_ =
      std::vector<std::byte>(kSize, std::byte{7});
  int left_whole_ = 0;
  int left_unfinished_ = 0;
};

TEST_P(SegmentStepTest, LeavesNothingAroundEachSystemCall) {
  StepScenario scenario = Scenario();
  scenario.stride = 0;
  scenario.around_syscalls = true;
  TENON_ASSERT_OK_AND_ASSIGN(const StepReport report,
                             KillAtEveryInstruction(scenario));
  EXPECT_TRUE(report.ok()) << report.ToString();
  EXPECT_GE(report.positions, 10u);
}

TEST_P(SegmentStepTest, LeavesNothingWhereverItIsKilled) {
  const Census before = TakeCensus({.shm_prefix = prefix_});
  StepScenario scenario = Scenario();
  if (GetParam().chosen) scenario.stride *= 4;  // Most of it is as without.
  TENON_ASSERT_OK_AND_ASSIGN(const StepReport report,
                             KillAtEveryInstruction(scenario));
  std::cout << report.ToString() << "names left: " << left_whole_ << " whole, "
            << left_unfinished_ << " unfinished\n";
  EXPECT_TRUE(report.ok()) << report.ToString();
  EXPECT_TRUE(ExpectSame(before, TakeCensus({.shm_prefix = prefix_})));
  if (GetParam().strategy == SharingStrategy::kFileSystem) {
    // Or it was not killed in between at all.
    EXPECT_GT(left_whole_, 0);
    EXPECT_GT(left_unfinished_, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Segments, SegmentStepTest,
    testing::Values(
        Case{SharingStrategy::kFileDescriptor, SegmentKind::kOwnerWritten},
        Case{SharingStrategy::kFileDescriptor, SegmentKind::kSharedWritable},
        Case{SharingStrategy::kFileSystem, SegmentKind::kOwnerWritten},
        Case{SharingStrategy::kFileSystem, SegmentKind::kSharedWritable},
        Case{SharingStrategy::kFileDescriptor, SegmentKind::kOwnerWritten,
             true},
        Case{SharingStrategy::kFileSystem, SegmentKind::kSharedWritable, true},
        Case{SharingStrategy::kFileSystem, SegmentKind::kSharedWritable, true,
             true}),
    [](const auto& param) {
      return std::string(param.param.strategy == SharingStrategy::kFileSystem
                             ? "FileSystem"
                             : "FileDescriptor") +
             (param.param.kind == SegmentKind::kOwnerWritten
                  ? "OwnerWritten"
                  : "SharedWritable") +
             (param.param.filled ? "Filled" : "") +
             (param.param.chosen ? "Chosen" : "");
    });

}  // namespace
}  // namespace tenon
