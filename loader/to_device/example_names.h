// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Names that the examples of this package use without declaring them. Examples
// are compiled, not run: nothing here is defined.

#ifndef TENON_LOADER_TO_DEVICE_EXAMPLE_NAMES_H_
#define TENON_LOADER_TO_DEVICE_EXAMPLE_NAMES_H_

#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenon/cuda_ipc/cuda_api.h"
#include "tenon/loader/data/batch.h"
#include "tenon/loader/loader.h"
#include "tenon/loader/to_device/to_device.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/tensor/tensor.h"

void LaunchKernels(float* pixels, tenon::cuda_ipc::CUstream stream);

#endif  // TENON_LOADER_TO_DEVICE_EXAMPLE_NAMES_H_
