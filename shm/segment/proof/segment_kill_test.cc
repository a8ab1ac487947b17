// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Segments of both strategies and kinds: owner and peer killed at every point.

#include <cstddef>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/base/crash_point.h"
#include "tenon/shm/pages/mapping.h"
#include "tenon/shm/segment/named_segments.h"
#include "tenon/shm/segment/segment.h"
#include "tenon/shm/segment/segment_files.h"
#include "tenon/shm/segment/segment_options.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/segment/shm_name.h"
#include "tenon/shm/testing/kill/census.h"
#include "tenon/shm/testing/kill/kill_driver.h"
#include "tenon/shm/testing/kill/kill_report.h"
#include "tenon/shm/testing/kill/kill_scenario.h"
#include "tenon/shm/testing/kill/peer.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/reporter.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr size_t kSize = 8192;
constexpr std::byte kMark{42};

// The parameters: each way to create one.
struct Way {
  SegmentKind kind;
  bool filled;
  bool mapped = false;  // While it is created, though it is filled.
  bool chosen = false;  // Under a name that a program chose.
};

struct Made {
  Segment segment;
  WritableMapping mapping;  // Empty if it was filled.
};

absl::StatusOr<Made> CreateFilled(const Way& way,
                                  const SegmentOptions& options) {
  const std::vector<std::byte> contents(kSize, kMark);
  if (way.mapped) {
    auto owned = Segment::CreateOwnerWritten(contents, options);
    TENON_CRASH_POINT("segment_kill_test.filled_and_mapped");
    if (!owned.ok()) return owned.status();
    return Made{std::move(owned->segment), std::move(owned->mapping)};
  }
  auto segment = Segment::CreateFilled(contents, way.kind, options);
  TENON_CRASH_POINT("segment_kill_test.filled");
  if (!segment.ok()) return segment.status();
  return Made{*std::move(segment), WritableMapping()};
}

// Creates a segment that begins with kMark.
absl::StatusOr<Made> Create(const Way& way, const SegmentOptions& options) {
  if (way.filled) return CreateFilled(way, options);
  if (way.kind == SegmentKind::kOwnerWritten) {
    auto owned = Segment::CreateOwnerWritten(kSize, options);
    TENON_CRASH_POINT("segment_kill_test.created");
    if (!owned.ok()) return owned.status();
    owned->mapping.data()[0] = kMark;
    return Made{std::move(owned->segment), std::move(owned->mapping)};
  }
  auto segment = Segment::CreateSharedWritable(kSize, options);
  TENON_CRASH_POINT("segment_kill_test.created");
  if (!segment.ok()) return segment.status();
  auto mapping = segment->MapWritable();
  if (!mapping.ok()) return mapping.status();
  TENON_CRASH_POINT("segment_kill_test.mapped");
  mapping->data()[0] = kMark;
  return Made{*std::move(segment), *std::move(mapping)};
}

void Own(Peer& self, const Way& way, const SegmentOptions& options) {
  auto made = Create(way, options);
  ASSERT_THAT(made, IsOk());
  if (*options.strategy == SharingStrategy::kFileDescriptor) {
    EXPECT_THAT(self.GiveFd("peer", made->segment.fd()),
                AnyOf(IsOk(), StatusIs(absl::StatusCode::kUnavailable)));
  }
  TENON_CRASH_POINT("segment_kill_test.given");
  self.Step("given");
  self.Await("peer", "looked").IgnoreError();  // It may be killed.
  EXPECT_THAT(made->segment.Unlink(), IsOk());
  TENON_CRASH_POINT("segment_kill_test.unlinked");
  const auto mapping = made->segment.MapReadOnly();
  ASSERT_THAT(mapping, IsOk());
  EXPECT_EQ(mapping->data()[0], kMark);
}

// Takes the peer's segment, under either strategy.
absl::StatusOr<Segment> Take(Peer& self, const Way& way,
                             const SegmentOptions& options) {
  if (*options.strategy == SharingStrategy::kFileDescriptor) {
    auto fd = self.TakeFd("owner");
    if (!fd.ok()) return fd.status();
    TENON_CRASH_POINT("segment_kill_test.taken");
    return Segment::Adopt(*std::move(fd), way.kind);
  }
  if (way.chosen) return Segment::Open(options.name, way.kind);
  const auto names = ListShmNames(options.name_prefix);
  if (!names.ok()) return names.status();
  EXPECT_EQ(names->size(), 1u);
  return Segment::Open(names->at(0), way.kind);
}

void Inspect(Peer& self, const Way& way, const SegmentOptions& options) {
  // Not if the owner has been killed before; after that it may be.
  if (!self.Await("owner", "given").ok()) return;
  const auto segment = Take(self, way, options);
  TENON_CRASH_POINT("segment_kill_test.adopted");
  // A chosen name does not outlive its owner, who may have been killed.
  if (way.chosen && absl::IsNotFound(segment.status())) return;
  ASSERT_THAT(segment, IsOk());
  const auto mapping = segment->MapReadOnly();
  ASSERT_THAT(mapping, IsOk());
  TENON_CRASH_POINT("segment_kill_test.peer_mapped");
  EXPECT_EQ(mapping->size_bytes(), kSize);
  EXPECT_EQ(mapping->data()[0], kMark);
  self.Step("looked");
}

std::string FilledPrefix(const std::string& prefix) {
  return absl::StrCat(prefix, "-filled");
}

constexpr Way kWays[] = {
    {.kind = SegmentKind::kOwnerWritten, .filled = false},
    {.kind = SegmentKind::kOwnerWritten, .filled = true},
    {.kind = SegmentKind::kOwnerWritten, .filled = true, .mapped = true},
    {.kind = SegmentKind::kSharedWritable, .filled = false},
    {.kind = SegmentKind::kSharedWritable, .filled = true},
    {.kind = SegmentKind::kSharedWritable, .filled = true, .chosen = true}};

std::string ChosenName(const std::string& prefix) {
  return absl::StrCat(prefix, ".chosen");
}

// For each strategy and way to create it.
void ForEach(const std::string& prefix,
             void (*play)(Peer&, const Way&, const SegmentOptions&),
             Peer& self) {
  for (SharingStrategy strategy : AllSharingStrategies()) {
    for (const Way& way : kWays) {
      if (way.chosen && strategy != SharingStrategy::kFileSystem) continue;
      play(self, way,
           {.strategy = strategy,
            .name_prefix = way.filled ? FilledPrefix(prefix) : prefix,
            .name = way.chosen ? ChosenName(prefix) : "",
            .huge_pages = way.filled ? HugePages::kTry : HugePages::kNo});
    }
  }
}

// All contents are present.
void CheckFilled(const Segment& segment) {
  const auto mapping = segment.MapReadOnly();
  ASSERT_THAT(mapping, IsOk());
  for (std::byte byte : mapping->bytes()) ASSERT_EQ(byte, kMark);
}

absl::StatusOr<Segment> CreateNamed(const std::string& prefix) {
  return Segment::CreateSharedWritable(
      kSize, {.strategy = SharingStrategy::kFileSystem, .name_prefix = prefix});
}

// The rest of a killed owner, and a segment that this process creates and does
// not hold, are reclaimed.
void ReclaimAll(const std::string& prefix) {
  {
    TENON_ASSERT_OK_AND_ASSIGN(Segment segment, CreateNamed(prefix));
    ASSERT_THAT(segment.CloseFd(), IsOk());
    const auto names = ListShmNames(prefix);
    ASSERT_THAT(names, IsOk());
    for (const std::string& name : *names) {
      // A process that is being killed holds its locks a little longer.
      EXPECT_TRUE(Becomes([&] {
        return ReclaimDeadName(name).value_or(false);
      })) << name;
    }
  }
  EXPECT_THAT(ListShmNames(prefix), IsOkAndHolds(IsEmpty()));
}

// A killed owner may leave the name of one segment that it was creating or had
// created. Opening it gives a complete segment, or fails because it is
// incomplete.
void CheckWorld(const Reporter& reporter, const std::string& prefix,
                const std::vector<KillOrder>& fired) {
  const auto names = ListShmNames(prefix);
  ASSERT_THAT(names, IsOk());
  if (fired.empty() || fired[0].role != "owner") {
    EXPECT_THAT(*names, IsEmpty());
    ReclaimAll(prefix);
    return;
  }
  EXPECT_LE(names->size(), 1u);
  for (const std::string& name : *names) {
    const auto segment = Segment::Open(name, SegmentKind::kSharedWritable);
    if (name == ChosenName(prefix)) {
      EXPECT_THAT(segment, StatusIs(absl::StatusCode::kNotFound));
      reporter.Note("the killed owner left a chosen name");
      continue;
    }
    EXPECT_THAT(segment,
                AnyOf(IsOk(), StatusIs(absl::StatusCode::kPermissionDenied)));
    EXPECT_EQ(segment.ok() ? segment->size_bytes() : kSize, kSize);
    if (segment.ok() && absl::StartsWith(name, FilledPrefix(prefix))) {
      CheckFilled(*segment);
    }
    reporter.Note(segment.ok() ? "the killed owner left the name of a segment"
                               : "the killed owner left an unfinished name");
    // Only then is it reclaimed.
    if (segment.ok()) {
      EXPECT_THAT(ReclaimDeadName(name), IsOkAndHolds(false));
    }
  }
  ReclaimAll(prefix);
}

// Reclaims all names under `prefix`, among them one of a dead process and one
// that this process holds.
void ReclaimBeside(const std::string& prefix) {
  ASSERT_THAT(CreateNamedFile({.size_bytes = kSize}, prefix + "-dead"), IsOk());
  TENON_ASSERT_OK_AND_ASSIGN(const Segment alive, CreateNamed(prefix));
  const auto names = ListShmNames(prefix);
  ASSERT_THAT(names, IsOk());
  for (const std::string& name : *names) {
    EXPECT_THAT(ReclaimDeadName(name), IsOk());
  }
  EXPECT_THAT(ListShmNames(prefix), IsOkAndHolds(ElementsAre(alive.name())));
}

// Two processes that reclaim one after the other are killed at every point; the
// second finds what the first left.
TEST(ReclaimKillTest, AtEveryPoint) {
  const std::string prefix = UniqueShmPrefix();
  KillScenario scenario;
  scenario.name = "reclaim";
  scenario.victims = 2;
  scenario.points = "segment.reclaim";
  scenario.shm_prefix = prefix;
  scenario.roles = {{"first",
                     [&](Peer& self) {
                       ReclaimBeside(prefix + "-1");
                       self.Step("reclaimed");
                     }},
                    {"second", [&](Peer& self) {
                       // It may be killed.
                       self.Await("first", "reclaimed").IgnoreError();
                       ReclaimBeside(prefix + "-2");
                       ReclaimAll(prefix + "-1");
                     }}};
  scenario.check = [&](const Reporter&, const std::vector<KillOrder>&) {
    ReclaimAll(prefix);
  };
  const KillReport report = RunKillMatrix(scenario);
  std::cout << report.ToString();
  EXPECT_TRUE(report.ok()) << report.ToString();
}

class SegmentKillTest : public testing::TestWithParam<KillMethod> {};

TEST_P(SegmentKillTest, AtEveryPoint) {
  const std::string prefix = UniqueShmPrefix();
  KillScenario scenario;
  scenario.name = "segment";
  scenario.method = GetParam();
  scenario.points = "segment";
  scenario.shm_prefix = prefix;
  scenario.roles = {
      {"owner", [&](Peer& self) { ForEach(prefix, Own, self); }},
      {"peer", [&](Peer& self) { ForEach(prefix, Inspect, self); }}};
  scenario.check = [&](const Reporter& reporter,
                       const std::vector<KillOrder>& fired) {
    CheckWorld(reporter, prefix, fired);
  };
  const Census before = TakeCensus({.shm_prefix = prefix});
  const KillReport report = RunKillMatrix(scenario);
  std::cout << report.ToString();
  EXPECT_TRUE(report.ok()) << report.ToString();
  EXPECT_TRUE(ExpectSame(before, TakeCensus({.shm_prefix = prefix})));
}

INSTANTIATE_TEST_SUITE_P(Methods, SegmentKillTest,
                         testing::Values(KillMethod::kKill, KillMethod::kStop),
                         [](const auto& param) {
                           return param.param == KillMethod::kKill ? "Killed"
                                                                   : "Stopped";
                         });

}  // namespace
}  // namespace tenon
