// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// WorkerInfo, which a dataset may ask for; and TENON_LOADER_WORKER_INIT:
// functions that a loader calls in each worker before it makes the dataset
// (LoaderOptions::worker_init).
//
//   absl::Status OneCoreEach(const WorkerInfo& info) {
//     cpu_set_t core;
//     CPU_ZERO(&core);
//     CPU_SET(info.index, &core);
//     if (sched_setaffinity(0, sizeof(core), &core) == 0) {
//       return absl::OkStatus();
//     }
//     return absl::UnavailableError("no such core");
//   }
//   TENON_LOADER_WORKER_INIT(OneCoreEach);
//
//   LoaderOptions options = {.workers = 2, .worker_init = OneCoreEach};

#ifndef TENON_LOADER_DATA_WORKER_INIT_H_
#define TENON_LOADER_DATA_WORKER_INIT_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tenon/shm/base/cplusplus_20.h"

namespace tenon::loader {

struct WorkerInfo {
  int index = 0;      // Of the worker, from 0.
  int workers = 1;    // Of the loader; with kAuto the most that may be used.
  uint64_t seed = 0;  // LoaderOptions::seed: the same in each worker.
  int rank = 0;       // LoaderOptions::rank.
  int world_size = 1;
};

// The info of the worker, process or thread, that calls this. Empty in the
// consumer (which makes an instance of the dataset, too), in threads that the
// dataset has started, and in the process of a worker_program that describes a
// dataset. Samples must not depend on it, except those of a stream with
// kShardPerWorker (iterable_dataset.h). While a loader without workers opens or
// reads such a stream, the info is that of the only worker of its rank.
// Thread-safe.
std::optional<WorkerInfo> GetWorkerInfo();

// Called once in each worker, in the thread that makes the dataset. An error or
// an exception is the error of the loader.
using WorkerInit = absl::Status (*)(const WorkerInfo& info);

// Internal: used by the macro and by loaders.

// During its lifetime GetWorkerInfo() of this thread returns `info`, afterwards
// what it returned before.
class ScopedWorkerInfo {
 public:
  explicit ScopedWorkerInfo(const WorkerInfo& info);
  ~ScopedWorkerInfo();
  ScopedWorkerInfo(const ScopedWorkerInfo&) = delete;
  ScopedWorkerInfo& operator=(const ScopedWorkerInfo&) = delete;

 private:
  const std::optional<WorkerInfo> before_;
};

// `name` is "FILE:FUNCTION". A second registration of the same name ends the
// program with a message.
bool RegisterWorkerInit(absl::string_view name, WorkerInit init);
// Errors: kNotFound for a function that is not registered.
absl::StatusOr<std::string> NameOfWorkerInit(WorkerInit init);
// Errors: kNotFound, listing the names.
absl::StatusOr<WorkerInit> FindWorkerInit(absl::string_view name);

}  // namespace tenon::loader

// In a .cc file, after the function, at namespace scope.
#define TENON_LOADER_WORKER_INIT(function)                                 \
  [[maybe_unused]] static const bool tenon_loader_worker_init_##function = \
      ::tenon::loader::RegisterWorkerInit(__FILE__ ":" #function, function)

#endif  // TENON_LOADER_DATA_WORKER_INIT_H_
