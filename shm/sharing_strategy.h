// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// SharingStrategy: how a segment is named to another process.

#ifndef TENON_SHM_SHARING_STRATEGY_H_
#define TENON_SHM_SHARING_STRATEGY_H_

#include <span>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tenon {

enum class SharingStrategy {
  // "file_descriptor": an anonymous memfd, passed as a descriptor over a
  // channel. Sealed, so the receiver can trust its size; not bound by the size
  // of /dev/shm; gone with its last user, however that one dies. The default.
  kFileDescriptor,
  // "file_system": a name in /dev/shm, passed as a string. Costs no descriptor
  // while it is not in use, but cannot be sealed and outlives its users unless
  // somebody removes it: for groups of processes that trust each other.
  kFileSystem,
};

// Every strategy there is.
std::span<const SharingStrategy> AllSharingStrategies();

// "file_descriptor" or "file_system".
absl::string_view SharingStrategyName(SharingStrategy strategy);

// The reverse. Errors: kInvalidArgument, listing the names there are.
absl::StatusOr<SharingStrategy> ParseSharingStrategy(absl::string_view name);

// The strategy that segments of this process are created with unless their
// options say otherwise. Initially kFileDescriptor. Thread-safe; spawned
// children start with the value that their parent had.
SharingStrategy GetSharingStrategy();
void SetSharingStrategy(SharingStrategy strategy);

}  // namespace tenon

#endif  // TENON_SHM_SHARING_STRATEGY_H_
