// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// OnSampleError: an option of a loader, LoaderOptions::on_sample_error.

#ifndef TENON_LOADER_DATA_ON_SAMPLE_ERROR_H_
#define TENON_LOADER_DATA_ON_SAMPLE_ERROR_H_

#include <cstdint>

#include "tenon/shm/base/cplusplus_20.h"

namespace tenon::loader {

// What to do with a sample that Dataset::Get() fails on.
enum class OnSampleError : uint8_t {
  kFail,  // The epoch ends with its error.
  kSkip,  // The batch goes without it; Batch::skipped() says so.
};

}  // namespace tenon::loader

#endif  // TENON_LOADER_DATA_ON_SAMPLE_ERROR_H_
