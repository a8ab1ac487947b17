// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// WeakMemory: the memory that logical threads share under the scheduler.
//
// A word keeps every value it ever had, in modification order. A thread has a
// view: for each word, the oldest value it may still see. A store is published
// at once, but nobody has to see it until his view has passed it; so a store
// that is "delayed" is one that others do not look at yet. (After "A Promising
// Semantics for Relaxed-Memory Concurrency", Kang et al., POPL 2017, without
// the promises; for seq_cst after P0668 and RC11.)
//
//   load    any value not older than the view; the view moves there. Acquire
//           also joins the view that came with the value.
//   store   at any place newer than the view in the modification order: mostly
//           at the end, sometimes before stores that the thread has not seen.
//           Release sends the thread's view along; relaxed sends what the
//           thread's last release fence saw.
//   RMW     a load and a store right behind what it loaded; nothing comes in
//           between. Passes on the view of what it loaded (release sequence).
//   fence   acquire joins what relaxed loads brought, release see above,
//           seq_cst is both and exchanges views with all seq_cst fences.
//   fence of all: a seq_cst fence of each thread, first and last of its caller.
//   seq_cst accesses of one word see each other in the order in which they
//           run, and what a seq_cst fence has seen.
//
// What it produces is what C++20 allows, less these, and nothing else (all of
// it tested, against the axioms too: memory_axioms_test.cc, litmus_test.cc):
//   - no load reads from a store that runs later: load buffering (r1=y; x=1 ||
//     r2=x; y=1 giving 1, 1) is never seen. Some ARM and POWER chips and all
//     compilers may do it with relaxed accesses;
//   - the order of seq_cst is the order of running, so it contains
//     happens-before, also where C++20 asks only for strongly-happens-before;
//   - consume is acquire. No accesses of mixed size, no 16-byte words.
// Produced, with orders that are too weak: store buffering (also beside a lone
// seq_cst store or RMW), message passing out of order, stores seen in
// different orders by different threads (IRIW), stores of one word ordered
// against program order of other words (2+2W), a broken release sequence.
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

  // By thread: how many plain accesses it had made. By word: a place in its
  // modification order.
  using View = std::array<uint32_t, kMaxThreads + kMaxWords>;

  // Who has accessed a piece of plain data, and when by his own clock.
  struct PlainAccesses {
    int writer = -1;
    uint32_t written = 0;
    std::array<uint32_t, kMaxThreads> read = {};
  };

  struct Result {
    uint64_t value;       // What was loaded.
    bool newest = true;   // Nobody had stored a newer one.
    uint64_t stored = 0;  // By a RMW.
    bool swapped = true;  // CompareExchange() only.
  };

  // Forgets everything. Draws from `random`, which must outlive the use, how
  // far loads and stores lag in this schedule, and then each of them.
  void Reset(ScheduleRandom* random);

  // A word of `bits` (32 or 64) which holds `value`, for all threads.
  int AddWord(uint64_t value, int bits);

  Result Load(int thread, int word, std::memory_order order);
  void Store(int thread, int word, uint64_t value, std::memory_order order);
  // Returns what was there.
  Result FetchAdd(int thread, int word, uint64_t value,
                  std::memory_order order);
  struct Swap {
    uint64_t expected;
    uint64_t desired;
  };
  Result CompareExchange(int thread, int word, Swap swap,
                         std::memory_order order);
  void Fence(int thread, std::memory_order order);
  // A seq_cst fence in each thread, wherever it is: what membarrier() does.
  void FenceAll(int thread);

  // The thread waited for somebody: its next load is likely to see the newest.
  void Pause(int thread) { threads_[thread].waited = true; }

  // All that `from` did happens before what `to` does now: a start, a join, an
  // end that was seen.
  void Synchronise(int from, int to) { JoinAll(threads_[from].view, to); }
  // The same through an object that carries a view.
  void Publish(int thread, View& view) const;
  void Observe(int thread, const View& view) { JoinAll(view, thread); }

  // One access to plain data. Returns the thread with which it races: one that
  // accessed the data, at least one of the two writing, with nothing that
  // orders the accesses; -1 if there is none.
  int ReadPlain(int thread, PlainAccesses& data);
  int WritePlain(int thread, PlainAccesses& data);

 private:
  using Message = WordHistory::Message;

  struct Thread {
    View view = {};
    View loaded = {};       // What an acquire fence will add.
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
  uint32_t stale_chance_ = 0;     // Of 256: that a load goes one further back.
  uint32_t displace_chance_ = 0;  // That a store goes one further forward.
  int words_used_ = 0;
  size_t slots_ = kMaxThreads;  // Of a view that are in use.
  std::array<Thread, kMaxThreads> threads_;
  View sequential_ = {};  // What seq_cst accesses and fences have seen.
  std::vector<WordHistory> words_;
  std::vector<uint32_t> snapshots_;
};

}  // namespace tenon

#endif  // TENON_SHM_TESTING_SCHEDULER_WEAK_MEMORY_H_
