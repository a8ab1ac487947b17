// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/futures/wait_all.h"

#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

namespace tenon::futures::internal_future {

absl::Status NotAllDoneError(size_t not_done, size_t of,
                             absl::Duration timeout) {
  return absl::DeadlineExceededError(absl::StrCat(
      "WaitAll: after ", absl::FormatDuration(timeout), " ", not_done, " of ",
      of, " futures have no result",
      not_done == 0 ? ", but an earlier callback has not returned" : ""));
}

}  // namespace tenon::futures::internal_future
