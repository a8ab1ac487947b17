// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// OnSampleError: an option of a loader, LoaderOptions::on_sample_error.

#ifndef TENON_LOADER_DATA_ON_SAMPLE_ERROR_H_
#define TENON_LOADER_DATA_ON_SAMPLE_ERROR_H_

#include <cstdint>

#include "tenon/shm/base/cplusplus_20.h"

namespace tenon::loader {

// What a loader does if Dataset::Get() or SampleStream::Next() fails.
enum class OnSampleError : uint8_t {
  kFail,  // The error is returned in place of the batch; the next one follows.
  kSkip,  // The batch has the other samples; Batch::skipped() lists this one.
  // The sample is replaced by the next item of the dataset that does not fail,
  // of up to 8 (after the last item comes the first), made with the random
  // numbers of the failed one. So a batch keeps its size, and is the same for
  // any number of workers. Batch::skipped() lists both items. If all 8 fail,
  // too, as kFail. Not for an iterable dataset.
  kReplace,
};

}  // namespace tenon::loader

#endif  // TENON_LOADER_DATA_ON_SAMPLE_ERROR_H_
