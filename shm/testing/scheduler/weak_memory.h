// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// WeakMemory: the memory that logical threads share under the scheduler.
//
// A word keeps every value it ever had, in modification order. A thread has a
// view: for each word, the oldest value it may still see. A store is published
// at once, but a thread need not see it until its view has passed it; so a
// "delayed" store is one that other threads do not read yet. (After "A
// Promising Semantics for Relaxed-Memory Concurrency", Kang et al., POPL 2017,
// without the promises; for seq_cst after P0668 and RC11.)
//
//   load    any value not older than the view; the view moves there. Acquire
//           also joins the view that came with the value.
//   store   at any position newer than the view in modification order: mostly
//           at the end, sometimes before stores that the thread has not seen.
//           Release attaches the thread's view; relaxed attaches that of the
//           thread's last release fence.
//   RMW     a load and a store right behind the loaded value; no store comes in
//           between. Passes on the loaded value's view (release sequence).
//   fence   acquire joins the views of relaxed loads, release see above,
//           seq_cst is both and exchanges views with all seq_cst fences.
//   fence of all: a seq_cst fence of each thread, first and last of its caller.
//   seq_cst accesses of one word see each other in the order in which they
//           run, and everything that a seq_cst fence has seen.
//
// It produces exactly the outcomes that C++20 allows, except the following (all
// of it tested, also against the axioms: memory_axioms_test.cc,
// litmus_test.cc):
//   - no load reads from a store that runs later: load buffering (r1=y; x=1 ||
//     r2=x; y=1 giving 1, 1) is never seen. Some ARM and POWER chips and all
//     compilers may do it with relaxed accesses;
//   - the order of seq_cst is the order of running, so it contains
//     happens-before, also where C++20 requires only strongly-happens-before;
//   - consume is acquire. No accesses of mixed size, no 16-byte words.
// Produced, with orders that are too weak: store buffering (also beside a lone
// seq_cst store or RMW), message passing out of order, stores seen in different
// orders by different threads (IRIW), stores of one word ordered against
// program order of other words (2+2W), a broken release sequence.
//
// Happens-before is in the views as vector clocks, which find unsynchronised
// accesses to plain data: see PlainAccesses.

#ifndef TENON_SHM_TESTING_SCHEDULER_WEAK_MEMORY_H_
#define TENON_SHM_TESTING_SCHEDULER_WEAK_MEMORY_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tenon/shm/testing/scheduler/schedule_random.h"
#include "tenon/shm/testing/scheduler/word_history.h"

namespace tenon {

// Ownership: owns all values; a word is an index. Threads: thread-compatible;
// "thread" below is an index too. Failure: aborts beyond its limits.
class WeakMemory {
 public:
  static constexpr int kMaxThreads = 8;
  static constexpr int kMaxWords = 248;

  // By thread: the number of its plain accesses. By word: a position in its
  // modification order.
  using View = std::array<uint32_t, kMaxThreads + kMaxWords>;

  // The threads that have accessed a piece of plain data, and when by their own
  // clocks.
  struct PlainAccesses {
    int writer = -1;
    uint32_t written = 0;
    std::array<uint32_t, kMaxThreads> read = {};
  };

  struct Result {
    uint64_t value;       // The loaded value.
    bool newest = true;   // No thread had stored a newer one.
    uint64_t stored = 0;  // By a RMW.
    bool swapped = true;  // CompareExchange() only.
  };

  // Clears everything. Draws the lag of loads and stores in this schedule, and
  // then of each of them, from `random`, which must outlive the use.
  void Reset(ScheduleRandom* random);

  // A word of `bits` (32 or 64) with the initial value `value`, for all
  // threads.
  int AddWord(uint64_t value, int bits);

  Result Load(int thread, int word, std::memory_order order);
  void Store(int thread, int word, uint64_t value, std::memory_order order);
  // Returns the previous value.
  Result FetchAdd(int thread, int word, uint64_t value,
                  std::memory_order order);
  struct Swap {
    uint64_t expected;
    uint64_t desired;
  };
  Result CompareExchange(int thread, int word, Swap swap,
                         std::memory_order order);
  void Fence(int thread, std::memory_order order);
  // A seq_cst fence in each thread, at its present operation, like
  // membarrier().
  void FenceAll(int thread);

  // The thread waited for another one: its next load is likely to see the
  // newest value.
  void Pause(int thread) { threads_[thread].waited = true; }

  // All steps of `from` happen before the next step of `to`: a start, a join,
  // an observed end.
  void Synchronise(int from, int to) { JoinAll(threads_[from].view, to); }
  // The same through an object that carries a view.
  void Publish(int thread, View& view) const;
  void Observe(int thread, const View& view) { JoinAll(view, thread); }

  // One access to plain data. Returns the thread with which it races: one that
  // accessed the data, at least one of the two accesses being a write, without
  // an ordering between them; -1 if there is none.
  int ReadPlain(int thread, PlainAccesses& data);
  int WritePlain(int thread, PlainAccesses& data);

 private:
  using Message = WordHistory::Message;

  struct Thread {
    View view = {};
    View loaded = {};       // Added by the next acquire fence.
    ViewSnapshot released;  // Of the last release fence.
    bool waited = false;
  };

  uint32_t Oldest(int thread, int word, std::memory_order order) const;
  template <typename Accept>
  size_t PickLoad(int thread, const WordHistory& word, uint32_t oldest,
                  Accept accept);
  void Loaded(int thread, int word, const Message& message,
              std::memory_order order);
  uint64_t Modify(int thread, int word, size_t index, uint64_t value,
                  std::memory_order order);
  void JoinAll(const View& from, int thread);
  void Join(View& into, ViewSnapshot from) const;
  ViewSnapshot Save(const View& view);
  ViewSnapshot SaveJoined(const View& view, ViewSnapshot other);

  ScheduleRandom* random_ = nullptr;
  uint32_t stale_chance_ = 0;  // Of 256: that a load goes back one more value.
  // Of 256: that a store goes forward one more position.
  uint32_t displace_chance_ = 0;
  int words_used_ = 0;
  size_t slots_ = kMaxThreads;  // Used slots of a view.
  std::array<Thread, kMaxThreads> threads_;
  View sequential_ = {};  // The view of seq_cst accesses and fences.
  std::vector<WordHistory> words_;
  std::vector<uint32_t> snapshots_;
};

}  // namespace tenon

#endif  // TENON_SHM_TESTING_SCHEDULER_WEAK_MEMORY_H_
