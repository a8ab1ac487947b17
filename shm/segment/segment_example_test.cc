// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The example of README.md.

#include <unistd.h>

#include <cstddef>
#include <utility>

#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/pages/mapping.h"
#include "tenon/shm/segment/segment.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

// The owner makes it, writes it, and sends owned.segment.fd() over a channel.
absl::StatusOr<Segment::OwnerWritten> MakeAnswer() {
  TENON_ASSIGN_OR_RETURN(auto owned, Segment::CreateOwnerWritten(1 << 20));
  owned.mapping.bytes()[0] = std::byte{42};
  return owned;
}

// The peer checks the received descriptor, maps it, and reads.
absl::StatusOr<std::byte> ReadAnswer(UniqueFd received) {
  TENON_ASSIGN_OR_RETURN(
      const Segment segment,
      Segment::Adopt(std::move(received), SegmentKind::kOwnerWritten));
  TENON_ASSIGN_OR_RETURN(const ReadOnlyMapping mapping, segment.MapReadOnly());
  return mapping.bytes()[0];
}

TEST(SegmentExampleTest, WhatTheOwnerWritesThePeerReads) {
  TENON_ASSERT_OK_AND_ASSIGN(const auto owned, MakeAnswer());
  EXPECT_TRUE(PassesInChild([&] {
    EXPECT_THAT(ReadAnswer(UniqueFd(dup(owned.segment.fd()))),
                IsOkAndHolds(std::byte{42}));
  }));
}

}  // namespace
}  // namespace tenon
