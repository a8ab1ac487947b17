// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/benchmarks/futures/future_rows.h"

#include <memory>
#include <string>
#include <vector>

#include "tenon/benchmarks/harness/peer_program.h"
#include "tenon/benchmarks/harness/subject.h"
#include "tenon/futures/benchmark_support.h"
#include "tenon/shm/base/check.h"

namespace tenon::benchmarks {
namespace {

constexpr char kFuture[] = "tenon.future";
constexpr char kByHand[] = "hand.mutex";

// By futures and by hand: `size` links or futures; returns the final value.
struct Works {
  int (*future)(int size);
  int (*by_hand)(int size);
};
constexpr Works kChain = {futures::FutureChain, futures::PlainChain};
constexpr Works kCollect = {futures::FutureCollectAll,
                            futures::PlainCollectAll};

class OneThreadWork : public Subject {
 public:
  OneThreadWork(int (*work)(int), int size, int expected)
      : work_(work), size_(size), expected_(expected) {}

  void Ask(int count) override {
    for (int i = 0; i < count; ++i) {
      TENON_CHECK(work_(size_) == expected_, "a future has another value");
    }
  }

 private:
  int (*const work_)(int);
  const int size_;
  const int expected_;
};

NamedSubject Named(const std::string& name, int (*work)(int), int size,
                   int expected) {
  return {.name = name,
          .subject = std::make_unique<OneThreadWork>(work, size, expected)};
}

// A turn runs each of `works`, of `size`, `count` times.
struct Measure {
  Works works;
  int size = 0;
  int expected = 0;
  int count = 1;  // Some hundred microseconds.
};

Row FutureRow(const std::string& name, const std::string& what,
              const Measure& measure, const PeerPlace& peers) {
  return {.name = name,
          .what = what,
          .limit = kByHand,
          .count = measure.count,
          .crosses_cores = false,
          .subjects = [=] {
            std::vector<NamedSubject> all;
            all.push_back(Named(kByHand, measure.works.by_hand, measure.size,
                                measure.expected));
            all.push_back(Named(kFuture, measure.works.future, measure.size,
                                measure.expected));
            all.push_back(FindPeer("libtorch", name, peers));
            return all;
          }};
}

}  // namespace

std::vector<Row> FutureRows(const PeerPlace& peers) {
  return {
      FutureRow("future.set_wait", "a future created, set and waited for",
                {.works = kChain, .size = 0, .expected = 0, .count = 4096},
                peers),
      FutureRow("future.then", "the same with one Then()",
                {.works = kChain, .size = 1, .expected = 1, .count = 2048},
                peers),
      FutureRow("future.chain_1000", "a chain of 1,000 Then(), set, waited for",
                {.works = kChain, .size = 1000, .expected = 1000, .count = 8},
                peers),
      FutureRow(
          "future.collect_1000",
          "1,000 futures collected, each set; the result waited for and read",
          {.works = kCollect,
           .size = 1000,
           .expected = 1000 * 999 / 2,
           .count = 8},
          peers),
  };
}

}  // namespace tenon::benchmarks
