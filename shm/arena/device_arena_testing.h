// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// For tests: arenas in the memory of devices without hardware, TestDevices
// (tensor/device_testing.h), which the CPU cannot access at its addresses.

#ifndef TENON_SHM_ARENA_DEVICE_ARENA_TESTING_H_
#define TENON_SHM_ARENA_DEVICE_ARENA_TESTING_H_

#include <memory>

#include "absl/status/statusor.h"
#include "tenon/shm/arena/arena.h"
#include "tenon/shm/arena/arena_options.h"

namespace tenon {

// On device 0 or 1. Registers the kind of memory for this process and its
// forked children. Errors: Arena::Create()'s.
absl::StatusOr<std::shared_ptr<Arena>> CreateDeviceArena(
    int device, const ArenaOptions& options = {});

// From now on this process knows the two devices of others by the other number:
// another CUDA_VISIBLE_DEVICES.
void SwapDevicesOfOthers();

}  // namespace tenon

#endif  // TENON_SHM_ARENA_DEVICE_ARENA_TESTING_H_
