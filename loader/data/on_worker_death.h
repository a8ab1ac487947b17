// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// OnWorkerDeath: an option of a loader, LoaderOptions::on_worker_death.

#ifndef TENON_LOADER_DATA_ON_WORKER_DEATH_H_
#define TENON_LOADER_DATA_ON_WORKER_DEATH_H_

#include <cstdint>

#include "tenon/shm/base/cplusplus_20.h"

namespace tenon::loader {

// What a loader does if a worker process dies: by a signal, by exit(), or
// because a sample took longer than LoaderOptions::sample_timeout.
enum class OnWorkerDeath : uint8_t {
  kFail,  // The death is the error of the loader.
  // Another process replaces the worker, and makes its unfinished batches
  // again, bit for bit. Of a stream, it passes over the batches before.
  kRestart,
  // As kRestart, but without the sample that the worker was loading, whether or
  // not that was the cause: the sample counts as failed (OnSampleError; kFail
  // as kSkip), with an error that says how the worker has ended. After a death
  // in Dataset::GetBatch() the batch is made by Get(), to find the sample. Not
  // for a stream, which cannot leave out a sample that it has not read.
  kSkipSample,
};

}  // namespace tenon::loader

#endif  // TENON_LOADER_DATA_ON_WORKER_DEATH_H_
