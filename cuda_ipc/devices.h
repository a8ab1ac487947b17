// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// ListDevices: the GPUs that this process may use.
//
//   TENON_ASSIGN_OR_RETURN(const DriverTable* driver, GetDriver());
//   TENON_ASSIGN_OR_RETURN(std::vector<Device> devices, ListDevices(*driver));
//
// It creates no context and allocates no memory on a device.

#ifndef TENON_CUDA_IPC_DEVICES_H_
#define TENON_CUDA_IPC_DEVICES_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenon/cuda_ipc/driver.h"

namespace tenon::cuda_ipc {

// One GPU, or one instance of a partitioned GPU (MIG).
//
// Ownership: a value. Threads: as any value.
// Processes: `ordinal` counts the devices that CUDA_VISIBLE_DEVICES shows to
//   this process, so two processes may use it for different GPUs; `uuid` is the
//   same in all.
struct Device {
  int ordinal;
  std::string name;      // "NVIDIA H200"; several may have the same.
  uint64_t total_bytes;  // Of memory, free or not.
  std::array<uint8_t, 16> uuid;
};

// All devices, by ordinal. `driver` comes from GetDriver. Thread-safe.
// Errors: those of CudaError for the failed call, with the device's ordinal.
absl::StatusOr<std::vector<Device>> ListDevices(const DriverTable& driver);

// OK if the driver has all functions of `feature` and this device supports it.
// Thread-safe.
// Errors: kFailedPrecondition if the driver is too old for it; kUnimplemented
// if this device does not support it; else those of CudaError.
absl::Status CheckFeature(const DriverTable& driver, int ordinal,
                          DriverFeature feature);

// In the usual form, 8-4-4-4-12 lower-case digits. nvidia-smi prefixes it with
// "GPU-" or "MIG-".
std::string UuidText(const std::array<uint8_t, 16>& uuid);

}  // namespace tenon::cuda_ipc

#endif  // TENON_CUDA_IPC_DEVICES_H_
