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
  // The next item of the dataset that does not fail (after the last one, the
  // first), of up to 8, is made in its place, with its random numbers: so a
  // batch keeps its size, and is the same for any number of workers.
  // Batch::skipped() lists both items. If the 8 fail, too, it is as kFail. Not
  // for an iterable dataset.
  kReplace,
};

}  // namespace tenon::loader

#endif  // TENON_LOADER_DATA_ON_SAMPLE_ERROR_H_
