// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// WorkerHost: the process or the thread in which a worker runs, as the loader
// sees it.

#ifndef TENON_LOADER_WORKER_WORKER_HOST_H_
#define TENON_LOADER_WORKER_WORKER_HOST_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tenon/ipc/channel/channel.h"
#include "tenon/loader/data/dataset_registry.h"
#include "tenon/loader/worker/messages.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/segment/segment.h"
#include "tenon/spawn/settings/start_method.h"

namespace tenon::loader {

// Ownership: owns the process or thread. The destructor of a process kills it
//   if it still runs; that of a thread waits for its end.
// Threads: thread-compatible.
class WorkerHost {
 public:
  virtual ~WorkerHost() = default;

  // "worker 1 (entry 'tenon.loader.worker', pid 4711)", "worker 1 (thread)".
  virtual std::string Describe() const = 0;
  // 0 for a thread.
  virtual pid_t pid() const = 0;
  // For poll(): readable once it has ended.
  virtual int end_fd() const = 0;
  // Waits for its end. Errors: kDeadlineExceeded; how it failed.
  virtual absl::Status Join(Deadline deadline) = 0;
  // No effect on a thread.
  virtual void Signal(int signal) = 0;

  // By /proc. False, empty, and 0 for a thread and if it cannot be read.
  // Whether a signal or a debugger keeps the process from running, or may.
  bool IsHeld() const;
  // The function of the kernel in which it waits.
  std::string WaitsIn() const;
  // Memory of the process that it shares with no other.
  int64_t PrivateBytes() const;
};

// What belongs to one worker.
struct WorkerEnd {
  Channel channel;  // The worker's end.
  Segment note;     // Its WorkerNote.
};

struct WorkerProcessOptions {
  std::string program = {};  // Empty: this program.
  spawn::StartMethod method = spawn::StartMethod::kSpawn;
  bool crash_stack = false;  // spawn::ProcessOptions
  int first = 0;             // The number of the first worker.
};

// Starts worker i for ends[i], in a process or in a thread of this process, and
// sets hosts[i]. After an error some may have been started.
// Errors: those of Process::StartEach(); kResourceExhausted at a limit of
// threads or descriptors.
absl::Status StartWorkerProcesses(
    std::vector<WorkerEnd> ends, const WorkerSetup& setup,
    const DatasetRecipe& recipe, const WorkerProcessOptions& how,
    const Segment& control, std::vector<std::unique_ptr<WorkerHost>>& hosts);
// `setup`, `recipe`, `control` and the notes, one for each end, outlive the
// workers.
absl::Status StartWorkerThreads(
    std::vector<WorkerEnd> ends, const WorkerSetup& setup,
    const DatasetRecipe& recipe, const WorkerControl& control,
    const std::vector<WorkerNote*>& notes,
    std::vector<std::unique_ptr<WorkerHost>>& hosts);

}  // namespace tenon::loader

#endif  // TENON_LOADER_WORKER_WORKER_HOST_H_
