// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Names in /dev/shm that a process has left behind.

#ifndef TENON_SHM_SEGMENT_DEAD_NAMES_TESTING_H_
#define TENON_SHM_SEGMENT_DEAD_NAMES_TESTING_H_

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "gtest/gtest.h"
#include "tenon/shm/segment/named_segments.h"

namespace tenon {

// Segments whose names begin with `prefix` and that no living process holds. A
// prefix with a pid needs this: tests in other sandboxes, each with pids of its
// own and all with one /dev/shm, may have the same.
inline std::vector<std::string> DeadNames(absl::string_view prefix) {
  std::vector<std::string> dead;
  const auto named = ListNamedSegments();
  if (!named.ok()) ADD_FAILURE() << named.status();
  if (!named.ok()) return dead;
  for (const NamedSegment& segment : *named) {
    if (!segment.is_held && absl::StartsWith(segment.name, prefix)) {
      dead.push_back(segment.name);
    }
  }
  return dead;
}

}  // namespace tenon

#endif  // TENON_SHM_SEGMENT_DEAD_NAMES_TESTING_H_
