// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Works: the two halves of a hand-over, over any Link. A Link has
// two Ends, one for each process:
//
//   Item New()         a new tensor, 4 KiB if the link has no other size
//   Bytes(item)        its memory
//   Put(item)          to the other end. PutKeeping(): the caller has it, too
//   Item Get()         from the other end; spins. GetAsleep(): sleeps
//   Release(item)
//   AwaitTaken()       until all that was put is taken; some links only
//
//   unique_ptr<End> Asker(), Answerer()    each called in its process

#ifndef TENON_BENCHMARKS_HANDOVER_WORKS_H_
#define TENON_BENCHMARKS_HANDOVER_WORKS_H_

#include <time.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "tenon/benchmarks/harness/subject.h"
#include "tenon/shm/arena/benchmark_support.h"
#include "tenon/shm/process/pid_fd.h"

namespace tenon::benchmarks {

// The same tensor there and back, each time.
template <typename End>
struct Forwarded {
  static void Ask(End& end, int count) {
    typename End::Item item = end.New();
    for (int i = 0; i < count; ++i) {
      end.PutKeeping(item);
      end.Release(end.Get());
    }
    end.Release(std::move(item));
  }
  static void Answer(End& end, int count) {
    for (int i = 0; i < count; ++i) end.Put(end.Get());
  }
};

// A new tensor each way.
template <typename End>
struct New {
  static void Ask(End& end, int count) {
    for (int i = 0; i < count; ++i) {
      end.Put(end.New());
      end.Release(end.Get());
    }
  }
  static void Answer(End& end, int count) {
    for (int i = 0; i < count; ++i) {
      end.Release(end.Get());
      end.Put(end.New());
    }
  }
};

// Plain memory, written before.
inline std::span<const std::byte> PlainBytes(size_t size) {
  static std::vector<std::byte> bytes;
  if (bytes.size() < size) bytes.resize(size, std::byte{1});
  return std::span(bytes).first(size);
}

// A new tensor that is filled from plain memory: copied into, unless its end
// creates tensors from bytes.
template <typename End>
typename End::Item NewFilled(End& end) {
  if constexpr (requires { end.NewFrom(PlainBytes(0)); }) {
    return end.NewFrom(PlainBytes(end.bytes()));
  } else {
    typename End::Item item = end.New();
    const auto to = end.Bytes(item);
    std::memcpy(to.data(), PlainBytes(to.size()).data(), to.size());
    return item;
  }
}

// A new tensor each way, filled.
template <typename End>
struct Filled {
  static void Ask(End& end, int count) {
    for (int i = 0; i < count; ++i) {
      end.Put(NewFilled(end));
      end.Release(end.Get());
    }
  }
  static void Answer(End& end, int count) {
    for (int i = 0; i < count; ++i) {
      end.Release(end.Get());
      end.Put(NewFilled(end));
    }
  }
};

// New tensors one after the other, filled.
template <typename End>
struct StreamFilled {
  static void Ask(End& end, int count) {
    for (int i = 0; i < count; ++i) end.Put(NewFilled(end));
  }
  static void Answer(End& end, int count) {
    for (int i = 0; i < count; ++i) end.Release(end.Get());
  }
};

// A new tensor there, and the receipt back that it was taken.
template <typename End>
struct Receipted {
  static void Ask(End& end, int count) {
    for (int i = 0; i < count; ++i) {
      end.Put(end.New());
      end.AwaitTaken();
    }
  }
  static void Answer(End& end, int count) {
    for (int i = 0; i < count; ++i) end.Release(end.Get());
  }
};

// The work between two hand-overs: long enough for the peer to fall asleep.
inline constexpr double kWorkNs = 100e3;
inline void WorkAWhile() {
  const double until = Seconds(CLOCK_MONOTONIC) + kWorkNs * 1e-9;
  while (Seconds(CLOCK_MONOTONIC) < until) {
  }
}
// Both processes work once for each hand-over.
inline double WithoutWork(double total_ns, int count) {
  return total_ns - 2 * kWorkNs * count;
}

// As Forwarded, but each end sleeps until its message comes.
template <typename End>
struct ForwardedAsleep {
  static void Ask(End& end, int count) {
    typename End::Item item = end.New();
    for (int i = 0; i < count; ++i) {
      end.PutKeeping(item);
      end.Release(end.GetAsleep());
      WorkAWhile();
    }
    end.Release(std::move(item));
  }
  static void Answer(End& end, int count) {
    for (int i = 0; i < count; ++i) {
      typename End::Item item = end.GetAsleep();
      WorkAWhile();
      end.Put(std::move(item));
    }
  }
  static double CostOf(double total_ns, int count) {
    return WithoutWork(total_ns, count);
  }
};

template <typename Link, template <typename> typename Work>
class TwoProcesses : public Subject {
 public:
  using End = typename Link::End;

  template <typename... Arguments>
  explicit TwoProcesses(const Arguments&... of_link) : link_(of_link...) {}

  void BeginAsking(const PidFd&) override { end_ = link_.Asker(); }
  void BeginAnswering(const PidFd&) override { end_ = link_.Answerer(); }
  void EndAnswering() override { end_.reset(); }
  void Ask(int count) override {
    Work<End>::Ask(*end_, count);
    count_ = count;
  }
  void Answer(int count) override { Work<End>::Answer(*end_, count); }
  double CostOf(double total_ns) const override {
    if constexpr (requires { Work<End>::CostOf(total_ns, count_); }) {
      return Work<End>::CostOf(total_ns, count_);
    }
    return total_ns;
  }

 private:
  Link link_;
  std::unique_ptr<End> end_;
  int count_ = 0;
};

// Both ends in one thread, so that no cache line moves: the instructions of one
// of the two calls. A get includes the release.
enum class Half { kPut, kGet };

template <typename Link, Half half>
class OneThread : public Subject {
 public:
  void BeginAsking(const PidFd&) override {
    from_ = link_.Asker();
    to_ = link_.Answerer();
  }
  void Ask(int count) override {
    constexpr int kAtOnce = 32;
    ns_ = 0;
    const auto timed = [&](Half which, const auto& work) {
      const double ns = Nanoseconds(CLOCK_MONOTONIC, work);
      if (which == half) ns_ += ns;
    };
    typename Link::End::Item item = from_->New();
    for (int done = 0; done < count; done += kAtOnce) {
      const int now = std::min(kAtOnce, count - done);
      timed(Half::kPut, [&] {
        for (int i = 0; i < now; ++i) from_->PutKeeping(item);
      });
      timed(Half::kGet, [&] {
        for (int i = 0; i < now; ++i) to_->Release(to_->Get());
      });
    }
    from_->Release(std::move(item));
  }
  double CostOf(double) const override { return ns_; }

 private:
  Link link_;
  std::unique_ptr<typename Link::End> from_, to_;
  double ns_ = 0;
};

// A new tensor that is dropped again.
template <typename Link>
class CreateAndDrop : public Subject {
 public:
  void BeginAsking(const PidFd&) override { end_ = link_.Asker(); }
  void Ask(int count) override {
    for (int i = 0; i < count; ++i) end_->Release(end_->New());
  }

 private:
  Link link_;
  std::unique_ptr<typename Link::End> end_;
};

}  // namespace tenon::benchmarks

#endif  // TENON_BENCHMARKS_HANDOVER_WORKS_H_
