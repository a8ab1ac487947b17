// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm_manager/name_reclaimer.h"

#include <signal.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "tenon/shm/base/crash_point.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/fork_count.h"
#include "tenon/shm/base/size_text.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/thread_cpu_time.h"
#include "tenon/shm/base/thread_mutex.h"
#include "tenon/shm/segment/named_segments.h"
#include "tenon/shm/segment/segment.h"
#include "tenon/shm_manager/torch_file.h"

namespace tenon {
namespace {

// The pauses before the sweeps after a client's end. The first one lets the
// clients of a group that is killed share one sweep. A pidfd is readable after
// the kernel has dropped the locks of its process, but a socket may be closed
// before them, and a child may hold them a little longer.
constexpr absl::Duration kSweepPauses[] = {
    absl::Milliseconds(2), absl::Milliseconds(50), absl::Seconds(1)};
// After a sweep that found nothing, in multiples of its CPU time.
constexpr int kRest = 20;
// In about a millisecond; to wake the thread takes longer than to close a file.
constexpr size_t kQuicklyFreed = size_t{8} << 20;
// After a sweep, or a removal, that failed at a limit.
constexpr absl::Duration kRetryPause = absl::Seconds(1);

}  // namespace

absl::StatusOr<std::unique_ptr<NameReclaimer>> NameReclaimer::Start(
    LogFunction log) {
  std::unique_ptr<NameReclaimer> reclaimer(new NameReclaimer(std::move(log)));
  // Signals are for the user's threads.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  absl::Status status;
  try {
    reclaimer->thread_ = std::thread(&NameReclaimer::Loop, reclaimer.get());
  } catch (const std::system_error& e) {
    status = absl::ResourceExhaustedError(
        absl::StrCat("pthread_create: shm_manager: ", e.what()));
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  TENON_RETURN_IF_ERROR(status);
  return reclaimer;
}

NameReclaimer::~NameReclaimer() {
  if (!thread_.joinable()) return;
  if (!CheckNotForked(fork_count_, "shm_manager").ok()) {
    thread_.detach();  // There is none here.
    return;
  }
  {
    const ThreadLock lock(&mutex_);
    stopped_ = true;
    changed_.NotifyAll();
  }
  thread_.join();
}

void NameReclaimer::Schedule() {
  const ThreadLock lock(&mutex_);
  sweeps_left_ = std::size(kSweepPauses);
  sweep_at_ = Earlier(sweep_at_, Deadline::After(kSweepPauses[0]));
  changed_.NotifyAll();
}

void NameReclaimer::Release(Segment segment) {
  // The other holder, or the sweep after its death, removes the name. If it
  // does so at this very moment, the memory is freed here.
  if (segment.size_bytes() <= kQuicklyFreed && DropHoldOfName(segment.fd())) {
    TENON_CRASH_POINT("manager.name_dropped");
    return;
  }
  const ThreadLock lock(&mutex_);
  releases_.push_back(std::move(segment));
  ++pending_;
  changed_.NotifyAll();
}

void NameReclaimer::RemoveTorchName(std::string name) {
  const ThreadLock lock(&mutex_);
  torch_names_.push_back(std::move(name));
  changed_.NotifyAll();
}

size_t NameReclaimer::pending() const {
  const ThreadLock lock(&mutex_);
  return pending_;
}

NameReclaimer::Counts NameReclaimer::counts() const {
  const ThreadLock lock(&mutex_);
  return counts_;
}

bool NameReclaimer::CanRemoveTorchName() const {
  return !torch_names_.empty() && (stopped_ || torch_names_at_.has_passed());
}

absl::Duration NameReclaimer::SweepPause() const {
  return std::max(sweep_at_.Remaining(), rested_at_.Remaining());
}

absl::Duration NameReclaimer::Pause() const {
  if (stopped_ || !releases_.empty() || CanRemoveTorchName()) {
    return absl::ZeroDuration();
  }
  return torch_names_.empty()
             ? SweepPause()
             : std::min(SweepPause(), torch_names_at_.Remaining());
}

void NameReclaimer::Loop() {
  bool was_release = false;
  for (;;) {
    mutex_.Lock();
    for (auto pause = Pause(); pause > absl::ZeroDuration(); pause = Pause()) {
      changed_.WaitFor(&mutex_, pause);
    }
    // They take turns: a flood of one kind of work puts off no other.
    const bool sweeps = !stopped_ && SweepPause() <= absl::ZeroDuration();
    const bool releases =
        !releases_.empty() && !(was_release && CanRemoveTorchName());
    was_release = releases;
    if (!sweeps && releases) {
      Segment segment = std::move(releases_.front());
      releases_.pop_front();
      mutex_.Unlock();
      DoRelease(std::move(segment));
      continue;
    }
    if (!sweeps && CanRemoveTorchName()) {
      std::string name = std::move(torch_names_.front());
      torch_names_.pop_front();
      mutex_.Unlock();
      DoRemove(std::move(name));
      continue;
    }
    const bool stopped = stopped_;
    if (sweeps_left_ > 0) --sweeps_left_;
    sweep_at_ = sweeps_left_ > 0
                    ? Deadline::After(
                          kSweepPauses[std::size(kSweepPauses) - sweeps_left_])
                    : Deadline::Never();
    mutex_.Unlock();
    Sweep();
    if (stopped) return;
  }
}

void NameReclaimer::DoRelease(Segment segment) {
  const std::string name = segment.name();
  const uint64_t bytes = segment.size_bytes();
  { const Segment dropped = std::move(segment); }
  TENON_CRASH_POINT("manager.name_dropped");
  const absl::StatusOr<bool> removed = ReclaimDeadName(name);
  if (!removed.ok()) {
    Log(LogKind::kProblem, absl::StrCat("cannot remove '", name,
                                        "': ", removed.status().message()));
  } else if (*removed) {
    Log(LogKind::kEvent,
        absl::StrCat("removed '", name, "' (", SizeText(bytes), ")"));
  }
  const ThreadLock lock(&mutex_);
  --pending_;
  if (removed.ok() && *removed) {
    ++counts_.removed_names;
    counts_.removed_bytes += bytes;
  } else if (absl::IsResourceExhausted(removed.status())) {
    sweep_at_ = Earlier(sweep_at_, Deadline::After(kRetryPause));
  }
}

void NameReclaimer::DoRemove(std::string name) {
  const absl::StatusOr<std::optional<TorchFile>> removed =
      RemoveTorchFile(name);
  if (!removed.ok()) {
    Log(LogKind::kProblem, absl::StrCat("cannot remove '", name,
                                        "': ", removed.status().message()));
    const ThreadLock lock(&mutex_);
    if (absl::IsResourceExhausted(removed.status()) && !stopped_) {
      torch_names_.push_front(std::move(name));
      torch_names_at_ = Deadline::After(kRetryPause);
    }
    return;
  }
  if (!removed->has_value()) return;
  const uint64_t bytes = (*removed)->allocated_bytes;
  Log(LogKind::kEvent,
      absl::StrCat("removed '", name, "' (", SizeText(bytes), ")"));
  const ThreadLock lock(&mutex_);
  ++counts_.removed_names;
  counts_.removed_bytes += bytes;
}

void NameReclaimer::Sweep() {
  const absl::Duration begin = ThreadCpuTime();
  const absl::StatusOr<std::vector<NamedSegment>> removed = ReclaimDeadNames();
  const absl::Duration took = ThreadCpuTime() - begin;
  if (!removed.ok()) {
    Log(LogKind::kProblem,
        absl::StrCat("cannot examine names: ", removed.status().message()));
  } else {
    for (const NamedSegment& segment : *removed) {
      Log(LogKind::kEvent,
          absl::StrCat("removed '", segment.name, "' (",
                       SizeText(segment.allocated_bytes), ")"));
    }
  }
  const ThreadLock lock(&mutex_);
  ++counts_.sweeps;
  if (!removed.ok()) {
    ++counts_.failed_sweeps;
    if (absl::IsResourceExhausted(removed.status())) {
      sweep_at_ = Earlier(sweep_at_, Deadline::After(kRetryPause));
    }
  } else {
    counts_.removed_names += removed->size();
    for (const NamedSegment& segment : *removed) {
      counts_.removed_bytes += segment.allocated_bytes;
    }
  }
  const bool found = removed.ok() && !removed->empty();
  rested_at_ = Deadline::After(found ? took : kRest * took);
}

void NameReclaimer::Log(LogKind kind, const std::string& line) const {
  if (log_) log_(kind, line);
}

}  // namespace tenon
