// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/benchmarks/harness/pair.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "tenon/benchmarks/harness/subject.h"
#include "tenon/benchmarks/harness/turns.h"
#include "tenon/shm/arena/benchmark_support.h"
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/base/check.h"
#include "tenon/shm/process/pid_fd.h"
#include "tenon/shm/testing/forked_child.h"
#include "tenon/shm/testing/must.h"
#include "tenon/shm/testing/reporter.h"

namespace tenon::benchmarks {
namespace {

using A = StdAtomics;

// A row takes some minutes at most.
constexpr absl::Duration kWatchdog = absl::Hours(1);

constexpr uint64_t kLineRuns = 9, kLinesPerRun = 64;

// How often this thread has slept so far.
uint64_t Sleeps() {
  rusage usage;
  getrusage(RUSAGE_THREAD, &usage);
  return static_cast<uint64_t>(usage.ru_nvcsw);
}

// Spins for some 100 us, then sleeps now and then.
template <typename Ready>
void AwaitIdly(const Ready& ready) {
  constexpr int kSpins = 4096;
  for (int turn = 0; !ready(); ++turn) {
    if (turn < kSpins) {
      A::Pause();
    } else {
      usleep(100);
    }
  }
}

}  // namespace

Pair::Pair(absl::Span<const NamedSubject> subjects, const TwoCores& cores)
    : subjects_(subjects), cores_(cores) {
  const PidFd asker = Must(PidFd::Open(getpid()));
  child_.emplace(Must(
      ForkedChild::Fork({.name = "answering process", .watchdog = kWatchdog},
                        [&](const Reporter&) { Answer(asker); })));
  // Not before the fork: a child of several threads may inherit a held lock.
  second_thread_.emplace();
  for (const NamedSubject& named : subjects_) {
    if (named.subject) named.subject->BeginAsking(child_->pid_fd());
  }
  cores_.PinTo(0);
}

Pair::~Pair() {
  Begin(Words::kEnd, 0);
  TENON_CHECK(child_->EndsWell(), "the answering process has failed");
}

double Pair::Line() {
  std::vector<double> runs;
  Begin(Words::kLine, kLineRuns * kLinesPerRun);
  for (uint64_t run = 0; run < kLineRuns; ++run) {
    runs.push_back(Nanoseconds(CLOCK_MONOTONIC, [&] {
      for (uint64_t i = 0; i < kLinesPerRun; ++i) {
        A::Store(words_->ping, ++pings_, std::memory_order_release);
        Await(words_->pong, pings_);
      }
    }));
  }
  End();
  return QuartilesOf(std::move(runs)).median / kLinesPerRun;
}

Measured Pair::Run(size_t which, int count) {
  Subject& subject = *subjects_[which].subject;
  Begin(which, static_cast<uint64_t>(count));
  const uint64_t slept_before = Sleeps();
  uint64_t slept = 0;
  const double total_ns = Nanoseconds(CLOCK_MONOTONIC, [&] {
    subject.Ask(count);
    slept = Sleeps() - slept_before;
    End();
  });
  const uint64_t peer_slept = A::Load(words_->slept, std::memory_order_relaxed);
  return {.ns = subject.CostOf(total_ns) / count,
          .slept = static_cast<double>(std::min(slept, peer_slept)) / count};
}

// Returns when the answering process is ready.
void Pair::Begin(uint64_t order, uint64_t count) {
  A::Store(words_->order, order, std::memory_order_relaxed);
  A::Store(words_->count, count, std::memory_order_relaxed);
  A::Store(words_->turn, ++turn_, std::memory_order_release);
  if (order != Words::kEnd) Await(words_->ready, turn_);
}

void Pair::End() { Await(words_->done, turn_); }

void Pair::Await(const Word& word, uint64_t value) {
  for (uint64_t turn = 1;; ++turn) {
    if (A::Load(word, std::memory_order_acquire) == value) return;
    A::Pause();
    if (turn % (uint64_t{1} << 20) != 0) continue;
    TENON_CHECK(!child_->pid_fd().HasEnded(),
                "the answering process has ended");
  }
}

// ---- The answering process. ----

void Pair::Answer(const PidFd& asker) {
  const SecondThread second_thread;
  for (const NamedSubject& named : subjects_) {
    if (named.subject) named.subject->BeginAnswering(asker);
  }
  cores_.PinTo(1);
  for (uint64_t turn = 1;; ++turn) {
    AwaitIdly([&] {
      return A::Load(words_->turn, std::memory_order_acquire) == turn;
    });
    const uint64_t order = A::Load(words_->order, std::memory_order_relaxed);
    const uint64_t count = A::Load(words_->count, std::memory_order_relaxed);
    if (order == Words::kEnd) break;
    const uint64_t slept_before = Sleeps();
    A::Store(words_->ready, turn, std::memory_order_release);
    if (order == Words::kLine) {
      AnswerLines(count);
    } else {
      subjects_[order].subject->Answer(static_cast<int>(count));
    }
    A::Store(words_->slept, Sleeps() - slept_before, std::memory_order_relaxed);
    A::Store(words_->done, turn, std::memory_order_release);
  }
  for (const NamedSubject& named : subjects_) {
    if (named.subject) named.subject->EndAnswering();
  }
}

void Pair::AnswerLines(uint64_t count) {
  for (uint64_t i = 0; i < count; ++i) {
    ++pings_;
    SpinUntil([&] {
      return A::Load(words_->ping, std::memory_order_acquire) == pings_;
    });
    A::Store(words_->pong, pings_, std::memory_order_release);
  }
}

}  // namespace tenon::benchmarks
