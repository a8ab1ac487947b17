// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The owner of an arena, as a process that was offered the arena knows it: the
// process that made the arena's inbox. A child that the owner has forked has
// copies of the inbox, and is not its owner.

#ifndef TENON_SHM_LEDGER_INBOX_OWNER_H_
#define TENON_SHM_LEDGER_INBOX_OWNER_H_

#include "absl/status/statusor.h"
#include "tenon/shm/process/pid_fd.h"

namespace tenon {

// `inbox` is any copy of its sending end. Does not block. Errors: kNotFound if
// the owner has ended and was reaped; PidFd::Open()'s.
absl::StatusOr<PidFd> OwnerOfInbox(int inbox);

// Of an answer of OwnerOfInbox(): an owner that is not known counts as alive.
bool IsKnownToHaveEnded(const absl::StatusOr<PidFd>& owner);

}  // namespace tenon

#endif  // TENON_SHM_LEDGER_INBOX_OWNER_H_
