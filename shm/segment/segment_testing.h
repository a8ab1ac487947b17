// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// For tests of every segment, whatever its strategy and kind.

#ifndef TENON_SHM_SEGMENT_SEGMENT_TESTING_H_
#define TENON_SHM_SEGMENT_SEGMENT_TESTING_H_

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>
#include <tuple>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/pages/mapping.h"
#include "tenon/shm/segment/segment.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/segment/shm_name.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {

inline constexpr size_t kSize = 10000;

// Of either strategy and kind.
class SegmentTest
    : public testing::TestWithParam<std::tuple<SharingStrategy, SegmentKind>> {
 protected:
  SegmentTest() : prefix_(UniqueTestPrefix()), fds_before_(CountOpenFds()) {}

  // Nothing is ever left behind.
  void TearDown() override {
    EXPECT_THAT(ListShmNames(prefix_), IsOkAndHolds(testing::IsEmpty()));
    EXPECT_EQ(CountOpenFds(), fds_before_);
  }

  SharingStrategy strategy() const { return std::get<0>(GetParam()); }
  SegmentKind kind() const { return std::get<1>(GetParam()); }
  bool has_name() const { return strategy() == SharingStrategy::kFileSystem; }
  bool owner_written() const { return kind() == SegmentKind::kOwnerWritten; }

  // With a writable mapping for either kind.
  absl::StatusOr<Segment::OwnerWritten> Create(size_t size_bytes,
                                               const std::string& prefix) {
    const SegmentOptions options = {.strategy = strategy(),
                                    .name_prefix = prefix};
    if (owner_written()) {
      return Segment::CreateOwnerWritten(size_bytes, options);
    }
    TENON_ASSIGN_OR_RETURN(Segment segment,
                           Segment::CreateSharedWritable(size_bytes, options));
    TENON_ASSIGN_OR_RETURN(WritableMapping mapping, segment.MapWritable());
    return Segment::OwnerWritten{std::move(segment), std::move(mapping)};
  }
  absl::StatusOr<Segment::OwnerWritten> Create(size_t size_bytes) {
    return Create(size_bytes, prefix_);
  }

  // The steps of a process that received the segment.
  absl::StatusOr<Segment> Receive(const Segment& segment) {
    if (has_name()) return Segment::Open(segment.name(), kind());
    return Segment::Adopt(UniqueFd(dup(segment.fd())), kind());
  }

  const std::string prefix_;
  const size_t fds_before_;
};

inline void Fill(const WritableMapping& mapping, absl::string_view text) {
  ASSERT_LE(text.size(), mapping.size_bytes());
  std::memcpy(mapping.data(), text.data(), text.size());
}

inline std::string Text(const ReadOnlyMapping& mapping, size_t size_bytes) {
  return std::string(reinterpret_cast<const char*>(mapping.data()), size_bytes);
}

inline bool AllZero(const WritableMapping& mapping) {
  const auto bytes = mapping.bytes();
  return std::all_of(bytes.begin(), bytes.end(),
                     [](std::byte b) { return b == std::byte{0}; });
}

inline std::string SegmentCaseName(
    const testing::TestParamInfo<SegmentTest::ParamType>& param_info) {
  const auto [strategy, kind] = param_info.param;
  return absl::StrCat(
      strategy == SharingStrategy::kFileSystem ? "FileSystem"
                                               : "FileDescriptor",
      kind == SegmentKind::kOwnerWritten ? "OwnerWritten" : "SharedWritable");
}

inline auto AllSegmentCases() {
  return testing::Combine(testing::Values(SharingStrategy::kFileDescriptor,
                                          SharingStrategy::kFileSystem),
                          testing::Values(SegmentKind::kOwnerWritten,
                                          SegmentKind::kSharedWritable));
}

}  // namespace tenon

#endif  // TENON_SHM_SEGMENT_SEGMENT_TESTING_H_
