// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// WorkerKind: an option of a loader, LoaderOptions::worker_kind.

#ifndef TENON_LOADER_DATA_WORKER_KIND_H_
#define TENON_LOADER_DATA_WORKER_KIND_H_

#include <cstdint>

#include "tenon/shm/base/cplusplus_20.h"

namespace tenon::loader {

// What workers are.
enum class WorkerKind : uint8_t {
  // Processes of this program: a decoder that crashes, leaks or holds a lock
  // harms no other process.
  kProcess,
  // Threads of this process, each with a dataset of its own: they start at
  // once, and a crash ends the process. The loader's destructor waits for the
  // samples in hand, however long they take.
  kThread,
};

}  // namespace tenon::loader

#endif  // TENON_LOADER_DATA_WORKER_KIND_H_
