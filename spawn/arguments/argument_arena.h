// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The arena into which tensors in private memory are copied when they are sent
// as arguments or results.

#ifndef TENON_SPAWN_ARGUMENTS_ARGUMENT_ARENA_H_
#define TENON_SPAWN_ARGUMENTS_ARGUMENT_ARENA_H_

#include <memory>

#include "absl/status/statusor.h"
#include "tenon/shm/base/cplusplus_20.h"

namespace tenon {
class Arena;
}  // namespace tenon

namespace tenon::spawn {

// The one arena of this process, named "arguments", without a quota; created by
// the first call; a forked child creates its own. It retains the memory of
// copies that all receivers have dropped, for further copies: Trim() returns it
// to the system. Thread-safe. Errors: those of Arena::Create().
absl::StatusOr<std::shared_ptr<Arena>> ArgumentArena();

}  // namespace tenon::spawn

#endif  // TENON_SPAWN_ARGUMENTS_ARGUMENT_ARENA_H_
