// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// WorkerKind: an option of a loader, LoaderOptions::worker_kind.

#ifndef TENON_LOADER_DATA_WORKER_KIND_H_
#define TENON_LOADER_DATA_WORKER_KIND_H_

#include <cstdint>

#include "tenon/shm/base/cplusplus_20.h"

namespace tenon::loader {

// Whether workers are processes or threads.
enum class WorkerKind : uint8_t {
  // Processes of this program, or of LoaderOptions::worker_program: a decoder
  // that crashes, leaks or holds a lock harms no other process.
  kProcess,
  // Threads of this process, each with an instance of the dataset. They start
  // at once; a crash ends the process. The loader's destructor waits for the
  // samples that they are loading, without a limit.
  kThread,
};

}  // namespace tenon::loader

#endif  // TENON_LOADER_DATA_WORKER_KIND_H_
