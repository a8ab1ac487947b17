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
  kFail,  // Its error is that of its batch; the next batch follows.
  kSkip,  // The batch has the other samples; Batch::skipped() lists it.
};

}  // namespace tenon::loader

#endif  // TENON_LOADER_DATA_ON_SAMPLE_ERROR_H_
