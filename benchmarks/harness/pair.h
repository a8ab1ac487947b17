// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Pair: the two processes of a row, each on a core of its own.

#ifndef TENON_BENCHMARKS_HARNESS_PAIR_H_
#define TENON_BENCHMARKS_HARNESS_PAIR_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "tenon/benchmarks/harness/subject.h"
#include "tenon/shm/arena/benchmark_support.h"
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/testing/forked_child.h"
#include "tenon/shm/testing/shared_object.h"
#include "tenon/shm/testing/two_cores.h"

namespace tenon::benchmarks {

// The cost of one run of a subject.
struct Measured {
  double ns = 0;     // For one hand-over; NaN: not measured.
  double slept = 0;  // Sleeps for one hand-over, of the side with fewer.
};

// The calling process asks, a forked one answers. Between turns the latter
// sleeps, so that other programs may use its core.
// Ownership: `subjects` outlive it. Both processes end their part when it is
//   destroyed. Threads: one; the process has one thread when it is created.
// Failure: aborts, and the answering process with it.
class Pair {
 public:
  Pair(absl::Span<const NamedSubject> subjects, const TwoCores& cores);
  ~Pair();
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;

  // A cache line there and back, in nanoseconds: the median of short runs.
  double Line();
  Measured Run(size_t subject, int count);

 private:
  using Word = SharedWord<uint64_t>;
  struct Words {
    // Orders: a subject's index, or one of these.
    static constexpr uint64_t kLine = ~uint64_t{0}, kEnd = kLine - 1;

    alignas(64) Word turn{0};
    Word order{0};
    Word count{0};
    alignas(64) Word ready{0};  // Turns that were begun,
    Word done{0};               // and ended, by the answering process.
    Word slept{0};              // In the last one.
    alignas(64) Word ping{0};
    alignas(64) Word pong{0};
  };

  void Answer(const PidFd& asker);
  void AnswerLines(uint64_t count);
  void Begin(uint64_t order, uint64_t count);
  void End();
  void Await(const Word& word, uint64_t value);

  const absl::Span<const NamedSubject> subjects_;
  const TwoCores& cores_;
  const KeepAffinity affinity_;
  const SharedObject<Words> words_;
  std::optional<ForkedChild> child_;
  std::optional<SecondThread> second_thread_;
  uint64_t turn_ = 0;
  uint64_t pings_ = 0;
};

}  // namespace tenon::benchmarks

#endif  // TENON_BENCHMARKS_HARNESS_PAIR_H_
