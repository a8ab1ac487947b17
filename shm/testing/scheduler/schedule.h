// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Schedule: several logical threads on one OS thread, interleaved by a seed.
//
// Explore() (explore.h) makes one for each seed and passes it to the body of
// the test, which sets up shared state, adds threads, runs them, and checks:
//
//   [](Schedule& schedule) {
//     SharedWord<uint64_t> head{0};
//     schedule.Name(head, "head");
//     schedule.AddThread("producer", [&] { ... SimAtomics::Store(head, ...) });
//     schedule.AddThread("consumer", [&] { ... TENON_SIM_CHECK(n == 1); });
//     schedule.Run();
//     TENON_SIM_CHECK(SimAtomics::Load(head, relaxed) == 2);
//   }
//
// A logical thread may stand for a thread or for a process. It runs until its
// next operation of SimAtomics or SimEvent, or HasEnded(): each is a scheduling
// point, where the strategy selects the next thread. Access to plain data
// (SimVar) is not: without a race no thread could see the difference.
//
// Kills. A killable thread may end before any of its operations, those on plain
// data included, like a process by SIGKILL: its stack is not unwound. Its
// stores remain, as the store buffer of a killed process drains; a thread that
// learns of its end by HasEnded(), as by a pidfd, sees all of them, and other
// threads may see them late.
//
// The body must do the same whenever it is called: no time, addresses or random
// numbers of its own. It is called more often than there are seeds. Threads own
// no heap memory across an operation, because a killed thread, and every thread
// once a check has failed, is abandoned. A loop without operations hangs the
// test.

#ifndef TENON_SHM_TESTING_SCHEDULER_SCHEDULE_H_
#define TENON_SHM_TESTING_SCHEDULER_SCHEDULE_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include "absl/functional/function_ref.h"
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/testing/scheduler/logical_threads.h"
#include "tenon/shm/testing/scheduler/schedule_random.h"
#include "tenon/shm/testing/scheduler/schedule_trace.h"
#include "tenon/shm/testing/scheduler/weak_memory.h"
#include "tenon/shm/testing/scheduler/word_table.h"

// Fails the schedule unless `condition` holds. A logical thread does not
// continue after that; in the body itself the failure is recorded and the body
// continues.
#define TENON_SIM_CHECK(condition) \
  ((condition)                     \
       ? static_cast<void>(0)      \
       : ::tenon::Schedule::Current().Fail(__FILE__, __LINE__, #condition))

namespace tenon {

// Threads: belongs to one OS thread; several OS threads may each have their
// own. Failure: a failed check is a value, failure(); wrong use aborts.
class Schedule {
 public:
  using Body = absl::FunctionRef<void(Schedule&)>;

  explicit Schedule(const ScheduleOptions& options);
  Schedule(const Schedule&) = delete;
  Schedule& operator=(const Schedule&) = delete;

  // --- For bodies and their threads. ---

  // The schedule that is running on this OS thread; aborts if there is none.
  static Schedule& Current();

  // Call before Run(); at most seven times. Returns the number of the thread.
  // `name` is not copied.
  int AddThread(const char* name, std::function<void()> run) {
    return threads_.Add(name, std::move(run), /*killable=*/false);
  }
  int AddKillableThread(const char* name, std::function<void()> run) {
    return threads_.Add(name, std::move(run), /*killable=*/true);
  }

  // Runs the threads to their ends; once in each schedule. The body's steps
  // before the call happen before them, and they before the body's later steps.
  void Run();

  // Names a word in traces, as name or name[index]. `name` is not copied.
  template <SharedWordValue T>
  void Name(const SharedWord<T>& word, const char* name, int index = -1) {
    labels_[Find(word)] = {name, index};
  }

  // Whether the thread has been killed or has returned. Its steps happen before
  // a true result.
  bool HasEnded(int thread);

  // The actual state, for checks: neither a scheduling point nor an ordering.
  bool was_killed(int thread) const { return threads_.killed(thread); }
  bool anyone_was_killed() const { return threads_.anyone_killed(); }

  // See TENON_SIM_CHECK. Only the first failure counts.
  void Fail(const char* file, int line, const char* what);

  // --- For Explore(). ---

  // Measures the length of a schedule of this body, so that change points and
  // kills fall into it. Its failure, if any, does not count.
  void Measure(Body body);
  // Runs one schedule. Keeps its trace if `keep_trace`, which takes longer.
  void RunSeed(uint64_t seed, Body body, bool keep_trace);

  // Of the last schedule. The failure is empty if all checks held.
  const std::string& failure() const { return threads_.failure(); }
  uint32_t steps() const { return threads_.steps(); }
  uint64_t fingerprint() const { return trace_.fingerprint(); }
  std::string trace() const { return trace_.ToString(threads_.names()); }
  const char* strategy() const { return ToString(threads_.strategy()); }

 private:
  friend struct SimAtomics;
  friend class SimEvent;
  template <typename T>
  friend class SimVar;

  static_assert(WordTable::kMaxWords >= WeakMemory::kMaxWords);
  static_assert(LogicalThreads::kMaxThreads <= WeakMemory::kMaxThreads);

  // The word's index in memory_. Initialised with the memory's value.
  template <SharedWordValue T>
  int Find(const SharedWord<T>& word) {
    int& index = table_.Find(word.address());
    if (index < 0) index = AddWord(*word.address(), 8 * sizeof(T));
    return index;
  }
  int AddWord(uint64_t value, int bits);

  // The operations of SimAtomics.
  uint64_t Load(int word, std::memory_order order);
  void Store(int word, uint64_t value, std::memory_order order);
  uint64_t FetchAdd(int word, uint64_t value, std::memory_order order);
  WeakMemory::Result CompareExchange(int word, WeakMemory::Swap swap,
                                     std::memory_order order);
  void Fence(std::memory_order order);
  void FenceAll();
  void Pause();

  // Those of SimVar.
  void ReadPlain(WeakMemory::PlainAccesses& data, const ScheduleEvent& event);
  void WritePlain(WeakMemory::PlainAccesses& data, const ScheduleEvent& event);
  void FailRace(const ScheduleEvent& event, int with);

  ScheduleRandom random_{0};
  ScheduleTrace trace_;
  WeakMemory memory_;
  LogicalThreads threads_;
  WordTable table_;
  std::array<ScheduleLabel, WeakMemory::kMaxWords> labels_;
};

}  // namespace tenon

#endif  // TENON_SHM_TESTING_SCHEDULER_SCHEDULE_H_
