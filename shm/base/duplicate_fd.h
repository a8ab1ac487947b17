// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#ifndef TENON_SHM_BASE_DUPLICATE_FD_H_
#define TENON_SHM_BASE_DUPLICATE_FD_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tenon/shm/base/unique_fd.h"

namespace tenon {

// A second descriptor, close-on-exec, of the open file of `fd`. `what` names it
// in errors. Errors: kInvalidArgument if `fd` is not open; kResourceExhausted
// at a limit of descriptors.
absl::StatusOr<UniqueFd> DuplicateFd(int fd, absl::string_view what);

}  // namespace tenon

#endif  // TENON_SHM_BASE_DUPLICATE_FD_H_
