// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/tensor/device.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "dlpack/dlpack.h"

namespace tenon {

std::string DeviceName(const DLDevice& device) {
  switch (DeviceType(device)) {
    case kDLCPU:
      return "cpu";
    case kDLCUDA:
      return absl::StrCat("cuda:", device.device_id);
    case kDLCUDAHost:
      return "cuda_host";
    default:
      return absl::StrCat("device type ", DeviceType(device), " (number ",
                          device.device_id, ")");
  }
}

}  // namespace tenon
