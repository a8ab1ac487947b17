// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// NameReclaimer: removes dead names in a thread of its own, because freeing
// memory takes the kernel about 0.1 s per GiB, during which the daemon serves.

#ifndef TENON_SHM_MANAGER_NAME_RECLAIMER_H_
#define TENON_SHM_MANAGER_NAME_RECLAIMER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/fork_count.h"
#include "tenon/shm/base/thread_mutex.h"
#include "tenon/shm/segment/segment.h"

namespace tenon {

enum class LogKind { kEvent, kProblem };

// Called with a line for the log; may be null. Thread-safe. While it blocks,
// its caller does.
using LogFunction = std::function<void(LogKind, const std::string&)>;

// Ownership: owns the thread and the segments to be released.
// Threads: thread-compatible, but for counts(), which is thread-safe.
// Processes: in a forked child it may only be destroyed.
class NameReclaimer {
 public:
  struct Counts {
    uint64_t sweeps = 0;  // Calls of ReclaimDeadNames().
    uint64_t failed_sweeps = 0;
    uint64_t removed_names = 0;
    uint64_t removed_bytes = 0;
  };

  // Begins with a sweep. Errors: kResourceExhausted if no thread can be made.
  static absl::StatusOr<std::unique_ptr<NameReclaimer>> Start(LogFunction log);

  // Finishes all releases, and sweeps once more. Blocks meanwhile.
  ~NameReclaimer();
  NameReclaimer(const NameReclaimer&) = delete;
  NameReclaimer& operator=(const NameReclaimer&) = delete;

  // A process has ended: sweeps soon, and twice more. A sweep that is due is
  // not put off by a further call. After one that found nothing there is none
  // for 20 times the CPU time that it took: they never take more than 5% of a
  // core.
  void Schedule();

  // Ceases to hold a segment, and removes its name if no process holds it; at a
  // limit of descriptors a sweep does that later.
  void Release(Segment segment);

  // Removes the name of a file of torch whose holders have ended. Is repeated
  // at a limit of descriptors, every second until the destructor.
  void RemoveTorchName(std::string name);

  // Releases that are not finished.
  size_t pending() const;

  Counts counts() const;

 private:
  explicit NameReclaimer(LogFunction log) : log_(std::move(log)) {}

  void Loop();
  bool CanRemoveTorchName() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Duration SweepPause() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The pause before the next work; zero if there is some.
  absl::Duration Pause() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DoRelease(Segment segment);
  void DoRemove(std::string name);
  void Sweep();
  void Log(LogKind kind, const std::string& line) const;

  const LogFunction log_;
  const uint64_t fork_count_ = ForkCount();
  mutable ThreadMutex mutex_;
  ThreadCondition changed_;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<Segment> releases_ ABSL_GUARDED_BY(mutex_);
  std::deque<std::string> torch_names_ ABSL_GUARDED_BY(mutex_);
  Deadline torch_names_at_ ABSL_GUARDED_BY(mutex_) = Deadline::Passed();
  size_t pending_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t sweeps_left_ ABSL_GUARDED_BY(mutex_) = 0;
  Deadline sweep_at_ ABSL_GUARDED_BY(mutex_) = Deadline::Passed();
  Deadline rested_at_ ABSL_GUARDED_BY(mutex_) = Deadline::Passed();
  Counts counts_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace tenon

#endif  // TENON_SHM_MANAGER_NAME_RECLAIMER_H_
