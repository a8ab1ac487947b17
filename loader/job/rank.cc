// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/job/rank.h"

#include <ostream>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace tenon::loader {

std::string Rank::ToString() const {
  std::string text = absl::StrCat("rank ", rank);
  if (!node.empty()) absl::StrAppend(&text, " on ", node);
  return text;
}

std::ostream& operator<<(std::ostream& stream, const Rank& rank) {
  return stream << rank.ToString();
}

absl::Status CheckRank(absl::string_view call, const Rank& rank) {
  if (rank.world_size < 1) {
    return absl::InvalidArgumentError(absl::StrCat(call, ": the world size is ",
                                                   rank.world_size,
                                                   "; it must be at least 1"));
  }
  if (rank.rank < 0 || rank.rank >= rank.world_size) {
    return absl::InvalidArgumentError(absl::StrCat(
        call, ": the rank is ", rank.rank, "; in a world of ", rank.world_size,
        " it must be 0 to ", rank.world_size - 1));
  }
  if (rank.local_rank.value_or(0) < 0) {
    return absl::InvalidArgumentError(absl::StrCat(call, ": the local rank is ",
                                                   *rank.local_rank,
                                                   "; it must be at least 0"));
  }
  return absl::OkStatus();
}

}  // namespace tenon::loader
