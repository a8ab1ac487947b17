// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Support for tests of hostile processes around segments.

#ifndef TENON_SHM_SEGMENT_PROOF_SEGMENT_TRUST_TESTING_H_
#define TENON_SHM_SEGMENT_PROOF_SEGMENT_TRUST_TESTING_H_

#include <fcntl.h>
#include <sys/types.h>

#include <cstddef>
#include <string>

#include "absl/strings/str_cat.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/segment/segment.h"

namespace tenon {

inline constexpr SegmentKind kOwnerWritten = SegmentKind::kOwnerWritten;
inline constexpr SegmentKind kSharedWritable = SegmentKind::kSharedWritable;
inline constexpr SegmentKind kBothKinds[] = {kOwnerWritten, kSharedWritable};
inline constexpr size_t kSize = 3 * 4096;
inline constexpr off_t kPage = 4096;

inline UniqueFd Reopen(int fd, int flags) {
  const std::string path = absl::StrCat("/proc/self/fd/", fd);
  return UniqueFd(open(path.c_str(), flags | O_CLOEXEC));
}

}  // namespace tenon

#endif  // TENON_SHM_SEGMENT_PROOF_SEGMENT_TRUST_TESTING_H_
