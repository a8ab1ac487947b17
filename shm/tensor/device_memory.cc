// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/tensor/device_memory.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "dlpack/dlpack.h"
#include "tenon/shm/tensor/device.h"

namespace tenon {
namespace {

// A list that only grows: readable without a lock, in a forked child, too.
struct Registered {
  int32_t type;
  std::unique_ptr<DeviceMemory> memory;
  const Registered* next;
};
constinit std::atomic<const Registered*> registered = nullptr;

const DeviceMemory* Find(const Registered* first, int32_t type) {
  for (; first != nullptr; first = first->next) {
    if (first->type == type) return first->memory.get();
  }
  return nullptr;
}

}  // namespace

absl::StatusOr<std::shared_ptr<Storage>> DeviceMemory::Lend(
    const std::shared_ptr<Storage>& memory) const {
  return absl::UnimplementedError(absl::StrCat(
      "memory of ", DeviceName(memory->device()), " cannot be lent"));
}

absl::StatusOr<std::shared_ptr<Storage>> DeviceMemory::Borrow(
    std::shared_ptr<Storage> /*loan*/) const {  // NOLINT: an override keeps it.
  return absl::UnimplementedError("memory of this type of device is not lent");
}

absl::Status RegisterDeviceMemory(DLDeviceType type,
                                  std::unique_ptr<DeviceMemory> memory) {
  if (type == kDLCPU) {
    return absl::InvalidArgumentError(
        "RegisterDeviceMemory(): kDLCPU needs none");
  }
  auto added = std::make_unique<Registered>(
      Registered{.type = type, .memory = std::move(memory), .next = nullptr});
  const Registered* first = registered.load(std::memory_order_acquire);
  do {
    if (Find(first, type) != nullptr) {
      return absl::AlreadyExistsError(absl::StrCat(
          "RegisterDeviceMemory(): device type ", int32_t{type}, " has one"));
    }
    added->next = first;
  } while (!registered.compare_exchange_weak(first, added.get(),
                                             std::memory_order_acq_rel,
                                             std::memory_order_acquire));
  added.release();  // NOLINT(bugprone-unused-return-value): for ever.
  return absl::OkStatus();
}

absl::StatusOr<const DeviceMemory*> DeviceMemoryOf(const DLDevice& device) {
  const int32_t type = DeviceType(device);
  if (device.device_id < 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "device type ", type, " has no device of the negative number ",
        device.device_id));
  }
  const DeviceMemory* const memory =
      Find(registered.load(std::memory_order_acquire), type);
  if (memory != nullptr) return memory;
  if (type == kDLCUDA) {
    return absl::FailedPreconditionError(
        absl::StrCat("this program cannot access the memory of ",
                     DeviceName(device), "; link //cuda_ipc:device_tensor"));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("no DeviceMemory is registered for ", DeviceName(device)));
}

}  // namespace tenon
