// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// LogicalThreads: the threads of one schedule. They are fibers, of which one
// runs at a time; at every Point() the strategy selects the next one.
// Independent of their operations; Schedule (schedule.h) adds the memory.
//
// Thread 0 is the body: the stack that calls Run().

#ifndef TENON_SHM_TESTING_SCHEDULER_LOGICAL_THREADS_H_
#define TENON_SHM_TESTING_SCHEDULER_LOGICAL_THREADS_H_

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tenon/shm/testing/scheduler/fiber.h"
#include "tenon/shm/testing/scheduler/schedule_random.h"
#include "tenon/shm/testing/scheduler/schedule_strategy.h"
#include "tenon/shm/testing/scheduler/schedule_trace.h"

namespace tenon {

struct ScheduleOptions {
  ScheduleStrategyKind strategy = ScheduleStrategyKind::kMixed;
  int change_points = 3;  // See ScheduleStrategyKind::kPriorities.
  int max_kills = 0;      // Of killable threads, in one schedule.
  // A longer schedule fails: a livelock.
  uint32_t max_steps = 20000;
};

// Ownership: owns the fibers, and reuses them in successive schedules. A thread
// that is killed, or has not ended when the schedule fails, is abandoned: its
// stack is not unwound.
// Threads: belongs to one OS thread. Failure: wrong use aborts; failures of a
// schedule are in failure().
class LogicalThreads {
 public:
  static constexpr int kBody = 0;
  static constexpr int kMaxThreads = ScheduleStrategy::kMaxThreads;

  // Writes ends and kills to `trace`, which must outlive this.
  LogicalThreads(const ScheduleOptions& options, ScheduleTrace* trace)
      : options_(options), trace_(trace) {}

  // Begins a schedule, which uses `random` until its end.
  void Reset(ScheduleRandom* random);

  // Call before Run(). `name` is not copied. A killable thread may die at any
  // of its operations. Returns its number.
  int Add(const char* name, std::function<void()> run, bool killable);

  // Runs all threads until they have ended, or one has failed; once.
  void Run();

  // --- By the thread that is running; the body does not switch. ---

  // Before an operation visible to other threads. Does not return in a thread
  // that dies here.
  void Point() {
    if (running_) Switch();
  }
  // Before an operation invisible to other threads.
  void QuietPoint() { CountOperation(); }
  // In an iteration of a loop that waits for other threads. Also a scheduling
  // point.
  void Pause();
  // A store: the condition of a paused thread may now hold.
  void Changed() { strategy_.Changed(); }
  // Blocks until Wake(event), or thread `or_end_of` (-1: none) has ended. Also
  // a scheduling point.
  void Block(const void* event, int or_end_of);
  void Wake(const void* event);
  // Ends the schedule. No object that owns memory may be on the stack of the
  // thread: NoteFailure() first, then Stop(), which returns in the body only.
  // Only the first failure counts.
  void NoteFailure(std::string what);
  void Stop();

  int current() const { return current_; }
  int count() const { return count_; }  // With the body.
  bool running() const { return running_; }
  bool has_run() const { return has_run_; }
  const char* name(int thread) const { return threads_[thread].name; }
  std::vector<std::string> names() const;
  bool ended(int thread) const { return threads_[thread].ended; }
  bool killed(int thread) const { return threads_[thread].killed; }
  bool anyone_killed() const { return anyone_killed_; }
  const std::string& failure() const { return failure_; }
  uint32_t steps() const { return steps_; }
  ScheduleStrategyKind strategy() const { return strategy_.kind(); }

  // Expects schedules about as long as the last one, so that change points and
  // kills fall into them.
  void ExpectAsLast();

 private:
  struct Thread {
    const char* name = "body";
    std::function<void()> run;
    bool killable = false;
    bool killed = false;
    bool ended = false;
    uint32_t operations = 0;
    uint32_t dies_at = UINT32_MAX;  // Instead of the operation of that number.
    const void* waits_for = nullptr;
    int or_end_of = -1;
  };

  static void Main(void* self);
  void Switch();
  void SwitchTo(int thread);
  void CountOperation();
  [[noreturn]] void Die();
  void End(bool killed);
  int PickNextOrBody();
  std::string NamesOfBlocked() const;
  void DrawKills();

  const ScheduleOptions options_;
  ScheduleTrace* const trace_;
  ScheduleRandom* random_ = nullptr;
  ScheduleStrategy strategy_;
  std::array<Thread, kMaxThreads> threads_;
  std::array<std::unique_ptr<Fiber>, kMaxThreads> fibers_;  // By thread.
  uint32_t parked_ = 0;  // Bit t: that fiber is between two threads.
  int count_ = 1;
  int current_ = kBody;
  bool running_ = false;
  bool has_run_ = false;
  bool anyone_killed_ = false;
  uint32_t runnable_ = 0;  // Bit t: thread t.
  uint32_t steps_ = 0;
  std::string failure_;
  uint32_t expected_steps_ = 64;
  std::array<uint32_t, kMaxThreads> expected_operations_ = {};
};

}  // namespace tenon

#endif  // TENON_SHM_TESTING_SCHEDULER_LOGICAL_THREADS_H_
