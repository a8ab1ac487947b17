// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// CrashWatch: counts the passes of each crash point in this process, and takes
// an action at a chosen pass.
//
//   PassingCounts counts;                    // Shared with forked children.
//   if (fork() == 0) {
//     CrashWatch watch(counts, {{.point = "segment.named.created"}});
//     (void)Segment::CreateSharedWritable(4096, options);  // Dies in there.
//     _exit(0);
//   }
//   ...
//   EXPECT_EQ(counts.of("segment.named.created"), 1);
//
// kill_driver.h does this for every point, passing and role.

#ifndef TENON_SHM_TESTING_KILL_CRASH_WATCH_H_
#define TENON_SHM_TESTING_KILL_CRASH_WATCH_H_

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "tenon/shm/base/crash_point.h"

namespace tenon {

// The names of all crash points linked into this program that begin with
// `prefix`, sorted.
std::vector<std::string> CrashPointNames(absl::string_view prefix = "");

enum class CrashAction {
  kKill,  // SIGKILL to the process itself: no further instruction is executed.
  kStop,  // SIGSTOP to the process itself: continues after SIGCONT.
  kCall,  // A callback, in the passing thread.
};

struct CrashOrder {
  std::string point;     // As in the source.
  uint64_t passing = 1;  // The number of the pass; the first one is 1.
  CrashAction action = CrashAction::kKill;
  std::function<void()> call;  // For kCall.
};

// The number of passes of each point, in memory shared with the processes
// forked after its construction. So the counts of a killed process remain.
// Ownership: owns an anonymous shared mapping. Threads and processes: all calls
// are safe in any number of them.
// Failure: construction aborts if there is no memory.
class PassingCounts {
 public:
  PassingCounts();

  uint64_t of(absl::string_view point) const;
  // All points that have been passed.
  std::map<std::string, uint64_t> Passed() const;
  // The process that executed an order to kill or stop itself; 0: none yet. It
  // may be a child of the watched one.
  pid_t fired_by() const;
  void Reset();

 private:
  friend class CrashWatch;
  struct Unmap {
    size_t size_bytes;
    void operator()(std::atomic<uint64_t>* words) const;
  };

  // The pid that fired, then one word for each point.
  std::unique_ptr<std::atomic<uint64_t>[], Unmap> words_;
  size_t size_ = 0;
};

// Ownership: refers to `counts`, which must outlive it.
// Threads: points may be passed in all threads; no thread may still be passing
//   one when it is destroyed.
// Processes: a forked child inherits it, counts into the same counts and
//   executes the same orders: the process that makes the n-th pass overall
//   dies. exec() ends it.
// Failure: an order for a point that is not linked aborts, naming it.
class CrashWatch {
 public:
  // Replaces the present watch until this one is destroyed.
  explicit CrashWatch(PassingCounts& counts,
                      std::vector<CrashOrder> orders = {});
  ~CrashWatch();
  CrashWatch(const CrashWatch&) = delete;
  CrashWatch& operator=(const CrashWatch&) = delete;

 private:
  static void Hook(const CrashPoint& point);
  void Act(const CrashOrder& order);

  PassingCounts& counts_;
  const std::vector<CrashOrder> orders_;
  std::vector<size_t> indices_;  // Of the points of orders_.
  CrashWatch* former_;
  CrashPointHook former_hook_;
};

}  // namespace tenon

#endif  // TENON_SHM_TESTING_KILL_CRASH_WATCH_H_
