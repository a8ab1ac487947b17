// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// OnWorkerDeath: an option of a loader, LoaderOptions::on_worker_death.

#ifndef TENON_LOADER_DATA_ON_WORKER_DEATH_H_
#define TENON_LOADER_DATA_ON_WORKER_DEATH_H_

#include <cstdint>

#include "tenon/shm/base/cplusplus_20.h"

namespace tenon::loader {

// What to do when a worker process has died: by a signal, by exit(), or because
// a sample took longer than LoaderOptions::sample_timeout.
enum class OnWorkerDeath : uint8_t {
  kFail,  // It is the error of the loader.
  // Another process takes its place, and makes the batches again that it had
  // not finished, bit for bit. Of a stream, it passes over the batches before.
  kRestart,
  // The same without the sample that it was loading, be it the cause or not:
  // this sample failed, as OnSampleError says of others (kFail: as kSkip), and
  // its error says how the worker has ended. After a death in
  // Dataset::GetBatch() its batch is made by Get(), to find the sample. Not of
  // a stream, which cannot leave out a sample that it has not read.
  kSkipSample,
};

}  // namespace tenon::loader

#endif  // TENON_LOADER_DATA_ON_WORKER_DEATH_H_
