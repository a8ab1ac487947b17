// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Rank: one process of a job of several.

#ifndef TENON_LOADER_JOB_RANK_H_
#define TENON_LOADER_JOB_RANK_H_

#include <optional>
#include <ostream>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "tenon/shm/base/cplusplus_20.h"

namespace tenon::loader {

// A value. The default is the only process of a job.
struct Rank {
  int rank = 0;
  int world_size = 1;
  // Among the job's processes on its node; unset where the launcher tells none.
  std::optional<int> local_rank;
  // The name of the machine; may be empty.
  std::string node;

  // "rank 3 on node1"; for errors.
  std::string ToString() const;
};

std::ostream& operator<<(std::ostream& stream, const Rank& rank);

// Errors: kInvalidArgument, with `call`, unless 0 <= rank < world_size and
// local_rank, if set, is not negative.
absl::Status CheckRank(absl::string_view call, const Rank& rank);

}  // namespace tenon::loader

#endif  // TENON_LOADER_JOB_RANK_H_
