// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// ForkHazard: a state of this process that a forked child cannot use.
//
//   NoteForkHazard("CUDA has been initialized");       // Where it begins.
//   TENON_RETURN_IF_ERROR(CheckNoForkHazard());        // Before a fork.
//
// Packages that start processes ask here, and need not know the packages that
// load such a library.

#ifndef TENON_SHM_BASE_FORK_HAZARD_H_
#define TENON_SHM_BASE_FORK_HAZARD_H_

#include "absl/status/status.h"
#include "tenon/shm/base/cplusplus_20.h"

namespace tenon {

// From now on CheckNoForkHazard() fails, in this process and in processes that
// are forked from it. `what` is a clause for the message, and is not copied;
// the first one is kept. Thread-safe.
void NoteForkHazard(const char* what);

// OK unless a hazard was noted. Thread-safe.
// Errors: kFailedPrecondition naming it.
absl::Status CheckNoForkHazard();

}  // namespace tenon

#endif  // TENON_SHM_BASE_FORK_HAZARD_H_
